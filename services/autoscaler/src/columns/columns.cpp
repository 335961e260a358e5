// The columns of a NodePool: its requirements and labels together, compared with the labels of each instance type.
#include "qm/autoscaler/columns/columns.hpp"

#include "qm/autoscaler/columns/type_facts.hpp"
#include "qm/autoscaler/requirements/keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::autoscaler {
namespace {

const std::string kField = "spec.template.spec.requirements";
constexpr std::size_t kMostRequirements = 100;

Error not_ready(std::string field, std::string message, std::string remedy) {
  return Error{Code::kInvalid, std::move(message), std::move(field), std::move(remedy)};
}

Status check_key(const std::string& key, const std::string& field) {
  if (is_restricted(key)) {
    return fail(not_ready(field, fmt::format("the label {} is restricted", key),
                          "use a well-known label, or one of your own domain"));
  }
  if (!is_supported(key)) {
    return fail(not_ready(field, fmt::format("requirements on the label {} are not supported", key),
                          "remove it, or name instance types instead"));
  }
  return {};
}

/// All requirements and labels of the template together.
Result<Requirements> gathered(const NodeTemplate& from) {
  Requirements out;
  if (from.requirements.size() > kMostRequirements) {
    return fail(not_ready(
        kField, fmt::format("{} requirements, at most {} are allowed", from.requirements.size(), kMostRequirements),
        "merge requirements on one label"));
  }
  for (std::size_t i = 0; i < from.requirements.size(); ++i) {
    const std::string field = fmt::format("{}[{}]", kField, i);
    auto requirement = requirement_of(from.requirements[i]);
    if (!requirement) {
      Error error = requirement.error();
      error.field = fmt::format("{}.{}", field, error.field);
      return fail(error);
    }
    QM_TRY(check_key(requirement->key, field));
    const Requirement* known = out.find(requirement->key);
    const bool common = known == nullptr || intersects(*known, *requirement);
    if (!common) {
      return fail(not_ready(field,
                            fmt::format("{} has no value in common with {}", words_of(*requirement), words_of(*known)),
                            "change one of the requirements"));
    }
    out.add(*requirement);
  }
  for (const auto& [key, value] : from.labels) {
    const auto label = exactly(key, value);
    // A label of another cloud is an ordinary one here; a well-known one is a requirement.
    if (is_restricted(label.key) || is_well_known(label.key))
      QM_TRY(check_key(label.key, fmt::format("spec.template.metadata.labels[{}]", key)));
    if (const Requirement* known = out.find(label.key); known != nullptr && !known->has(value)) {
      return fail(not_ready(fmt::format("spec.template.metadata.labels[{}]", key),
                            fmt::format("its value {} is not in {}", value, words_of(*known)),
                            "change the label or the requirement"));
    }
    out.add(label);
  }
  return out;
}

void remove_other_regions(const Requirement& region, std::vector<std::string>& zones) {
  std::erase_if(zones, [&](const auto& zone) { return !region.has(region_of(zone)); });
}

Status fill_zones(const Requirements& all, Columns& out) {
  const Requirement* zone = all.find(std::string(words::kZone));
  const Requirement* region = all.find(std::string(kRegion));
  if (zone != nullptr) {
    // No zone is a number, and every instance has one.
    if (zone->op() == Operator::kDoesNotExist || zone->gte || zone->lte) {
      return fail(not_ready(kField, fmt::format("no zone satisfies {}", words_of(*zone)), "use In or NotIn"));
    }
    (zone->complement ? out.not_zones : out.zones) = zone->values;
  }
  if (region == nullptr) return {};
  if (out.zones.empty()) {
    return fail(not_ready(kField, fmt::format("a requirement on {} alone does not select zones", kRegion),
                          fmt::format("list the zones in a requirement on {}", words::kZone)));
  }
  remove_other_regions(*region, out.zones);
  if (!out.zones.empty()) return {};
  return fail(not_ready(kField, fmt::format("no listed zone is in a region of {}", words_of(*region)), "change one"));
}

/// The keys that a type, or the offering, defines.
bool is_open(const Requirement& requirement, const Requirements& node) {
  return node.find(requirement.key) == nullptr && requirement.key != words::kZone && requirement.key != kRegion &&
         requirement.key != words::kCapacityType;
}

/// The number of different values that the label has on these instance types.
std::size_t distinct_values(const std::vector<Requirements>& types, const std::string& key) {
  std::set<std::string> values;
  for (const auto& type : types) {
    if (const Requirement* label = type.find(key); label != nullptr && !label->complement)
      values.insert(label->values.begin(), label->values.end());
  }
  return values.size();
}

Status check_min_values(const Columns& columns, const std::vector<Requirements>& types) {
  for (const auto& [key, wanted] : columns.min_values) {
    std::size_t have = distinct_values(types, key);
    if (key == words::kCapacityType)
      have = (columns.on_demand ? 1U : 0U) + (columns.spot ? 1U : 0U) + (columns.reserved ? 1U : 0U);
    if (key == words::kZone) have = columns.zones.empty() ? static_cast<std::size_t>(wanted) : columns.zones.size();
    if (have >= static_cast<std::size_t>(wanted)) continue;
    return fail(not_ready(kField,
                          fmt::format("minValues {} of {}: the allowed instance types have {}", wanted, key, have),
                          "lower minValues, or allow more instance types"));
  }
  return {};
}

}  // namespace

Result<Columns> columns_of(const NodeTemplate& node_template) {
  QM_ASSIGN(const auto all, gathered(node_template));
  Columns out;
  QM_TRY(fill_zones(all, out));
  std::vector<Requirements> types;
  for (const auto& type : catalog::types()) {
    auto labels = node_labels(type);
    if (type.usd_hour.empty() || labels.disjoint_key(all)) continue;
    out.instance_types.emplace_back(type.name);
    types.push_back(std::move(labels));
  }
  const Requirement* capacity = all.find(std::string(words::kCapacityType));
  out.on_demand = capacity == nullptr || capacity->has("on-demand");
  out.spot = capacity == nullptr || capacity->has("spot");
  out.reserved = capacity == nullptr || capacity->has("reserved");
  if (!out.on_demand && !out.spot && !out.reserved) {
    return fail(not_ready(kField, fmt::format("no supported capacity type satisfies {}", words_of(*capacity)),
                          "allow on-demand, spot or reserved"));
  }
  const auto node = node_labels(catalog::types().front());
  for (const auto& [key, requirement] : all.by_key()) {
    if (requirement.min_values) out.min_values[key] = *requirement.min_values;
    if (is_open(requirement, node) && !node_template.labels.contains(key)) {
      out.open.push_back(requirement);
      out.open.back().min_values.reset();  // a node has one value
    }
  }
  QM_TRY(check_min_values(out, types));
  return out;
}

}  // namespace qm::autoscaler
