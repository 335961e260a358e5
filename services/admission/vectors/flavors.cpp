// The choice of flavors, with the messages about those that were considered.
#include "qm/admission/kueue/flavors.hpp"

#include "qm/admission/kueue/topology_objects.hpp"
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

std::string text_of(const topology::Assignment& assignment) {
  std::string out = fmt::format("[{}]", fmt::join(assignment.levels, ","));
  for (const auto& d : assignment.domains) out += fmt::format(" {}:{}", fmt::join(d.values, ","), d.count);
  return out;
}

/// Returns the recorded result for each cell; for all others, that a workload of the own queue would be preempted.
class Stub final : public Oracle {
 public:
  Stub(const World& world, const std::string& queue, const Json& answers) {
    for (const auto& [name, answer] : answers.members()) {
      Json one = Json::object({{name, 0}});
      const auto cells = world.amounts(queue, one);
      if (cells.empty()) continue;
      const auto& word = answer["preemptionPossiblity"].string();
      const auto mode =
          word == "NoCandidates" ? Mode::kNoCandidates : (word == "Reclaim" ? Mode::kReclaim : Mode::kPreempt);
      answers_[cells.front().at] = {mode, static_cast<int>(answer["borrowingAfterSimulation"].integer())};
    }
  }
  Fitting simulate(const Work&, Cell cell, std::int64_t) override {
    const auto found = answers_.find(cell);
    return found == answers_.end() ? Fitting{Mode::kPreempt, 0} : found->second;
  }

 private:
  std::map<Cell, Fitting> answers_;
};

std::string_view word_of(Mode mode) {
  if (mode == Mode::kFit) return "Fit";
  return mode == Mode::kNoFit ? "NoFit" : "Preempt";
}

Json shown(const World& world, const Attempt& attempt) {
  std::set<std::string> texts;
  for (const auto& why : attempt.whys) texts.insert(world.objects.to_string(why));
  Json reasons = Json::array();
  for (const auto& text : texts) reasons.push_back(text);
  Json out = Json::object({{"mode", word_of(attempt.value.mode)},
                           {"borrow", attempt.value.level},
                           {"noFitReason", name_of(attempt.no_fit)}});
  if (reasons.size() > 0) out.set("reasons", std::move(reasons));
  return out;
}

std::string differs(const std::string& what, const Json& found, const Json& recorded) {
  return fmt::format("{} {} where {} was recorded", what, found.dump(), recorded.dump());
}

std::string compare_set(const World& world, const Assignment::Set& set, const Json& recorded) {
  if (set.count != recorded["count"].integer()) return differs("count", set.count, recorded["count"]);
  Json flavors = Json::object();
  for (const auto& choice : set.flavors) {
    flavors.set(world.objects.resources[choice.resource], Json::object({{"borrow", choice.level},
                                                                        {"mode", word_of(choice.mode)},
                                                                        {"name", world.objects.flavors[choice.flavor]},
                                                                        {"triedFlavorIdx", choice.tried}}));
  }
  const Json none = Json::object();
  const auto& wanted = recorded["flavors"].is_null() ? none : recorded["flavors"];
  if (!(flavors == wanted)) return differs("flavors", flavors, wanted);
  for (const auto& attempt : recorded["flavorAssignmentAttempts"].items()) {
    Json same = attempt;
    same.erase("flavor");
    same.erase("preemptionPossibility");
    const auto name = attempt["flavor"].string();
    const auto found =
        std::ranges::find_if(set.attempts, [&](const Attempt& a) { return world.objects.flavors[a.flavor] == name; });
    if (found == set.attempts.end()) return differs("no attempt with " + name, Json(), same);
    if (!(shown(world, *found) == same)) return differs("attempt with " + name, shown(world, *found), same);
  }
  std::set<std::string> whys, reasons;
  std::string fault;
  for (const auto& why : set.whys) {
    if (why.kind >= Why::Kind::kNoTopology) {  // errors of the assigner
      fault = world.objects.to_string(why);
    } else {
      whys.insert(world.objects.to_string(why));
    }
  }
  const auto& error = recorded["status"]["err"]["$error"];
  if (fault != error.string()) return differs("error", Json(fault), error);
  for (const auto& reason : recorded["status"]["reasons"].items()) reasons.insert(reason.string());
  if (whys != reasons) {
    return fmt::format("reasons [{}] where [{}] was recorded", fmt::join(whys, "; "), fmt::join(reasons, "; "));
  }
  return {};
}

/// Compares the whole assignment.
std::string compare(const World& world, const std::string& queue, const Assignment& made, const Json& recorded) {
  if (word_of(made.mode()) != recorded["representativeMode"].string()) {
    return differs("mode", Json(word_of(made.mode())), recorded["representativeMode"]);
  }
  if (name_of(made.no_fit()) != recorded["noFitReason"].string()) {
    return differs("reason", Json(name_of(made.no_fit())), recorded["noFitReason"]);
  }
  if (made.borrowing != recorded["borrowing"].integer())
    return differs("borrowing", made.borrowing, recorded["borrowing"]);
  if (made.sets.size() != recorded["podSets"].size()) return "another number of pod sets";
  for (std::size_t i = 0; i < made.sets.size(); ++i) {
    if (auto text = compare_set(world, made.sets[i], recorded["podSets"].at(i)); !text.empty()) return text;
    const auto placed = std::ranges::find(made.placed, i, &Placed::set);
    const auto found = placed == made.placed.end() ? std::string() : text_of(placed->assignment);
    const auto& nodes = recorded["podSets"].at(i)["topologyAssignment"];
    const auto wanted = nodes.is_null() ? std::string() : text_of(topology_assignment(nodes));
    if (found != wanted) return differs("nodes", Json(found), Json(wanted));
  }
  auto usage = world.amounts(queue, recorded["usage"]["quota"]["assigned"]);
  if (made.usage != usage) return "usage differs";
  return {};
}

void use(World& world, const std::string& queue, const Json& amounts) {
  if (!amounts.is_object() || amounts.size() == 0) return;
  world.field_of(queue).tree.add(world.node_of(queue), world.amounts(queue, amounts));
}

/// A queue, a workload with its pod sets, and the usage of the queues.
std::string assignment(const Json& record) {
  Json input = record["input"];
  Json& single = input.set("clusterQueue");
  auto name = single.is_null() ? input["clusterQueues"].at(0)["metadata"]["name"].string()
                               : single["metadata"]["name"].string();
  if (single.is_null()) input.erase("clusterQueue");
  World world(record);
  if (name.empty()) name = input["nodesAndQueues"]["clusterQueues"].at(0)["metadata"]["name"].string();
  if (!world.planted.queues.contains(name)) return "the queue is in no tree";
  auto& field = world.field_of(name);
  use(world, name, input["clusterQueueUsage"]);
  use(world, name, input["cqUsage"]);
  const bool again = input["quotaUsageAtRecompute"].is_object();
  if (!again) world.use_nodes(input["nodeUsage"]);
  if (input["secondaryClusterQueue"].is_object()) {
    use(world, input["secondaryClusterQueue"]["metadata"]["name"].string(), input["secondaryClusterQueueUsage"]);
  }
  for (const auto& [queue, amounts] : input["siblingCQUsage"].members()) use(world, queue, amounts);
  use(world, name, input["testClusterQueueUsage"]);
  if (world.planted.queues.contains("other-clusterqueue"))
    use(world, "other-clusterqueue", input["otherClusterQueueUsage"]);

  Json workload = input["workload"];
  if (!workload.is_object()) {
    Json sets = input["wlPods"];
    if (input["podSets"].is_array()) sets = input["podSets"];
    if (input["podSet"].is_object()) sets = Json::array({input["podSet"]});
    workload =
        Json::object({{"metadata", Json::object({{"name", "wl"}})}, {"spec", Json::object({{"podSets", sets}})}});
    if (input["wlReclaimablePods"].size() > 0 && gate(record, "ReclaimablePods")) {
      workload.set("status").set("reclaimablePods", input["wlReclaimablePods"]);
    }
    if (input["allowedFlavors"].size() > 0) {
      std::string list;
      for (const auto& flavor : input["allowedFlavors"].items()) list += (list.empty() ? "" : ",") + flavor.string();
      workload.set("metadata").set("annotations").set("kueue.x-k8s.io/workload-allowed-resource-flavors", list);
    }
  }
  auto& work = world.read(workload, name);
  world.add_before(work, input["preemptWorkloadSlice"]);
  world.add_before(work, input["replaceWl"]);
  Stub stub(world, name, input["simulationResult"]);
  const auto pods = world.objects.resources.find("pods");
  const FlavorAssigner assigner(field.tree, field.rules.at(static_cast<std::size_t>(world.node_of(name))), stub,
                                input["enableFairSharing"].boolean(), pods, field.topologies.get());
  auto made = assigner.explain(work);
  if (again) {
    // Other workloads used nodes and quota after it was nominated; it is considered again with the flavors
    // that it had.
    world.use_nodes(input["nodeUsage"]);
    use(world, name, input["quotaUsageAtRecompute"]);
    if (auto text = compare(world, name, made, record["observed"]["nominated"]); !text.empty()) return text;
    work.scan.reset();
    const Assignment nominated = made;
    made = assigner.explain(work, &nominated);
  }
  return compare(world, name, made, record["observed"]["assignment"]);
}

std::string preference(const Json& record) {
  const auto& input = record["input"];
  const auto fitting = [](const Json& json) {
    const auto& word = json["preemptionMode"].string();
    const std::map<std::string, Mode> modes{{"noFit", Mode::kNoFit},
                                            {"noPreemptionCandidates", Mode::kNoCandidates},
                                            {"preempt", Mode::kPreempt},
                                            {"reclaim", Mode::kReclaim},
                                            {"fit", Mode::kFit}};
    return Fitting{modes.at(word), static_cast<int>(json["borrowingLevel"].integer())};
  };
  const bool found = FlavorAssigner::preferred(fitting(input["a"]), fitting(input["b"]),
                                               input["config"]["preference"].string() != "PreemptionOverBorrowing");
  const bool wanted = record["expected"]["wantPreferred"].boolean();
  return found == wanted ? std::string() : fmt::format("{} where {} was recorded", found, wanted);
}

std::string reduction(const Json& record) {
  const auto& input = record["input"];
  std::vector<PodSet> sets;
  for (const auto& set : input["podSets"].items()) {
    PodSet made;
    made.count = static_cast<std::int32_t>(set["count"].integer());
    if (set.contains("minCount")) made.min_count = static_cast<std::int32_t>(set["minCount"].integer());
    sets.push_back(made);
  }
  std::int64_t taken = 0;
  const bool found = reduce(sets, [&](std::span<const std::int32_t> counts) {
    std::int64_t sum = 0;
    for (const auto count : counts) sum += count;
    if (sum > input["countLimit"].integer()) return false;
    taken = sum;
    return true;
  });
  const auto& expected = record["expected"];
  if (found != expected["wantFound"].boolean()) return fmt::format("found {}", found);
  if (found && taken != expected["wantCount"].integer()) return differs("count", taken, expected["wantCount"]);
  return {};
}

}  // namespace

std::string replay_flavors(const Json& record) {
  const auto& test = record["test"].string();
  if (test == "TestIsPreferred") return preference(record);
  if (test == "TestSearch") return reduction(record);
  if (test.starts_with("TestWorkloadsTopologyRequests")) return replay_placement_requests(record);
  if (test == "TestAssignment_ComputeTASNetUsage") return replay_net_usage(record);
  if (test == "TestAssignment_TotalRequestsFor") return replay_total(record);
  if (test == "TestAssignment_RequiresBorrowing" || test == "TestAssignment_Borrows") return replay_borrowing(record);
  if (record["observed"]["assignment"].is_object()) return assignment(record);
  return "no such test is known: " + test;
}

}  // namespace qm::admission::vectors
