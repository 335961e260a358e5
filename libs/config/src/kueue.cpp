// Kueue's kinds, v1beta1 and v1beta2. The rules between fields are those of Kueue's webhooks.
#include "fields.hpp"

#include <limits>
#include <optional>
#include <set>

namespace qm::config {
namespace {

constexpr std::int64_t kInt32Min = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();

struct ResourceQuota {
  std::string name;
  Quantity nominal;
  std::optional<Quantity> borrowing_limit, lending_limit;
};

Field<ResourceQuota> limit(std::string_view name, std::optional<Quantity> ResourceQuota::*member) {
  return custom<ResourceQuota>(name, [member](const Cursor& at, ResourceQuota& out) {
    Quantity quantity;
    if (read_quantity(at, quantity)) out.*member = quantity;
  });
}

const Table<ResourceQuota>& resource_table() {
  static const Table<ResourceQuota> table{
      required(text("name", &ResourceQuota::name)),
      required(custom<ResourceQuota>("nominalQuota",
                                     [](const Cursor& at, ResourceQuota& out) { read_quantity(at, out.nominal); })),
      limit("borrowingLimit", &ResourceQuota::borrowing_limit), limit("lendingLimit", &ResourceQuota::lending_limit)};
  return table;
}

void read_resources(const Cursor& at, FlavorQuota& out) {
  each_item(at, [&](const Cursor& item) {
    ResourceQuota quota;
    read_object(item, resource_table(), quota);
    if (quota.name.empty()) return;
    if (!out.nominal.emplace(quota.name, quota.nominal).second) {
      item.member("name").error(fmt::format("\"{}\" is given twice", quota.name), "keep one entry for each resource");
    }
    check_amount(item.member("nominalQuota"), quota.name, quota.nominal);
    if (quota.borrowing_limit) check_amount(item.member("borrowingLimit"), quota.name, *quota.borrowing_limit);
    if (quota.borrowing_limit) out.borrowing_limit[quota.name] = *quota.borrowing_limit;
    if (!quota.lending_limit) return;
    out.lending_limit[quota.name] = *quota.lending_limit;
    if (!at.scope->failed() && *quota.lending_limit > quota.nominal) {
      item.member("lendingLimit")
          .error(fmt::format("{} is more than the nominalQuota {}", quota.lending_limit->to_string(),
                             quota.nominal.to_string()),
                 "lower lendingLimit to the nominalQuota, or raise nominalQuota");
    }
  });
}

const Table<FlavorQuota>& flavor_table() {
  static const Table<FlavorQuota> table{required(text("name", &FlavorQuota::flavor)),
                                        required(custom<FlavorQuota>("resources", read_resources))};
  return table;
}

/// Each flavor has quota for exactly the covered resources; a resource or flavor is in one group only.
void check_groups(const Cursor& at, const std::vector<ResourceGroup>& groups) {
  std::set<std::string> resources, flavors;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Cursor group = at.item(g);
    const std::set<std::string> covered(groups[g].covered.begin(), groups[g].covered.end());
    if (covered.empty())
      group.member("coveredResources").error("is empty", "list the resources that this group has quotas for");
    for (const std::string& resource : groups[g].covered) {
      if (!resources.insert(resource).second) {
        group.member("coveredResources")
            .error(fmt::format("\"{}\" is covered twice", resource), "list each resource in one resource group, once");
      }
    }
    for (std::size_t f = 0; f < groups[g].flavors.size(); ++f) {
      const FlavorQuota& flavor = groups[g].flavors[f];
      const Cursor place = group.member("flavors").item(f);
      if (!flavors.insert(flavor.flavor.value()).second) {
        place.member("name").error(fmt::format("flavor \"{}\" is used twice", flavor.flavor), "use each flavor once");
      }
      for (const auto& [resource, quota] : flavor.nominal) {
        if (!covered.contains(resource)) {
          place.member("resources")
              .error(fmt::format("\"{}\" is not listed in coveredResources of its group", resource),
                     "add it to coveredResources, or remove it here");
        }
      }
      for (const std::string& resource : covered) {
        if (!flavor.nominal.contains(resource)) {
          place.member("resources")
              .error(fmt::format("\"{}\" is listed in coveredResources and has no quota in this flavor", resource),
                     "add a nominalQuota for it, which may be 0");
        }
      }
    }
  }
}

template <class T>
Field<T> resource_groups() {
  static const Table<ResourceGroup> table{required(texts("coveredResources", &ResourceGroup::covered)),
                                          required(list("flavors", &ResourceGroup::flavors, flavor_table()))};
  return custom<T>("resourceGroups", [](const Cursor& at, T& out) {
    each_item(at, [&](const Cursor& item) { read_object(item, table, out.groups.emplace_back()); });
    if (!at.scope->failed()) check_groups(at, out.groups);
  });
}

void read_fair_weight(const Cursor& at, ClusterQueue& out) {
  Quantity weight;
  if (read_quantity(at, weight)) out.fair_weight_milli = weight.milli();
}

Table<ClusterQueue> cluster_queue_table(bool v1beta2) {
  using T = ClusterQueue;
  Table<T> spec{
      resource_groups<T>(),
      one_of("queueingStrategy", &T::queueing_strategy, {"StrictFIFO", "BestEffortFIFO"}),
      group<T>("preemption",
               {one_of("reclaimWithinCohort", &T::reclaim_within_cohort, {"Never", "LowerPriority", "Any"}),
                one_of("withinClusterQueue", &T::within_cluster_queue,
                       {"Never", "LowerPriority", "LowerOrNewerEqualPriority"}),
                group<T>("borrowWithinCohort", {one_of("policy", &T::borrow_within_cohort, {"Never", "LowerPriority"}),
                                                kept<T>("maxPriorityThreshold")})}),
      group<T>("fairSharing", {custom<T>("weight", read_fair_weight)}),
      one_of("stopPolicy", &T::stop_policy, {"None", "Hold", "HoldAndDrain"}),
      kept<T>("namespaceSelector"),
      kept<T>("flavorFungibility"),
      kept<T>("admissionChecks"),
      kept<T>("admissionChecksStrategy"),
      kept<T>("admissionScope"),
      kept<T>("concurrentAdmissionPolicy")};
  if (v1beta2) {
    spec.push_back(text("cohortName", &T::cohort));
    spec.push_back(renamed<T>("cohort", "cohortName"));
  } else {
    spec.push_back(text("cohort", &T::cohort));
    spec.push_back(renamed<T>("cohortName", "cohort"));
  }
  return with_identity<T>({required(group<T>("spec", std::move(spec)))});
}

void check_cluster_queue(const Cursor& root, const ClusterQueue& queue) {
  const Cursor spec = root.member("spec");
  if (queue.reclaim_within_cohort == "Never" && queue.borrow_within_cohort != "Never") {
    spec.member("preemption")
        .member("borrowWithinCohort")
        .error("needs reclaimWithinCohort, which is Never",
               "set reclaimWithinCohort to LowerPriority or Any, or remove borrowWithinCohort");
  }
  if (!queue.cohort.empty()) return;
  for (std::size_t g = 0; g < queue.groups.size(); ++g) {
    for (std::size_t f = 0; f < queue.groups[g].flavors.size(); ++f) {
      const FlavorQuota& flavor = queue.groups[g].flavors[f];
      const bool borrows = !flavor.borrowing_limit.empty();
      if (!borrows && flavor.lending_limit.empty()) continue;
      spec.member("resourceGroups")
          .item(g)
          .member("flavors")
          .item(f)
          .member("resources")
          .error(
              fmt::format("has a {}, and the ClusterQueue has no cohort", borrows ? "borrowingLimit" : "lendingLimit"),
              "set the cohort of the ClusterQueue, or remove the limit");
    }
  }
}

Typed read_cluster_queue(const Cursor& root, std::string_view version) {
  static const Table<ClusterQueue> v1beta1 = cluster_queue_table(false);
  static const Table<ClusterQueue> v1beta2 = cluster_queue_table(true);
  ClusterQueue queue;
  read_object(root, version == "v1beta2" ? v1beta2 : v1beta1, queue);
  if (!root.scope->failed()) check_cluster_queue(root, queue);
  return queue;
}

Typed read_local_queue(const Cursor& root, std::string_view) {
  using T = LocalQueue;
  static const Table<T> table = with_identity<T>(
      {required(group<T>("spec", {required(text("clusterQueue", &T::cluster_queue)),
                                  one_of("stopPolicy", &T::stop_policy, {"None", "Hold", "HoldAndDrain"}),
                                  kept<T>("fairSharing"), kept<T>("wallTimePolicy")}))});
  LocalQueue queue;
  queue.ns = Namespace("default");
  read_object(root, table, queue);
  return queue;
}

Typed read_cohort(const Cursor& root, std::string_view) {
  using T = Cohort;
  static const Table<T> table = with_identity<T>(
      {group<T>("spec", {text("parentName", &T::parent), resource_groups<T>(), kept<T>("fairSharing")})});
  Cohort cohort;
  read_object(root, table, cohort);
  if (!cohort.name.empty() && cohort.parent == cohort.name) {
    root.member("spec")
        .member("parentName")
        .error(fmt::format("{} is its own parent", cohort.name), "name another Cohort, or remove the field");
  }
  return cohort;
}

Typed read_resource_flavor(const Cursor& root, std::string_view) {
  using T = ResourceFlavor;
  static const Table<T> table = with_identity<T>(
      {group<T>("spec", {labels("nodeLabels", &T::node_labels), list("nodeTaints", &T::node_taints, taint_table()),
                         list("tolerations", &T::tolerations, toleration_table()), kept<T>("topologyName")})});
  ResourceFlavor flavor;
  read_object(root, table, flavor);
  return flavor;
}

/// `spec.value` is not in Kueue's schema but occurs in practice: the value is used, with a warning.
void read_priority_in_spec(const Cursor& at, PriorityClass& out) {
  static const Table<PriorityClass> table{integer("value", &PriorityClass::value, kInt32Min, kInt32Max),
                                          kept<PriorityClass>("description")};
  at.warn("is not a field of WorkloadPriorityClass; its value is used",
          "move value and description to the top level, where an API server expects them");
  read_object(at, table, out);
}

Typed read_workload_priority_class(const Cursor& root, std::string_view) {
  using T = PriorityClass;
  static const Table<T> table = with_identity<T>({integer("value", &T::value, kInt32Min, kInt32Max),
                                                  kept<T>("description"), custom<T>("spec", read_priority_in_spec)});
  PriorityClass priority;
  priority.workload_only = true;
  read_object(root, table, priority);
  if (root.member("value").value->is_null() && root.member("spec").member("value").value->is_null()) {
    root.member("value").error("is missing", "add the field value");
  }
  return priority;
}

}  // namespace

std::vector<KindReader> kueue_kinds() {
  const std::vector<std::string_view> versions{"v1beta1", "v1beta2"};
  constexpr std::string_view kGroup = "kueue.x-k8s.io";
  return {{kGroup, versions, "ClusterQueue", read_cluster_queue},
          {kGroup, versions, "LocalQueue", read_local_queue},
          {kGroup, versions, "Cohort", read_cohort},
          {kGroup, versions, "ResourceFlavor", read_resource_flavor},
          {kGroup, versions, "WorkloadPriorityClass", read_workload_priority_class}};
}

}  // namespace qm::config
