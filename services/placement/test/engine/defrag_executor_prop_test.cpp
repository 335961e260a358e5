// Generated fleets in which jobs are submitted, move and finish, with an admission that evicts, refuses
// or does not respond. A plan reclaims the nodes that it predicted, no workload that must stay is asked
// to move, no move is in vain, and an engine restored from the rows makes the same decisions.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace qm::placement::testing {
namespace defrag_executor_prop_test {

constexpr int kNodes = 8;

Options defrag() {
  Options options;
  options.hold = std::chrono::hours(1'000);  // no controller creates pods here
  options.defrag.on = true;
  options.defrag.every = std::chrono::seconds(120);
  options.defrag.least_gpus = 2;
  options.defrag.max_lost_gpu_seconds = 5'000;
  options.defrag.hourly = 1'000;
  options.topology = {"zone"};
  return options;
}

struct Fleet {
  Script script{defrag()};
  std::map<WorkloadUid, WorkloadUpdated> latest;  // the newest of each
  int asked = 0, reclaimed = 0, plans = 0;
};

const DefragRun& run_of(const Fleet& fleet) {
  static const DefragRun none;
  const DefragRun* row = const_cast<Fleet&>(fleet).script.engine().tables().defrag_run.find(0);
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
  auto other = read_back(engine, defrag());
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
    RC_ASSERT(mover.quota_facts.min_runtime_until <= fleet.script.now());
    RC_ASSERT(!mover.spec.labels.contains("quartermaster.dev/movable"));
    const DefragStep& winning = run_of(fleet).steps.front();
    for (const HeldCapacity& place : proposed->state.places)
      RC_ASSERT(std::ranges::find(winning.nodes, place.node) == winning.nodes.end());
  }
  return output;
}

void admit_placed(Fleet& fleet) {
  std::vector<Command> batch;
  for (const auto& [id, row] : fleet.script.engine().tables().assignments) {
    auto newest = fleet.latest.find(id.uid);
    if (!row.holds() || newest == fleet.latest.end() || newest->second.attempt != id.attempt) continue;
    if (newest->second.phase != WorkloadPhase::kQuotaReserved) continue;
    newest->second.phase = WorkloadPhase::kAdmitted;
    newest->second.quota_facts.admitted = fleet.script.now();
    batch.emplace_back(newest->second);
  }
  if (!batch.empty()) step(fleet, batch);
}

/// The workload that is asked to move is evicted and retried, or stays. Returns true if a workload was asked.
bool answer(Fleet& fleet, bool accept) {
  WorkloadUid uid;
  std::int64_t number = 0;
  for (const auto& [of, row] : fleet.script.engine().tables().proposals) {
    if (row.state == ProposalState::kProposed) uid = of, number = row.number;
  }
  if (uid.empty()) return false;
  WorkloadUpdated& newest = fleet.latest.at(uid);
  WorkloadUpdated update = newest;
  update.answer = ProposalAnswer{number, accept, accept ? "" : "MinimumRunTime", {}};
  if (!accept) {
    update.answer->refused.push_back(uid);
    step(fleet, {update});
    return true;
  }
  update.phase = WorkloadPhase::kEvicting;
  update.order_deadline = fleet.script.now() + std::chrono::seconds(30);
  step(fleet, {update});
  newest.quota_facts.admitted = newest.quota_facts.min_runtime_until = {};
  ++newest.attempt;
  for (const auto phase : {WorkloadPhase::kPending, WorkloadPhase::kQuotaReserved}) {
    newest.phase = phase;
    step(fleet, {newest});
  }
  admit_placed(fleet);
  return true;
}

WorkloadUpdated job_of(int number, Instant now) {
  WorkloadUpdated out;
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
  if (*rc::gen::inRange(0, 10) == 0)
    out.quota_facts.min_runtime_until = now + std::chrono::seconds(*rc::gen::inRange(1, 900));
  out.phase = WorkloadPhase::kQuotaReserved;
  return out;
}

TEST(DefragLaws, GainMatchesPlanAndEveryMigrationIsNeeded) {
  int asked = 0, reclaimed = 0, plans = 0;
  const bool held = rc::check([&] {
    Fleet fleet;
    step(fleet, zoned_nodes(kNodes));
    int number = 0;
    for (int round = 0; round < 2; ++round) {
      const int jobs = *rc::gen::inRange(12, 30);
      for (int i = 0; i < jobs; ++i) {
        fleet.script.advance(std::chrono::seconds(*rc::gen::inRange(1, 60)));
        const auto job = job_of(number++, fleet.script.now());
        fleet.latest[job.spec.uid] = job;
        step(fleet, {job});
        admit_placed(fleet);
        const int luck = *rc::gen::inRange(0, 10);
        if (luck < 3) answer(fleet, luck < 2);
        for (int ends = *rc::gen::inRange(0, 3); ends > 0 && !fleet.latest.empty(); --ends) {
          auto who = std::next(fleet.latest.begin(), *rc::gen::inRange(0, static_cast<int>(fleet.latest.size())));
          WorkloadUpdated over = who->second;
          over.phase = WorkloadPhase::kFinished;
          fleet.latest.erase(who);
          step(fleet, {over});
        }
        admit_placed(fleet);
      }
      // Steps in progress are completed; pending workloads are removed.
      std::vector<Command> gone;
      for (auto it = fleet.latest.begin(); it != fleet.latest.end();) {
        const bool waits = it->second.phase != WorkloadPhase::kAdmitted;
        if (waits) {
          it->second.phase = WorkloadPhase::kFinished;
          gone.emplace_back(it->second);
        }
        it = waits ? fleet.latest.erase(it) : std::next(it);
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
        const DefragRun plan = run_of(fleet);
        if (!plan.is_active()) continue;
        ++fleet.plans;
        while (answer(fleet, true)) {
        }
        RC_ASSERT(run_of(fleet).last == "Done");
        RC_ASSERT(run_of(fleet).reclaimed == plan.nodes);
        RC_ASSERT(free_nodes(fleet) == before + plan.nodes);
        RC_ASSERT(fleet.asked - so_far == plan.moves);
        fleet.reclaimed += static_cast<int>(plan.nodes);
      }
    }
    asked += fleet.asked, reclaimed += fleet.reclaimed, plans += fleet.plans;
  });
  std::printf("%d migrations; %d plans without disturbance, %d nodes reclaimed\n", asked, plans, reclaimed);
  EXPECT_TRUE(held);
  // Otherwise the test shows nothing.
  EXPECT_GT(asked, 40);
  EXPECT_GT(plans, 10);
}

}  // namespace defrag_executor_prop_test
}  // namespace qm::placement::testing
