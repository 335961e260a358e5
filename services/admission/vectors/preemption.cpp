// The search for victims, and the parts of it that have records of their own.
#include "qm/admission/kueue/reclaim_candidates.hpp"
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

std::vector<ShareRule> share_rules_of(const Json& words) {
  std::vector<ShareRule> out;
  for (const auto& word : words.items()) {
    out.push_back(word.string() == "LessThanInitialShare" ? ShareRule::kLessThanInitialShare
                                                          : ShareRule::kLessThanOrEqualToFinalShare);
  }
  return out.empty() ? QuotaState{Tree({{}}, {}), {}, {}}.share_rules : out;
}

/// The requests of the given assignment, and the cells where it needs victims.
Contest contest_of(World& world, const Work& work, const std::string& queue, const Json& assignment) {
  const auto& cells = world.planted.cells.at(world.planted.queues.at(queue).first);
  Contest out{work, {}, {}};
  for (const auto& set : assignment["podSets"].items()) {
    const auto pods = std::ranges::find(work.pod_sets, set["name"].string(), &PodSet::name);
    for (const auto& [resource, flavor] : set["flavors"].members()) {
      const auto f = world.objects.flavors.find(flavor["name"].string());
      const auto r = world.objects.resources.find(resource);
      if (!f || !r || !cells.contains({*f, *r})) continue;
      const Cell cell = cells.at({*f, *r});
      if (flavor["mode"].string() == "Preempt") out.contested.push_back(cell);
      if (pods == work.pod_sets.end()) continue;
      for (const auto& [asked, each] : pods->each) {
        if (asked == *r) add_to(out.usage, cell, each * set["count"].integer(pods->count));
      }
    }
  }
  std::ranges::sort(out.contested);
  out.contested.erase(std::unique(out.contested.begin(), out.contested.end()), out.contested.end());
  return out;
}

std::string targets(const Json& record) {
  const auto& input = record["input"];
  World world(record);
  const auto& queue = input["targetCQ"].string();
  if (!world.planted.queues.contains(queue)) return "the queue is in no tree";
  for (const auto& workload : input["admitted"].items()) world.admit(workload);
  auto& field = world.field_of(queue);
  field.share_rules = share_rules_of(input["strategies"]);
  auto& work = world.read(input["incoming"], queue);
  std::set<std::string> found, wanted;
  const auto contest = contest_of(world, work, queue, input["assignment"]);
  for (const auto& target : Victims(field).find(contest)) {
    found.insert(fmt::format("{}:{}", world.key_by_work.at(target.work), name_of(target.reason)));
  }
  for (const auto& target : record["observed"]["targets"].items()) {
    wanted.insert(target["workload"].string() + ":" + target["reason"].string());
  }
  for (const auto& target : record["expected"]["wantPreempted"].items()) wanted.insert(target.string());
  if (found == wanted) return {};
  return fmt::format("[{}] where [{}] was recorded", fmt::join(found, " "), fmt::join(wanted, " "));
}

std::string policy(const Json& record) {
  World world(record);
  const auto& input = record["input"];
  const auto& preemptor = world.read(input["preemptor"], "");
  const auto& candidate = world.read(input["candidate"], "");
  const bool may = Victims::allowed(policy_of(input["policy"].string()), preemptor, candidate);
  return may == record["expected"]["want"].boolean() ? std::string()
                                                     : fmt::format("{} where the other was recorded", may);
}

std::string order(const Json& record) {
  World world(record);
  const auto& input = record["input"];
  std::vector<Work*> candidates;
  Node next = 1;
  std::map<std::string, Node> queues{{input["preemptorCQ"].string(), 0}};
  for (const auto& info : input["candidates"].items()) {
    auto& work = world.read(info["obj"], "");
    const auto [queue, fresh] = queues.emplace(info["clusterQueue"].string(), next);
    if (fresh) ++next;
    work.queue = queue->second;
    if (input["admissionFairSharingEnabled"].boolean()) work.queue_usage = info["localQueueFSUsage"].number();
    candidates.push_back(&work);
  }
  std::ranges::sort(candidates, [](const Work* a, const Work* b) { return Victims::sooner(*a, *b, 0); });
  std::vector<std::string> found, wanted;
  for (const auto* work : candidates) {
    const auto& key = world.key_by_work.at(work);
    found.push_back(key.substr(key.find('/') + 1));
  }
  for (const auto& name : record["expected"]["wantCandidates"].items()) wanted.push_back(name.string());
  if (found == wanted) return {};
  return fmt::format("[{}] where [{}] was recorded", fmt::join(found, " "), fmt::join(wanted, " "));
}

std::string reclaim_candidates(const Json& record) {
  World world(record);
  const auto& input = record["input"];
  for (const auto& workload : input["admitted"].items()) world.admit(workload);
  const auto& queue = input["preemptorCQ"].string();
  auto& field = world.field_of(queue);
  std::vector<const Work*> candidates;
  for (const auto& name : input["candidateCQs"].items()) {
    for (const auto* work : field.holders[static_cast<std::size_t>(world.node_of(name.string()))])
      candidates.push_back(work);
  }
  std::ranges::sort(candidates,
                    [&](const Work* a, const Work* b) { return Victims::sooner(*a, *b, world.node_of(queue)); });
  ReclaimCandidates order(field, world.node_of(queue), candidates);
  std::vector<std::string> found, wanted;
  for (Node next = order.next(); next >= 0 && found.size() < 100; next = order.next()) {
    const auto& action = input["actions"].at(found.size()).string();
    found.push_back(field.tree.name(next));
    if (action == "drop") {
      order.drop(next);
    } else {
      order.pop(next);
    }
  }
  for (const auto& name : record["expected"]["wantOrder"].items()) wanted.push_back(name.string());
  if (found == wanted) return {};
  return fmt::format("[{}] where [{}] was recorded", fmt::join(found, " "), fmt::join(wanted, " "));
}

}  // namespace

std::string replay_preemption(const Json& record) {
  const auto& test = record["test"].string();
  if (test == "TestSatisfiesPreemptionPolicy") return policy(record);
  if (test == "TestCandidatesOrdering") return order(record);
  if (test == "TestMakeClusterQueueOrdering") return reclaim_candidates(record);
  if (record["input"].contains("incoming")) return targets(record);
  return "no such test is known: " + test;
}

}  // namespace qm::admission::vectors
