// Orders on a node whose mig-manager is slow, fails and hangs, whose pods start, save and finish at
// random, and on which any action may be lost: the laws hold after each step, and every order ends.
#include "qm/placement/relayout.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace qm::placement::relayout {
namespace relayout_prop_test {

const Capacity kWhole = {{"nvidia.com/gpu", 8}}, kCut = {{"nvidia.com/mig-3g.40gb", 16}};
constexpr Duration kTick = std::chrono::seconds(30);

struct World {
  Observed seen;
  int job = -1;        // ticks until mig-manager is done; -1 = it is idle
  bool fails = false;  // the result of the job
  int plugin = -1;     // ticks until the capacity follows
};

Capacity capacity_of(const std::string& layout) { return layout == "cut" ? kCut : kWhole; }

/// One tick of the node.
void live(World& w, int pods) {
  Observed& s = w.seen;
  for (auto& pod : s.occupants) pod.saved = pod.saved || (pod.asked != Instant{} && *rc::gen::inRange(0, 6) == 0);
  if (*rc::gen::inRange(0, 30) == 0 && !s.occupants.empty()) s.occupants.pop_back();
  // A cordon keeps most pods away, but not all.
  if (static_cast<int>(s.occupants.size()) < pods && *rc::gen::inRange(0, s.cordoned ? 40 : 8) == 0) {
    s.occupants.push_back({"team/" + std::to_string(*rc::gen::inRange(0, 1000)), {}, false});
  }
  if (s.state.empty() && w.job < 0) {
    w.job = *rc::gen::inRange(0, 12);
    w.fails = *rc::gen::inRange(0, 4) == 0;
    if (*rc::gen::inRange(0, 12) == 0) w.job = 1'000'000;  // it hangs
  }
  if (w.job > 0 && w.job < 1'000'000 && *rc::gen::inRange(0, 3) > 0) s.state = "pending";
  if (w.job == 0) {
    s.state = w.fails ? "failed" : "success";
    if (!w.fails) w.plugin = *rc::gen::inRange(0, 14);
  }
  if (w.job >= 0) --w.job;
  if (w.plugin == 0) s.capacity = capacity_of(s.config);
  if (w.plugin >= 0) --w.plugin;
}

void apply_plan(World& w, const Action& action, Instant now) {
  Observed& s = w.seen;
  if (std::holds_alternative<Cordon>(action)) s.cordoned = true;
  if (std::holds_alternative<Uncordon>(action)) s.cordoned = false;
  const auto pod = [&](const std::string& name) { return std::ranges::find(s.occupants, name, &Occupant::pod); };
  if (const auto* save = std::get_if<Save>(&action)) {
    if (const auto at = pod(save->pod); at != s.occupants.end() && at->asked == Instant{}) at->asked = now;
  }
  if (const auto* evict = std::get_if<Evict>(&action)) {
    if (const auto at = pod(evict->pod); at != s.occupants.end()) s.occupants.erase(at);
  }
  if (const auto* label = std::get_if<Label>(&action); label != nullptr && s.config != label->layout) {
    s.config = label->layout;
    s.state.clear();
    w.job = -1;
  }
}

RC_GTEST_PROP(Relayout, LawsHoldAndEveryOrderEnds, ()) {
  World w;
  w.seen.config = "whole";
  w.seen.state = "success";
  w.seen.capacity = kWhole;
  const int most_pods = *rc::gen::inRange(0, 4), losses = *rc::gen::inRange(0, 4);
  Instant now = from_micros(1'000'000'000'000'000);
  const Limits limits;
  Row row;
  row.order = {NodeName("n"), "cut", kCut, {}, {}};
  if (*rc::gen::arbitrary<bool>()) {
    row.order.from = now + kTick * *rc::gen::inRange(0, 40);
    row.order.until = row.order.from + kTick * *rc::gen::inRange(1, 80);
  }
  bool sent_away = false;
  int ticks = 0;
  for (; ticks < 2000 && !(row.over() && (row.phase == Phase::kStuck || !w.seen.cordoned)); ++ticks) {
    now += kTick;
    live(w, ticks < 1000 ? most_pods : 0);
    const Observed seen = w.seen;  // the observation may be one tick late
    const Step step = advance(row, seen, now, limits);
    row = step.row;
    RC_ASSERT(row.over() || row.phase == Phase::kWaiting || step.wake_at > now || !step.actions.empty());
    for (const Action& action : step.actions) {
      if (std::holds_alternative<Label>(action)) {
        RC_ASSERT(seen.cordoned && seen.occupants.empty());
      }
      if (const auto* evict = std::get_if<Evict>(&action)) {
        const auto pod = std::ranges::find(seen.occupants, evict->pod, &Occupant::pod);
        RC_ASSERT(row.order.has_window() && row.order.from <= now && now < row.order.until);
        RC_ASSERT(pod->asked != Instant{} && (pod->saved || pod->asked + limits.save <= now));
        sent_away = true;
      }
      if (std::holds_alternative<Uncordon>(action)) {
        RC_ASSERT(row.phase == Phase::kWaiting || row.phase == Phase::kDone || row.phase == Phase::kFailed);
      }
      if (*rc::gen::inRange(0, 10) >= losses) apply_plan(w, action, now);
    }
  }
  RC_ASSERT(row.over());
  RC_ASSERT(row.order.has_window() || !sent_away);
  if (row.phase == Phase::kDone) RC_ASSERT(w.seen.config == "cut" && w.seen.capacity == kCut);
  if (row.phase == Phase::kFailed) RC_ASSERT(w.seen.config == "whole");
  if (row.phase == Phase::kStuck) RC_ASSERT(w.seen.cordoned);
  RC_CLASSIFY(row.phase == Phase::kDone, "done");
  RC_CLASSIFY(row.phase == Phase::kFailed, "failed");
  RC_CLASSIFY(row.phase == Phase::kStuck, "stuck");
}

}  // namespace relayout_prop_test
}  // namespace qm::placement::relayout
