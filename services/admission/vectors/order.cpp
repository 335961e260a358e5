// The order of nominees, reservations of quota, and when the search through the flavors starts again.
#include "qm/admission/kueue/order.hpp"

#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

std::string nominees(const Json& record) {
  World world(record);
  std::vector<Nominee> all;
  for (const auto& entry : record["input"]["input"].items()) {
    const auto& work = world.read(entry["info"]["obj"], "");
    all.push_back({work, static_cast<int>(entry["assignment"]["borrowing"].integer()), entry["isPreemptor"].boolean()});
  }
  std::vector<std::string> found, wanted;
  std::vector<const Nominee*> sorted;
  for (const auto& one : all) sorted.push_back(&one);
  std::ranges::stable_sort(sorted,
                           [&](const Nominee* a, const Nominee* b) { return goes_before(*a, *b, gates_of(record)); });
  for (const auto* one : sorted) found.push_back(world.key_by_work.at(&one->work).substr(1));
  for (const auto& name : record["expected"]["wantOrder"].items()) wanted.push_back(name.string());
  if (found == wanted) return {};
  return fmt::format("[{}] where [{}] was recorded", fmt::join(found, " "), fmt::join(wanted, " "));
}

std::string tournament(const Json& record) {
  World world(record);
  const auto& input = record["input"];
  const auto contender = [&](const Json& entry) {
    const auto& work = world.read(entry["info"]["obj"], "");
    const auto& key = world.key_by_work.at(&work);
    const auto& drs = input["drsValues"][input["cohort"].string() + "|" + key];
    Contender out{{work, 0, entry["isPreemptor"].boolean()}, false, {}};
    out.share.ratio = drs["unweightedRatio"].number();
    out.share.weight = drs["fairWeight"].number();
    for (const auto& cell : drs["borrowedFRs"].items()) {
      const auto name = cell["flavor"].string() + "/" + cell["resource"].string();
      out.borrows_asked = out.borrows_asked || input["requestedFRs"][key].contains(name);
    }
    return out;
  };
  const bool found = wins(contender(input["a"]), contender(input["b"]), gates_of(record));
  const bool wanted = record["expected"]["wantLess"].boolean();
  return found == wanted ? std::string() : fmt::format("{} where {} was recorded", found, wanted);
}

std::string reservation(const Json& record) {
  World world(record);
  const auto& input = record["input"];
  const auto& queue = input["clusterQueues"].at(0)["metadata"]["name"].string();
  auto& tree = world.field_of(queue).tree;
  const auto node = world.node_of(queue);
  tree.add(node, world.amounts(queue, input["cqUsage"]));
  const auto mode = input["assignmentMode"].string() == "Fit" ? Mode::kFit : Mode::kPreempt;
  const auto found = reserved(tree, node, world.amounts(queue, input["assignmentUsage"]), mode,
                              static_cast<int>(input["borrowing"].integer()));
  return found == world.amounts(queue, record["expected"]["wantReserved"]) ? "" : "another amount is kept";
}

std::string scan(const Json& record) {
  const auto& args = record["input"]["args"];
  Names shapes;
  const auto shape_of = [&](const Json& hash) {
    return hash.string().empty() || hash.string() == "unknown" ? -1 : shapes.of(hash.string());
  };
  Scan last;
  last.generation = args["last"]["clusterQueueGeneration"].integer();
  last.cycle = args["last"]["schedulingCycle"].integer();
  last.shape = shape_of(args["last"]["schedulingHash"]);
  auto gates = gates_of(record);
  gates.keeps_scan_progress = record["input"]["preserveProgress"].boolean(gates.keeps_scan_progress);
  const bool found = outdated(last, shape_of(args["currentSchedulingHash"]), args["currentSchedulingCycle"].integer(),
                              args["currentCQGeneration"].integer(), gates);
  const bool wanted = record["expected"]["want"].boolean();
  return found == wanted ? std::string() : fmt::format("{} where {} was recorded", found, wanted);
}

}  // namespace

std::string replay_order(const Json& record) {
  const auto& test = record["test"].string();
  if (test == "TestEntryOrdering") return nominees(record);
  if (test == "TestEntryComparerLess") return tournament(record);
  if (test == "TestResourcesToReserve") return reservation(record);
  if (test == "TestLastAssignmentOutdated") return scan(record);
  if (test == "TestLastSchedulingContext") return replay_cycle(record);
  if (test == "TestRequeueAndUpdate") return replay_return(record);
  if (test == "TestEntryMarkPreemptionOutcome") return replay_displacing(record);
  if (test == "TestShouldApplyEntryPenalty") return replay_entry_penalty(record);
  return "no such test is known: " + test;
}

}  // namespace qm::admission::vectors
