// The quota tree: available and potential amounts, shares, and the usage after adding and removing workloads.
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

std::string cell_name(const World& world, std::size_t field, Cell c) {
  for (const auto& [at, cell] : world.planted.cells.at(field)) {
    if (cell == c) return world.objects.flavors[at.first] + "/" + world.objects.resources[at.second];
  }
  return {};
}

Json shown(std::int64_t amount) { return amount == kUnlimited ? Json("Unlimited") : Json(amount); }

std::string shown(const Share& share) {
  if (share.weight == 0 && share.ratio > 0) return "+Inf";
  auto text = fmt::format("{}", share.weighted());
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

/// Compares amounts by "flavor/resource"; absent amounts count as zero.
template <class Fn>
std::string compare(const World& world, std::size_t field, const std::string& what, const Json& expected, Fn&& amount) {
  for (const auto& [name, cell] : world.planted.cells.at(field)) {
    (void)name;
    const auto key = cell_name(world, field, cell);
    if (!expected.contains(key)) continue;
    if (!(shown(amount(cell)) == expected[key])) {
      return fmt::format("{} {} is {} where {} was recorded", what, key, shown(amount(cell)).dump(),
                         expected[key].dump());
    }
  }
  return {};
}

std::string compare_node(const World& world, std::size_t field, Node node, const std::string& name,
                         const Json& expected) {
  const auto& tree = world.planted.fields.at(field).tree;
  const auto part = [&](const char* what, auto&& amount) {
    return compare(world, field, name + "'s " + what, expected[what], amount);
  };
  if (auto text = part("subtreeQuota", [&](Cell c) { return tree.subtree(node, c); }); !text.empty()) return text;
  if (auto text = part("usage", [&](Cell c) { return tree.used(node, c); }); !text.empty()) return text;
  if (auto text = part("available", [&](Cell c) { return tree.available(node, c); }); !text.empty()) return text;
  if (auto text = part("potentialAvailable", [&](Cell c) { return tree.potential(node, c); }); !text.empty())
    return text;
  const auto share = shown(tree.share(node));
  if (expected.contains("dominantResourceShare") && share != expected["dominantResourceShare"].string()) {
    return fmt::format("{}'s share is {} where {} was recorded", name, share,
                       expected["dominantResourceShare"].string());
  }
  return {};
}

bool inactive(const World& world, const std::string& queue) {
  const auto [field, node] = world.planted.queues.at(queue);
  return world.planted.fields.at(field).rules.at(static_cast<std::size_t>(node)).inactive;
}

/// Inactive queues are recorded by name only.
std::string compare_trees(const World& world, const Json& expected) {
  for (const auto& [name, tree] : expected["clusterQueues"].members()) {
    const auto found = world.planted.queues.find(name);
    if (found == world.planted.queues.end()) return name + " is in no tree";
    if (inactive(world, name)) return name + " is inactive";
    const auto [field, node] = found->second;
    if (auto text = compare_node(world, field, node, name, tree); !text.empty()) return text;
  }
  for (const auto& [name, tree] : expected["cohorts"].members()) {
    const auto found = world.planted.cohorts.find(name);
    if (found == world.planted.cohorts.end()) return name + " is in no tree";
    const auto [field, node] = found->second;
    if (auto text = compare_node(world, field, node, name, tree); !text.empty()) return text;
  }
  for (const auto& name : expected["inactiveClusterQueues"].items()) {
    if (!world.planted.queues.contains(name.string())) continue;
    if (!inactive(world, name.string())) return name.string() + " is active";
  }
  return {};
}

void use(World& world, const std::string& queue, const Json& amounts) {
  world.field_of(queue).tree.add(world.node_of(queue), world.amounts(queue, amounts));
}

std::string available(const Json& record, World& world) {
  for (const auto& [queue, amounts] : record["input"]["usage"].members()) use(world, queue, amounts);
  for (const auto& [queue, wanted] : record["expected"]["wantAvailable"].members()) {
    const auto [field, node] = world.planted.queues.at(queue);
    const auto& tree = world.planted.fields.at(field).tree;
    if (auto text = compare(world, field, queue, wanted, [&](Cell c) { return tree.available(node, c); });
        !text.empty()) {
      return text;
    }
    const auto& most = record["expected"]["wantPotentiallyAvailable"][queue];
    if (auto text = compare(world, field, queue, most, [&](Cell c) { return tree.potential(node, c); });
        !text.empty()) {
      return text;
    }
  }
  return compare_trees(world, record["observed"]["quotaTreeAfterUsage"]);
}

std::string shares(const Json& record, World& world) {
  const auto& input = record["input"];
  const auto& queue = input["usageClusterQueue"].string();
  use(world, queue, input["usage"]);
  for (const auto& wanted : record["expected"]["want"].items()) {
    const auto& name = wanted["name"].string();
    const bool is_queue = wanted["nodeType"].string() == "ClusterQueue";
    const auto [field, node] = is_queue ? world.planted.queues.at(name) : world.planted.cohorts.at(name);
    auto& tree = world.planted.fields.at(field).tree;
    const auto more = world.amounts(queue, input["flvResQ"]);
    tree.add(node, more);
    const auto share = tree.share(node);
    tree.remove(node, more);
    const bool infinite = share.weight == 0 && share.ratio > 0;
    const auto value = infinite ? kUnlimited : static_cast<std::int64_t>(std::ceil(share.weighted()));
    const auto most = share.most ? world.objects.resources[*share.most] : std::string();
    if (value != wanted["drValue"].integer() || share.borrowing != wanted["borrowing"].boolean() ||
        most != wanted["drName"].string()) {
      return fmt::format("{}'s share is {} by {}, borrowing {}, where {} was recorded", name, value, most,
                         share.borrowing, wanted.dump());
    }
  }
  return {};
}

std::string borrowing(const Json& record, World& world) {
  const auto& input = record["input"];
  const auto& queue = input["usageClusterQueue"].string();
  use(world, queue, input["usage"]);
  const auto& tree = world.field_of(queue).tree;
  const auto node = world.node_of(queue);
  std::vector<Cell> asked;
  for (const auto& amount : world.amounts(queue, input["requestedFRs"])) asked.push_back(amount.at);
  if (tree.share(node).borrowing != record["expected"]["wantBorrowing"].boolean()) return "borrowing differs";
  if (tree.beyond_own(node, asked) != record["expected"]["wantBorrowingOnRequested"].boolean()) {
    return "borrowing of what is requested differs";
  }
  return {};
}

std::string snapshot(const Json& record, World& world) {
  const auto& input = record["input"];
  for (const auto& workload : input["workloads"].items()) {
    if (workload["status"]["admission"].is_object()) world.admit(workload);
  }
  for (const auto& key : input["remove"].items()) {
    auto& work = *world.by_key.at(key.string());
    for (auto& field : world.planted.fields) {
      if (std::ranges::find(field.holders[static_cast<std::size_t>(work.queue)], &work) !=
          field.holders[static_cast<std::size_t>(work.queue)].end()) {
        field.release(work);
      }
    }
  }
  for (const auto& key : input["add"].items()) {
    for (const auto& workload : input["workloads"].items()) {
      if (World::key_of(workload) != key.string()) continue;
      world.field_of(workload["status"]["admission"]["clusterQueue"].string()).hold(*world.by_key.at(key.string()));
    }
  }
  world.use_nodes(input["tasFlavorUsage"]);
  for (const auto& [name, wanted] : record["expected"]["wantTASUsage"].members()) {
    auto& topologies = *world.objects.topologies;
    Json found = Json::object();
    for (const auto& [domain, amounts] : topologies.placed_on(world.objects.flavors.of(name))) {
      auto& one = found.set(domain);
      for (const auto& amount : amounts) one.set(topologies.names().name(amount.resource), amount.amount);
    }
    if (!(found == wanted)) return fmt::format("{} has {} where {} was recorded", name, found.dump(), wanted.dump());
  }
  return compare_trees(world, record["expected"]["quotaTree"]);
}

std::string serialized(const Json& record) {
  const auto& input = record["input"]["drs"];
  Share share;
  share.ratio = input["unweightedRatio"].number();
  share.weight = input["fairWeight"].number();
  const auto text = shown(share);
  const auto& wanted = record["expected"]["want"].string();
  return text == wanted ? std::string() : fmt::format("{} where {} was recorded", text, wanted);
}

/// A record without flavors gets those that its queues name.
Json with_flavors(Json record) {
  if (record["input"].contains("resourceFlavors")) return record;
  std::set<std::string> names;
  for (const auto& queue : record["input"]["clusterQueues"].items()) {
    for (const auto& group : queue["spec"]["resourceGroups"].items()) {
      for (const auto& flavor : group["flavors"].items()) names.insert(flavor["name"].string());
    }
  }
  Json flavors = Json::array();
  for (const auto& name : names) {
    flavors.push_back(Json::object({{"metadata", Json::object({{"name", name}})}}));
  }
  record.set("input").set("resourceFlavors", std::move(flavors));
  return record;
}

}  // namespace

std::string replay_quota(const Json& record) {
  const auto& test = record["test"].string();
  if (test == "TestPreciseWeightedShareSerialized") return serialized(record);
  World world(with_flavors(record));
  if (test == "TestAvailable") return available(record, world);
  if (test == "TestDominantResourceShare") return shares(record, world);
  if (test == "TestIsBorrowingOn") return borrowing(record, world);
  if (test.starts_with("TestSnapshot")) return snapshot(record, world);
  return "no such test is known: " + test;
}

}  // namespace qm::admission::vectors
