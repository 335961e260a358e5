// The result for a workload that was considered: where it is requeued, its status, and whether its admission counts
// as usage at once.
#include "qm/admission/kueue/cycle.hpp"
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

std::string text_of(const Condition& c) {
  return fmt::format("{}={} {} \"{}\"", c.type, c.holds ? "True" : "False", c.reason, c.message);
}

std::set<std::string> keys_of(const Json& by_queue, const std::string& queue) {
  std::set<std::string> out;
  for (const auto& key : by_queue[queue].items()) out.insert(key.string());
  return out;
}

/// Total requests of the pods of each set, as in a status.
Json requests_of(const World& world, const Work& work) {
  Json out = Json::array();
  for (const auto& set : work.pod_sets) {
    Json one = Json::object({{"name", set.name}});
    for (const auto& [resource, each] : set.each) {
      const auto& name = world.objects.resources[resource];
      one.set("resources").set(name, amount_text(name, each * set.count));
    }
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string replay_return(const Json& record) {
  const std::map<std::string, Fate> fates{{"", Fate::kNotNominated},         {"skipped", Fate::kSkipped},
                                          {"preemptionGated", Fate::kGated}, {"nominated", Fate::kNominated},
                                          {"assumed", Fate::kAssumed},       {"evicted", Fate::kEvicted}};
  const auto& entry = record["input"]["e"];
  const auto& queue = entry["info"]["clusterQueue"].string();
  const auto fate = fates.find(entry["status"].string());
  if (fate == fates.end()) return "no such status is known: " + entry["status"].string();
  auto reason = Requeue::kGeneric;
  while (name_of(reason) != entry["requeueReason"].string()) {
    if (reason == Requeue::kNoCandidates) return "no such reason is known: " + entry["requeueReason"].string();
    reason = static_cast<Requeue>(static_cast<int>(reason) + 1);
  }

  World world(record);
  const Work work = world.read(entry["info"]["obj"], queue);
  const auto& key = world.key_by_work.begin()->second;
  Cycle cycle(std::move(world.field_of(queue)));
  cycle.enqueue(work);
  const auto back = cycle.revert(work.id, fate->second, reason);

  const auto& expected = record["expected"];
  for (const bool active : {true, false}) {
    const auto recorded = keys_of(expected[active ? "wantWorkloads" : "wantInadmissible"], queue);
    const bool found = cycle.waits(work.id) && cycle.active(work.id) == active;
    if (found != recorded.contains(key)) return fmt::format("{} active: {}, unlike what was recorded", key, active);
  }
  const bool reports = back.reports && !entry["skipStatusUpdate"].boolean();
  if (reports != (expected["wantStatusUpdates"].integer() > 0))
    return fmt::format("its status is written: {}", reports);
  std::set<std::string> found, recorded;
  const auto wait =
      gate(record, "UnadmittedWorkloadsObservability") ? entry["quotaReservedReason"].string() : "Pending";
  if (reports) {
    for (const auto& c : conditions_of(fate->second, wait, entry["inadmissibleMsg"].string())) found.insert(text_of(c));
    const auto& asked = expected["wantStatus"]["resourceRequests"];
    if (!(requests_of(world, work) == asked)) {
      return fmt::format("asks for {} where {} was recorded", requests_of(world, work).dump(), asked.dump());
    }
  }
  for (const auto& c : expected["wantStatus"]["conditions"].items()) {
    recorded.insert(
        text_of({c["type"].string(), c["status"].string() == "True", c["reason"].string(), c["message"].string()}));
  }
  if (found == recorded) return {};
  return fmt::format("says [{}] where [{}] was recorded", fmt::join(found, "; "), fmt::join(recorded, "; "));
}

std::string replay_displacing(const Json& record) {
  const auto& input = record["input"];
  const auto& expected = record["expected"];
  const auto found =
      preempting(static_cast<int>(input["preempted"].integer()), static_cast<int>(input["errors"].integer()));
  if (name_of(found.reason) != expected["wantRequeueReason"].string()) {
    return fmt::format("{} where {} was recorded", name_of(found.reason), expected["wantRequeueReason"].string());
  }
  // The message of the nomination precedes it.
  const auto& text = expected["wantMessage"].string();
  const auto reported = text.substr(std::min(text.find(". "), text.size()));
  if (found.message != reported) return fmt::format("\"{}\" where \"{}\" was recorded", found.message, reported);
  return expected["wantLastAssignmentNil"].boolean() ? "" : "the search through the flavors was to go on";
}

std::string replay_entry_penalty(const Json& record) {
  const auto& input = record["input"];
  Json queue = Json::object({{"metadata", Json::object({{"name", "cq"}})}});
  queue.set("spec").set("admissionScope").set("admissionMode", input["admissionMode"]);
  Json made = Json::object({{"featureGates", record["featureGates"]}});
  made.set("input", Json::object({{"clusterQueue", std::move(queue)}, {"admissionFairSharing", input["afsConfig"]}}));
  World world(made);
  const auto& rules = world.field_of("cq").rules.at(static_cast<std::size_t>(world.node_of("cq")));
  const bool found = entry_counts(rules, world.read(input["wl"], "cq"));
  const bool recorded = record["expected"]["want"].boolean();
  return found == recorded ? std::string() : fmt::format("{} where {} was recorded", found, recorded);
}

}  // namespace qm::admission::vectors
