// Generated fleets and demands, with an admission that accepts, refuses, or does not respond: every
// victim may be preempted, is needed, and together they are enough; and an engine restored from the
// rows makes the same decisions.
#include "test/engine/script.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>

namespace qm::placement::testing {
namespace proposals_prop_test {

constexpr int kNodes = 4;

Options preemption() {
  Options options;
  options.preemption.on = true;
  options.preemption.after = Duration{0};
  options.topology = {"zone"};
  return options;
}

struct Fleet {
  Script script{preemption()};
  std::map<WorkloadUid, WorkloadUpdated> latest;  // the newest of each
  int made = 0, accepted = 0, moving = 0, moved = 0;
};

WorkloadUpdated wish_of(int number) {
  WorkloadUpdated out;
  out.spec.uid = WorkloadUid(fmt::format("w{:03}", number));
  out.spec.name = out.spec.uid.value();
  out.spec.priority = *rc::gen::inRange(0, 4);
  const int kind = *rc::gen::inRange(0, 6);
  out.spec.pod_sets = {kind == 0   ? pod_set(1, 8)
                       : kind == 1 ? pod_set(2, 4)
                       : kind == 2 ? pod_set(2, 0, 500)
                       : kind == 3 ? pod_set(3, 2)
                                   : pod_set(1, *rc::gen::inRange(1, 5))};
  if (kind == 1) out.spec.pod_sets[0].topology.required = "zone";
  out.phase = WorkloadPhase::kQuotaReserved;
  out.quota_facts = {*rc::gen::element<std::string>("q", "r"),
                     "t",
                     *rc::gen::arbitrary<bool>(),
                     *rc::gen::arbitrary<bool>(),
                     {},
                     {},
                     {}};
  return out;
}

/// True if the workload is placed after these finish and no other workload is pending.
bool places(const Fleet& fleet, const Engine& engine, const WorkloadUid& wish, const std::set<WorkloadUid>& ended,
            Instant now) {
  auto alone = read_back(engine, Options(preemption()));
  alone->mutable_tables().proposals.clear();
  alone->rebuild();
  std::vector<Command> batch;
  for (const auto& [uid, row] : engine.tables().assignments) {
    const auto newest = fleet.latest.find(uid.uid);
    const bool waits = row.state == AssignmentState::kShort && uid.uid != wish;
    if (newest == fleet.latest.end() || (!waits && !ended.contains(uid.uid))) continue;
    WorkloadUpdated over = newest->second;
    over.phase = WorkloadPhase::kFinished;
    batch.emplace_back(over);
  }
  batch.emplace_back(fleet.latest.at(wish));
  (void)alone->step(batch, now);
  const Assignment* row = alone->tables().assignments.find({wish, fleet.latest.at(wish).attempt});
  return row != nullptr && row->holds();
}

std::ptrdiff_t active_proposals(const Engine& engine) {
  return std::ranges::count_if(engine.tables().proposals, [](const auto& one) { return one.second.is_active(); });
}

/// One step, executed by an engine that has just been restored from the rows, too.
void step(Fleet& fleet, const std::vector<Command>& batch) {
  auto other = read_back(fleet.script.engine(), preemption());
  const auto theirs = render(other->step(batch, fleet.script.now()), true);
  const Output output = fleet.script.step(batch);
  RC_ASSERT(render(output, true) == theirs);
  RC_ASSERT(other->digest() == fleet.script.engine().digest());

  const Engine& engine = fleet.script.engine();
  for (const Event& event : output.events) {
    const auto* proposed = std::get_if<ProposalChanged>(&event);
    const Proposal* row = proposed == nullptr ? nullptr : engine.tables().proposals.find(proposed->uid);
    if (row == nullptr || row->number != proposed->state.number || row->state != ProposalState::kProposed) continue;
    ++fleet.made;
    const Workload& wish = *engine.tables().workloads.find(proposed->uid);
    std::set<WorkloadUid> victims;
    for (const auto& victim : row->victims) {
      const Workload& gives = *engine.tables().workloads.find(victim.id.uid);
      if (victim.to.empty()) {
        RC_ASSERT(gives.spec.priority < wish.spec.priority);
        RC_ASSERT((gives.quota_facts.queue == wish.quota_facts.queue ? wish.quota_facts.own_queue
                                                                     : wish.quota_facts.in_tree));
      } else {
        RC_ASSERT(gives.spec.priority <= wish.spec.priority);
        ++fleet.moving;
      }
      victims.insert(victim.id.uid);
    }
    RC_ASSERT(!victims.empty());
    // Capacity that is reserved by other proposals may be missing for this one: the outcome is
    // known only if there is no other proposal.
    if (active_proposals(engine) != 1) continue;
    RC_ASSERT(places(fleet, engine, proposed->uid, victims, fleet.script.now()));
    for (const WorkloadUid& stays : victims) {
      auto fewer = victims;
      fewer.erase(stays);
      RC_ASSERT(!places(fleet, engine, proposed->uid, fewer, fleet.script.now()));
    }
  }
}

void admit_placed(Fleet& fleet) {
  std::vector<Command> batch;
  for (const auto& [id, row] : fleet.script.engine().tables().assignments) {
    auto newest = fleet.latest.find(id.uid);
    if (!row.holds() || newest == fleet.latest.end() || newest->second.phase != WorkloadPhase::kQuotaReserved) continue;
    newest->second.phase = WorkloadPhase::kAdmitted;
    newest->second.quota_facts.admitted = fleet.script.now();
    batch.emplace_back(newest->second);
  }
  if (!batch.empty()) step(fleet, batch);
}

/// Evicts the victims or lets them stay; a victim with reserved places gets them in its next attempt.
void answer(Fleet& fleet, bool accept) {
  std::vector<Command> batch;
  std::map<WorkloadUid, std::vector<HeldCapacity>> kept;
  const bool several = active_proposals(fleet.script.engine()) != 1;  // one may get the capacity of another
  std::int32_t most_urgent = 0;  // of the pending workloads: one with lower priority may lose its reserved places
  for (const auto& [id, row] : fleet.script.engine().tables().assignments) {
    const auto waits = fleet.latest.find(id.uid);
    if (waits != fleet.latest.end() && row.state == AssignmentState::kShort)
      most_urgent = std::max(most_urgent, waits->second.spec.priority);
  }
  for (const auto& [uid, row] : fleet.script.engine().tables().proposals) {
    if (row.state != ProposalState::kProposed) continue;
    WorkloadUpdated update = fleet.latest.at(uid);
    update.answer = ProposalAnswer{row.number, accept, accept ? "" : "MinimumRunTime", {}};
    if (!accept) update.answer->refused.push_back(row.victims.front().id.uid);
    batch.emplace_back(update);
    if (!accept) continue;
    ++fleet.accepted;
    for (const auto& victim : row.victims) {
      if (!fleet.latest.contains(victim.id.uid)) continue;  // it has finished by itself
      auto& gives = fleet.latest.at(victim.id.uid);
      gives.phase = WorkloadPhase::kEvicting;
      gives.order_deadline = fleet.script.now() + std::chrono::seconds(30);
      batch.emplace_back(gives);
      if (!victim.to.empty()) kept[victim.id.uid] = victim.to;
    }
  }
  if (batch.empty()) return;
  if (*rc::gen::arbitrary<bool>()) std::ranges::reverse(batch);
  for (const Command& one : batch) step(fleet, {one});
  for (const auto& [uid, places] : kept) {
    auto& back = fleet.latest.at(uid);
    ++back.attempt;
    back.phase = WorkloadPhase::kQuotaReserved;
    back.order_deadline = {};
    back.quota_facts.admitted = {};
    step(fleet, {back});
    if (several || back.spec.priority < most_urgent) continue;
    const Assignment* row = fleet.script.engine().tables().assignments.find({uid, back.attempt});
    RC_ASSERT(row != nullptr);
    RC_ASSERT(row->holds());
    // On those nodes, decided again: of two equal nodes either may get one pod more than was planned.
    std::set<NodeName> planned;
    for (const HeldCapacity& place : places) planned.insert(place.node);
    RC_ASSERT(row->members.size() == places.size());
    for (const Member& member : row->members) RC_ASSERT(planned.contains(member.node));
    ++fleet.moved;
  }
}

TEST(ProposalLaws, VictimsAreCandidatesNecessaryAndSufficient) {
  int made = 0, accepted = 0, moving = 0, moved = 0;
  const bool held = rc::check([&] {
    Fleet fleet;
    step(fleet, zoned_nodes(kNodes));
    const int workloads = *rc::gen::inRange(12, 40);
    for (int i = 0; i < workloads; ++i) {
      fleet.script.advance(std::chrono::seconds(*rc::gen::inRange(1, 60)));
      const auto wish = wish_of(i);
      fleet.latest[wish.spec.uid] = wish;
      step(fleet, {wish});
      admit_placed(fleet);
      const int luck = *rc::gen::inRange(0, 10);
      if (luck < 5) answer(fleet, luck < 4);
      if (luck == 9) {  // a workload finishes
        auto ends = std::next(fleet.latest.begin(), *rc::gen::inRange(0, static_cast<int>(fleet.latest.size())));
        WorkloadUpdated over = ends->second;
        over.phase = WorkloadPhase::kFinished;
        fleet.latest.erase(ends);
        step(fleet, {over});
      }
      admit_placed(fleet);
    }
    made += fleet.made;
    accepted += fleet.accepted;
    moving += fleet.moving;
    moved += fleet.moved;
  });
  EXPECT_TRUE(held);
  // Otherwise the test shows nothing.
  EXPECT_GT(made, 100);
  EXPECT_GT(accepted, 50);
  EXPECT_GT(moving, 5) << "no migration was proposed";
  EXPECT_GT(moved, 0) << "nothing migrated";
}

}  // namespace proposals_prop_test
}  // namespace qm::placement::testing
