// Selectors against the resources of an account.
#include "qm/autoscaler/node_class/resolve.hpp"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace qm::autoscaler {
namespace {

using config::NodeClass;
using config::NodeClassTerm;

/// As a filter of EC2: '*' is any text and '?' any character.
bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

bool has_tags(const NodeClassTerm& term, const cloud::Tags& tags) {
  return std::ranges::all_of(term.tags, [&](const auto& wanted) {
    const auto tag = tags.find(wanted.first);
    return tag != tags.end() && matches(wanted.second, tag->second);
  });
}

bool selects(const NodeClassTerm& term, const cloud::Subnet& subnet) {
  return (term.id.empty() || term.id == subnet.id) && has_tags(term, subnet.tags);
}
bool selects(const NodeClassTerm& term, const cloud::SecurityGroup& group) {
  return (term.id.empty() || term.id == group.id) && (term.name.empty() || matches(term.name, group.name)) &&
         has_tags(term, group.tags);
}
bool selects(const NodeClassTerm& term, const cloud::CapacityReservation& one) {
  return (term.id.empty() || term.id == one.id) && (term.owner.empty() || term.owner == one.owner) &&
         (term.match_criteria.empty() || term.match_criteria == one.match_criteria) && has_tags(term, one.tags);
}
/// Without an owner: images of the account and of Amazon, so that no third party can offer one under the name.
bool selects(const NodeClassTerm& term, const cloud::Image& image) {
  if (!term.id.empty()) return term.id == image.id;
  const bool owned = term.owner.empty()     ? image.own || image.owner_alias == "amazon"
                     : term.owner == "self" ? image.own
                                            : term.owner == image.owner || term.owner == image.owner_alias;
  return owned && (term.name.empty() || matches(term.name, image.name)) && has_tags(term, image.tags);
}

template <class T>
std::vector<T> selected(const std::vector<NodeClassTerm>& terms, const std::vector<T>& all) {
  std::vector<T> out;
  std::set<std::string> ids;
  for (const T& one : all) {
    const bool wanted = std::ranges::any_of(terms, [&](const NodeClassTerm& term) { return selects(term, one); });
    if (wanted && ids.insert(one.id).second) out.push_back(one);
  }
  std::ranges::sort(out, {}, &T::id);
  return out;
}

std::string words_of_all(const std::vector<NodeClassTerm>& terms) {
  std::vector<std::string> all;
  for (const auto& term : terms) all.push_back(words_of(term));
  return fmt::format("{}", fmt::join(all, " or "));
}

/// The images of a class, each once for each set of accelerators.
std::vector<ResolvedImage> images_of(const NodeClass& node_class, const Inventory& inventory,
                                     std::string_view kubernetes_version) {
  std::vector<ResolvedImage> out;
  const auto add = [&](const cloud::Image& image, const std::vector<Accelerator>& accelerators) {
    const bool usable = image.state.empty() || image.state == "available";
    const bool known = std::ranges::any_of(
        out, [&](const ResolvedImage& one) { return one.image.id == image.id && one.accelerators == accelerators; });
    if (usable && !known) out.push_back({image, accelerators});
  };
  for (const ImageParameter& parameter : image_parameters(node_class, kubernetes_version)) {
    const auto id = inventory.parameters.find(parameter.name);
    if (id == inventory.parameters.end()) continue;
    for (cloud::Image image : inventory.images) {
      if (image.id != id->second) continue;
      if (!parameter.architecture.empty()) image.architecture = parameter.architecture;
      add(image, parameter.accelerators);
    }
  }
  for (const NodeClassTerm& term : node_class.images) {
    if (!term.alias.empty() || !term.ssm_parameter.empty()) continue;
    for (const cloud::Image& image : inventory.images) {
      if (selects(term, image)) add(image, {});
    }
  }
  const auto rank = [](const ResolvedImage& one) {
    return std::tuple(one.image.deprecated, -micros(one.image.created), one.image.name, one.image.id, one.accelerators);
  };
  std::ranges::sort(out, {}, rank);
  return out;
}

}  // namespace

std::string_view name_of(Accelerator accelerator) {
  return accelerator == Accelerator::kNvidia ? "nvidia" : accelerator == Accelerator::kNeuron ? "neuron" : "standard";
}

void sort_subnets(std::vector<cloud::Subnet>& subnets) {
  std::ranges::sort(subnets, {}, [](const cloud::Subnet& one) { return std::pair(-one.free_addresses, one.id); });
}

std::string words_of(const NodeClassTerm& term) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, const std::string& value) {
    if (!value.empty()) parts.push_back(fmt::format("{} {}", name, value));
  };
  add("alias", term.alias);
  add("id", term.id);
  add("name", term.name);
  add("owner", term.owner);
  add("ssmParameter", term.ssm_parameter);
  add("instanceMatchCriteria", term.match_criteria);
  for (const auto& [key, value] : term.tags) parts.push_back(fmt::format("tag {}={}", key, value));
  return fmt::format("{}", fmt::join(parts, " and "));
}

ClassResources resources_of(const ResolvedClass& resolved) {
  ClassResources out;
  std::set<std::pair<std::string, Accelerator>> covered;
  for (const ResolvedImage& one : resolved.images) {
    const auto accelerators = one.accelerators.empty()
                                  ? std::vector{Accelerator::kNone, Accelerator::kNvidia, Accelerator::kNeuron}
                                  : one.accelerators;
    bool first = false;
    for (const Accelerator accelerator : accelerators)
      first |= covered.emplace(one.image.architecture, accelerator).second;
    if (first) out.images.push_back(one.image.id);
  }
  for (const auto& one : resolved.subnets) out.subnets.push_back(one.id);
  for (const auto& one : resolved.security_groups) out.security_groups.push_back(one.id);
  for (auto* ids : {&out.images, &out.subnets, &out.security_groups}) std::ranges::sort(*ids);
  return out;
}

ResolvedClass resolve(const NodeClass& node_class, const Inventory& inventory, std::string_view kubernetes_version) {
  ResolvedClass out;
  out.node_class = node_class;
  const auto fault = [&](const char* condition, const char* field, std::string what, std::string_view remedy) {
    out.faults.push_back({condition, fmt::format("spec.{}", field),
                          fmt::format("EC2NodeClass {}: {}; {}", node_class.name, what, remedy)});
  };
  out.images = images_of(node_class, inventory, kubernetes_version);
  if (out.images.empty()) {
    std::vector<std::string> names;
    for (const auto& parameter : image_parameters(node_class, kubernetes_version)) names.push_back(parameter.name);
    fault(
        "AMIsReady", "amiSelectorTerms",
        fmt::format("no available image matches {}{}", words_of_all(node_class.images),
                    names.empty() ? std::string() : fmt::format(" (searched parameters: {})", fmt::join(names, ", "))),
        "correct amiSelectorTerms, or share the image with this account");
  }
  out.subnets = selected(node_class.subnets, inventory.subnets);
  sort_subnets(out.subnets);
  if (out.subnets.empty()) {
    fault("SubnetsReady", "subnetSelectorTerms", "no subnet matches " + words_of_all(node_class.subnets),
          "tag a subnet, or correct subnetSelectorTerms");
  }
  out.security_groups = selected(node_class.security_groups, inventory.security_groups);
  if (out.security_groups.empty()) {
    fault("SecurityGroupsReady", "securityGroupSelectorTerms",
          "no security group matches " + words_of_all(node_class.security_groups),
          "tag a security group, or correct securityGroupSelectorTerms");
  }
  // A class with reservations is usable without them: on-demand and spot capacity remain.
  out.reservations = selected(node_class.reservations, inventory.reservations);
  std::erase_if(out.reservations, [](const auto& one) { return one.state != "active"; });
  const std::string& id = node_class.placement_group_id;
  const std::string& name = node_class.placement_group_name;
  if (!id.empty() || !name.empty()) {
    const auto group = std::ranges::find_if(inventory.placement_groups, [&](const cloud::PlacementGroup& one) {
      return (id.empty() ? one.name == name : one.id == id) && (one.state.empty() || one.state == "available");
    });
    if (group != inventory.placement_groups.end()) {
      out.placement_group = *group;
    } else {
      fault("PlacementGroupReady", "placementGroupSelector",
            fmt::format("there is no placement group with {} {}", id.empty() ? "name" : "id", id.empty() ? name : id),
            "create it, or correct placementGroupSelector");
    }
  }
  if (node_class.ami_family.starts_with("Windows") || node_class.ami_family == "Ubuntu") {
    fault("ValidationSucceeded", "amiFamily",
          fmt::format("instances of the family {} are not launched", node_class.ami_family),
          "use AL2023, Bottlerocket, AL2, or Custom with your own userData");
  }
  return out;
}

}  // namespace qm::autoscaler
