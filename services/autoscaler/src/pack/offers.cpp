#include "offers.hpp"

#include "qm/base/parse.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace qm::autoscaler::pack {
namespace {

using Op = Operator;
using Mentioned = std::map<std::string, std::set<std::string>>;  // values that pods name, by label
using Conditions = std::map<std::string, std::vector<const NodeRequirement*>>;

constexpr std::size_t kMostVariants = 256;
constexpr std::string_view kNoPodMentions = "quartermaster";

Mentioned mentioned_by(const std::vector<Pod>& pods) {
  Mentioned out;
  for (const auto& pod : pods) {
    for (const auto& [key, value] : pod.node_selector) out[key].insert(value);
    for (const auto& term : pod.required) {
      for (const auto& one : term) out[one.key].insert(one.values.begin(), one.values.end());
    }
  }
  return out;
}

/// Labels whose values the type or the cloud sets: a NodePool cannot add them to a node.
bool set_by_cloud(const std::string& key) {
  return key.starts_with("karpenter.k8s.aws/") || key.starts_with("topology.") || key == "kubernetes.io/arch" ||
         key == "kubernetes.io/os" || key == kTypeLabel || key == kCapacityTypeLabel;
}

/// The values that a label may have on a launched node; a null value is a node without the label.
std::vector<std::optional<std::string>> choices(const std::vector<const NodeRequirement*>& conditions,
                                                const std::set<std::string>& mentioned, bool absent) {
  std::vector<std::optional<std::string>> out;
  const auto allowed = [&](const std::string* value) {
    return std::ranges::all_of(conditions, [&](const auto* one) { return holds(*one, value); });
  };
  const auto add = [&](const std::string& value) {
    if (allowed(&value) && std::ranges::find(out, value) == out.end()) out.emplace_back(value);
  };
  const auto listed = std::ranges::find(conditions, Op::kIn, [](const auto* one) { return one->op; });
  if (listed != conditions.end()) {
    if (!absent) {
      for (const auto& value : (*listed)->values) add(value);
    }
    std::ranges::sort(out);
    return out;
  }
  if (allowed(nullptr)) return {std::nullopt};
  if (absent) return {};
  for (const auto& value : mentioned) {
    add(value);
    if (const auto number = whole_number(value)) {
      add(std::to_string(*number - 1));
      add(std::to_string(*number + 1));
    }
  }
  add(std::string(kNoPodMentions));
  for (const auto* one : conditions) {
    if (one->values.size() != 1) continue;
    if (const auto number = whole_number(one->values.front())) {
      for (const std::int64_t shift : {0, 1, -1}) add(std::to_string(*number + shift));
    }
  }
  return out;
}

class TypeOffers {
 public:
  TypeOffers(const Problem& problem, const Mentioned& mentioned) : pool_(problem.pool), mentioned_(mentioned) {}

  Status add(const InstanceType& type, std::size_t number, std::vector<Offer>& out) const {
    Conditions conditions;
    for (const auto& one : pool_.requirements) conditions[one.key].push_back(&one);
    std::set<std::string> own;
    for (const auto& one : type.requirements) {
      conditions[one.key].push_back(&one);
      own.insert(one.key);
    }
    for (std::size_t i = 0; i < type.offerings.size(); ++i) {
      const auto& offering = type.offerings[i];
      if (!offering.available) continue;
      Labels labels = pool_.labels;
      labels[std::string(kZoneLabel)] = offering.zone;
      labels[std::string(kCapacityTypeLabel)] = offering.capacity_type;
      labels[std::string(kTypeLabel)] = type.name;
      std::vector<Labels> variants{labels};
      for (const auto& [key, all] : conditions) {
        if (!extend(variants, key, all, !own.contains(key) && set_by_cloud(key))) {
          return fail(
              {Code::kInvalid,
               fmt::format("instance type {} has more than {} combinations of label values", type.name, kMostVariants),
               "types", "list fewer values in its requirements and in those of the NodePool"});
        }
      }
      for (auto& variant : variants) out.push_back({number, i, 0, offering.price, std::move(variant)});
    }
    return {};
  }

 private:
  /// Adds the label to all variants: each value is a variant of its own if a pod has a condition on the label.
  bool extend(std::vector<Labels>& variants, const std::string& key, const std::vector<const NodeRequirement*>& all,
              bool absent) const {
    if (variants.empty()) return true;
    if (const auto* value = value_of(variants.front(), key)) {
      if (!std::ranges::all_of(all, [&](const auto* one) { return holds(*one, value); })) variants.clear();
      return true;
    }
    const auto found = mentioned_.find(key);
    auto values = choices(all, found == mentioned_.end() ? std::set<std::string>{} : found->second, absent);
    if (found == mentioned_.end() && values.size() > 1) values.resize(1);
    std::vector<Labels> out;
    for (const auto& variant : variants) {
      for (const auto& value : values) {
        out.push_back(variant);
        if (value) out.back()[key] = *value;
      }
    }
    variants = std::move(out);
    return variants.size() <= kMostVariants;
  }

  const NodePool& pool_;
  const Mentioned& mentioned_;
};

}  // namespace

const std::string* value_of(const Labels& labels, const std::string& key) {
  const auto found = labels.find(key);
  return found == labels.end() ? nullptr : &found->second;
}

bool matches(const NodeTerm& term, const Labels& labels) {
  return !term.empty() &&
         std::ranges::all_of(term, [&](const auto& one) { return holds(one, value_of(labels, one.key)); });
}

bool admits(const Pod& pod, const Labels& labels) {
  for (const auto& [key, wanted] : pod.node_selector) {
    const auto* value = value_of(labels, key);
    if (value == nullptr || *value != wanted) return false;
  }
  return pod.required.empty() ||
         std::ranges::any_of(pod.required, [&](const auto& term) { return matches(term, labels); });
}

bool above_limit(const NodePool& pool, const InstanceType& type) {
  return (pool.cpu_limit_milli && type.cpu_milli > *pool.cpu_limit_milli) ||
         (pool.memory_limit_bytes && type.memory_bytes > *pool.memory_limit_bytes);
}

Result<Offers> offers_of(const Problem& problem) {
  Offers out;
  const Mentioned mentioned = mentioned_by(problem.pods);
  const TypeOffers types(problem, mentioned);
  for (std::size_t i = 0; i < problem.types.size(); ++i) {
    if (!above_limit(problem.pool, problem.types[i])) QM_TRY(types.add(problem.types[i], i, out.list));
  }
  for (const auto& offer : out.list) out.zones.push_back(offer.labels.at(std::string(kZoneLabel)));
  std::ranges::sort(out.zones);
  out.zones.erase(std::unique(out.zones.begin(), out.zones.end()), out.zones.end());
  for (auto& offer : out.list) {
    const auto found = std::ranges::lower_bound(out.zones, offer.labels.at(std::string(kZoneLabel)));
    offer.zone = static_cast<std::size_t>(found - out.zones.begin());
  }
  return out;
}

}  // namespace qm::autoscaler::pack
