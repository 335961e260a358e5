// Generated fleets in which jobs are submitted, move and finish, with an admission that evicts, refuses
// or does not respond. A plan reclaims the nodes that it predicted, no workload that must stay is asked
// to move, no move is in vain, and an engine restored from the rows makes the same decisions.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::placement::testing {
namespace moves_prop_test {

constexpr int kNodes = 8;

Options tidying() {
  Options options;
  options.hold = std::chrono::hours(1'000);  // no controller creates pods here
  options.tidying.on = true;
  options.tidying.every = std::chrono::seconds(120);
  options.tidying.least_gpus = 2;
  options.tidying.most_lost = 5'000;
  options.tidying.hourly = 1'000;
  options.topology = {"zone"};
  return options;
}

struct Fleet {
  Script script{tidying()};
  std::map<WorkloadUid, WorkloadHeard> heard;  // the newest of each
  int asked = 0, won = 0, plans = 0;
};

const TidyRun& run_of(const Fleet& fleet) {
  static const TidyRun none;
  const TidyRun* row = const_cast<Fleet&>(fleet).script.engine().tables().tidy.find(0);
  return row == nullptr ? none : *row;
}

std::int64_t free_nodes(Fleet& fleet) {
  std::set<NodeName> used;
  for (const auto& [id, row] : fleet.script.engine().tables().assignments) {
    for (const Member& member : row.members) {
      if (row.holds() && member.live()) used.insert(member.node);
    }
  }
  return kNodes - std::ssize(used);
}

/// One step, executed by an engine that has just been restored from the rows, too.
Output step(Fleet& fleet, const std::vector<Command>& batch) {
  const Engine& engine = fleet.script.engine();
  auto other = read_back(engine, tidying());
  const auto theirs = render(other->step(batch, fleet.script.now()), true);
  Output output = fleet.script.step(batch);
  RC_ASSERT(render(output, true) == theirs);
  RC_ASSERT(other->digest() == engine.digest());
  for (const Event& event : output.events) {
    const auto* proposed = std::get_if<ProposalChanged>(&event);
    if (proposed == nullptr || proposed->withdrawn) continue;
    ++fleet.asked;
    RC_ASSERT(proposed->state.move);
    const Workload& mover = *engine.tables().workloads.find(proposed->uid);
    RC_ASSERT(mover.phase == WorkloadPhase::kAdmitted);
    RC_ASSERT(mover.standing.kept_until <= fleet.script.now());
    RC_ASSERT(!mover.spec.labels.contains("quartermaster.dev/movable"));
    const Winning& winning = run_of(fleet).steps.front();
    for (const HeldPlace& place : proposed->state.places)
      RC_ASSERT(std::ranges::find(winning.nodes, place.node) == winning.nodes.end());
  }
  return output;
}

void admit_what_has_a_place(Fleet& fleet) {
  std::vector<Command> batch;
  for (const auto& [id, row] : fleet.script.engine().tables().assignments) {
    auto newest = fleet.heard.find(id.uid);
    if (!row.holds() || newest == fleet.heard.end() || newest->second.attempt != id.attempt) continue;
    if (newest->second.phase != WorkloadPhase::kQuotaReserved) continue;
    newest->second.phase = WorkloadPhase::kAdmitted;
    newest->second.standing.admitted = fleet.script.now();
    batch.emplace_back(newest->second);
  }
  if (!batch.empty()) step(fleet, batch);
}

/// The workload that is asked to move is evicted and retried, or stays. Returns true if a workload was asked.
bool answer(Fleet& fleet, bool accept) {
  WorkloadUid uid;
  std::int64_t number = 0;
  for (const auto& [of, row] : fleet.script.engine().tables().proposals) {
    if (row.state == ProposalState::kAsked) uid = of, number = row.number;
  }
  if (uid.empty()) return false;
  WorkloadHeard& newest = fleet.heard.at(uid);
  WorkloadHeard said = newest;
  said.answer = ProposalAnswer{number, accept, accept ? "" : "MinimumRunTime", {}};
  if (!accept) {
    said.answer->kept.push_back(uid);
    step(fleet, {said});
    return true;
  }
  said.phase = WorkloadPhase::kEvicting;
  said.order_deadline = fleet.script.now() + std::chrono::seconds(30);
  step(fleet, {said});
  newest.standing.admitted = newest.standing.kept_until = {};
  ++newest.attempt;
  for (const auto phase : {WorkloadPhase::kPending, WorkloadPhase::kQuotaReserved}) {
    newest.phase = phase;
    step(fleet, {newest});
  }
  admit_what_has_a_place(fleet);
  return true;
}

WorkloadHeard job_of(int number, Instant now) {
  WorkloadHeard out;
  out.spec.uid = WorkloadUid(fmt::format("w{:03}", number));
  out.spec.name = out.spec.uid.value();
  out.spec.kind = "Job";
  out.spec.priority = *rc::gen::inRange(0, 3);
  const int kind = *rc::gen::inRange(0, 8);
  out.spec.pod_sets = {kind == 0   ? pod_set(1, 8)
                       : kind == 1 ? pod_set(2, 2)
                       : kind == 2 ? pod_set(2, 0, 500)
                                   : pod_set(1, *rc::gen::inRange(1, 5))};
  if (kind == 1) out.spec.pod_sets[0].topology.required = "zone";
  if (*rc::gen::inRange(0, 10) == 0) out.spec.labels["quartermaster.dev/movable"] = "false";
  if (*rc::gen::inRange(0, 10) == 0) out.standing.kept_until = now + std::chrono::seconds(*rc::gen::inRange(1, 900));
  out.phase = WorkloadPhase::kQuotaReserved;
  return out;
}

TEST(MoveLaws, WhatIsWonIsWhatWasReckonedAndNobodyMovesInVain) {
  int asked = 0, won = 0, plans = 0;
  const bool held = rc::check([&] {
    Fleet fleet;
    std::vector<Command> nodes;
    NodesSynced synced;
    for (int n = 0; n < kNodes; ++n) {
      auto facts = node_facts(8);
      facts.labels = {{"zone", n % 2 == 0 ? "x" : "y"}};
      const NodeName name(fmt::format("n{}", n));
      nodes.emplace_back(NodeSeen{name, facts});
      synced.nodes.insert(name);
    }
    nodes.emplace_back(synced);
    nodes.emplace_back(PodsSynced{});
    step(fleet, nodes);
    int number = 0;
    for (int round = 0; round < 2; ++round) {
      const int jobs = *rc::gen::inRange(12, 30);
      for (int i = 0; i < jobs; ++i) {
        fleet.script.advance(std::chrono::seconds(*rc::gen::inRange(1, 60)));
        const auto job = job_of(number++, fleet.script.now());
        fleet.heard[job.spec.uid] = job;
        step(fleet, {job});
        admit_what_has_a_place(fleet);
        const int luck = *rc::gen::inRange(0, 10);
        if (luck < 3) answer(fleet, luck < 2);
        for (int ends = *rc::gen::inRange(0, 3); ends > 0 && !fleet.heard.empty(); --ends) {
          auto who = std::next(fleet.heard.begin(), *rc::gen::inRange(0, static_cast<int>(fleet.heard.size())));
          WorkloadHeard over = who->second;
          over.phase = WorkloadPhase::kFinished;
          fleet.heard.erase(who);
          step(fleet, {over});
        }
        admit_what_has_a_place(fleet);
      }
      // Steps in progress are completed; pending workloads are removed.
      std::vector<Command> gone;
      for (auto it = fleet.heard.begin(); it != fleet.heard.end();) {
        const bool waits = it->second.phase != WorkloadPhase::kAdmitted;
        if (waits) {
          it->second.phase = WorkloadPhase::kFinished;
          gone.emplace_back(it->second);
        }
        it = waits ? fleet.heard.erase(it) : std::next(it);
      }
      step(fleet, gone);
      while (answer(fleet, true)) {
      }
      // Now no workload is submitted or finishes: a plan does exactly what it predicted.
      for (int looks = 0; looks < 2; ++looks) {
        fleet.script.advance(std::chrono::seconds(121));
        const auto before = free_nodes(fleet);
        const int so_far = fleet.asked;
        step(fleet, {Tick{}});
        const TidyRun plan = run_of(fleet);
        if (!plan.stands()) continue;
        ++fleet.plans;
        while (answer(fleet, true)) {
        }
        RC_ASSERT(run_of(fleet).last == "Done");
        RC_ASSERT(run_of(fleet).won == plan.nodes);
        RC_ASSERT(free_nodes(fleet) == before + plan.nodes);
        RC_ASSERT(fleet.asked - so_far == plan.moves);
        fleet.won += static_cast<int>(plan.nodes);
      }
    }
    asked += fleet.asked, won += fleet.won, plans += fleet.plans;
  });
  std::printf("%d asked to move; %d plans without disturbance, %d nodes won\n", asked, plans, won);
  EXPECT_TRUE(held);
  // Otherwise the test shows nothing.
  EXPECT_GT(asked, 40);
  EXPECT_GT(plans, 10);
}

}  // namespace moves_prop_test
}  // namespace qm::placement::testing
