#include "qm/placement/relayout.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::placement::relayout {
namespace {

/// mig-manager's name for GPUs that are not partitioned: a node without the label is rolled back to it.
constexpr std::string_view kUncut = "all-disabled";

bool settled(const std::string& state) { return state.empty() || state == "success" || state == "failed"; }

class Stepper {
 public:
  Stepper(Row row, const Observed& seen, Instant now, const Limits& limits)
      : seen_(seen), now_(now), limits_(limits), out_{std::move(row), {}, {}} {}

  Step run() {
    // A phase that ends at once is followed by the next one. Phases do not cycle without a new observation.
    for (int phases = 0; phases < 8; ++phases) {
      const Phase before = row().phase;
      out_.wake_at = {};
      look();
      if (row().phase == before) break;
    }
    return std::move(out_);
  }

 private:
  Row& row() { return out_.row; }
  void act(Action action) { out_.actions.push_back(std::move(action)); }
  void go(Phase phase, std::string reason = {}) {
    row().phase = phase;
    row().since = now_;
    row().reason = std::move(reason);
  }
  void end(Phase phase, std::string reason) { go(phase, std::move(reason)); }
  void wait(std::string why, Instant until = {}) {
    row().reason = std::move(why);
    if (until != Instant{} && (out_.wake_at == Instant{} || until < out_.wake_at)) out_.wake_at = until;
  }
  bool late(Duration limit) {
    if (row().since + limit <= now_) return true;
    wait(row().reason, row().since + limit);
    return false;
  }
  [[nodiscard]] bool in_window() const {
    const Order& order = out_.row.order;
    return order.has_window() && order.from <= now_ && now_ < order.until;
  }

  void look() {
    switch (row().phase) {
      case Phase::kWaiting:
        return waiting();
      case Phase::kEmptying:
        return emptying();
      case Phase::kSwitching:
        return switching();
      case Phase::kVerifying:
        return verifying();
      case Phase::kRollingBack:
        return rolling_back();
      case Phase::kDone:
      case Phase::kFailed:
        if (seen_.cordoned) act(Uncordon{});
        return;
      case Phase::kStuck:
        return;
    }
  }

  void waiting() {
    const Order& order = row().order;
    if (row().withdrawn) return end(Phase::kFailed, "withdrawn");
    if (seen_.config == order.layout && seen_.state == "success" && seen_.capacity == order.capacity) {
      return end(Phase::kDone, "the layout is applied already");
    }
    if (order.has_window() && order.until <= now_) return end(Phase::kFailed, "the window has ended");
    if (!seen_.ready) return wait("the node is not ready", order.until);
    if (!settled(seen_.state)) return wait("another layout is being applied", order.until);
    if (order.has_window() && now_ < order.from) return wait("the window has not started", order.from);
    if (!seen_.occupants.empty() && !order.has_window()) {
      return wait(fmt::format("{} pods use its GPUs", seen_.occupants.size()));
    }
    row().previous = seen_.config.empty() ? kUncut : std::string_view(seen_.config);
    row().before = seen_.capacity;
    go(Phase::kEmptying);
  }

  void emptying() {
    if (row().withdrawn) return end(Phase::kFailed, "withdrawn");
    if (!seen_.cordoned) {
      act(Cordon{});
      return late(limits_.empty) ? end(Phase::kFailed, "the node could not be cordoned")
                                 : wait("the node is being cordoned", row().since + limits_.empty);
    }
    if (seen_.occupants.empty()) return go(Phase::kSwitching);
    if (!row().order.has_window()) {  // a pod was bound before the cordon
      act(Uncordon{});
      go(Phase::kWaiting, "a pod started");
      return;
    }
    if (!in_window()) return end(Phase::kFailed, "the window ended before the node was empty");
    if (late(limits_.empty)) return end(Phase::kFailed, "the node did not become empty");
    wait(fmt::format("{} pods save a checkpoint and are evicted", seen_.occupants.size()), row().order.until);
    evict_occupants();
  }

  void evict_occupants() {
    for (const Occupant& pod : seen_.occupants) {
      if (pod.asked == Instant{}) {
        act(Save{pod.pod});
      } else if (pod.saved || pod.asked + limits_.save <= now_) {
        act(Evict{pod.pod});
      } else {
        wait(row().reason, pod.asked + limits_.save);
      }
    }
  }

  void switching() {
    const Order& order = row().order;
    if (seen_.config != order.layout) {
      if (seen_.config != row().previous && !(seen_.config.empty() && row().previous == kUncut)) {
        return end(Phase::kFailed, fmt::format("another client set the layout '{}'", seen_.config));
      }
      // The GPUs must be idle at this moment. If pods were bound in spite of the cordon, the order
      // goes back to the emptying phase.
      if (!seen_.occupants.empty() || !seen_.cordoned) {
        go(Phase::kEmptying);
        return;
      }
      if (late(limits_.apply)) return end(Phase::kFailed, "the label could not be written");
      act(Label{order.layout});
      return wait("the label is being written", row().since + limits_.apply);
    }
    if (seen_.state == "success") return go(Phase::kVerifying);
    if (seen_.state == "failed") return go(Phase::kRollingBack, "mig-manager could not apply the layout");
    if (late(limits_.apply)) return go(Phase::kRollingBack, "mig-manager did not apply the layout in time");
    wait("mig-manager applies the layout", row().since + limits_.apply);
  }

  void verifying() {
    if (seen_.ready && seen_.capacity == row().order.capacity) return end(Phase::kDone, "");
    if (late(limits_.verify))
      return go(Phase::kRollingBack, "MIG_CAPACITY_MISMATCH: the node advertises other devices than the layout has");
    wait("waiting for the devices", row().since + limits_.verify);
  }

  // The reason is kept: it is why the order is rolled back.
  void rolling_back() {
    const std::string why = row().reason;
    if (seen_.config != row().previous) {
      if (seen_.config != row().order.layout) {
        return end(Phase::kFailed, fmt::format("{}; then another client set the layout '{}'", why, seen_.config));
      }
      if (!seen_.cordoned || !seen_.occupants.empty()) {
        // A pod was bound in spite of the cordon, or the node was uncordoned by hand. The time
        // limit applies only once the GPUs are idle.
        row().since = now_;
        wait(why, now_ + limits_.empty);
        if (!seen_.cordoned) act(Cordon{});
        if (in_window()) evict_occupants();
        return;
      }
      if (late(limits_.apply)) return end(Phase::kStuck, why + "; the former layout's label could not be written");
      act(Label{row().previous});
      return wait(why, row().since + limits_.apply);
    }
    if (seen_.state == "success" && seen_.ready && seen_.capacity == row().before) return end(Phase::kFailed, why);
    if (seen_.state == "failed") return end(Phase::kStuck, why + "; it could not apply the former layout either");
    if (late(limits_.apply + limits_.verify))
      return end(Phase::kStuck, why + "; the former layout was not restored in time");
    wait(why, row().since + limits_.apply + limits_.verify);
  }

  const Observed& seen_;
  const Instant now_;
  const Limits& limits_;
  Step out_;
};

}  // namespace

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::kWaiting:
      return "waiting";
    case Phase::kEmptying:
      return "emptying";
    case Phase::kSwitching:
      return "switching";
    case Phase::kVerifying:
      return "verifying";
    case Phase::kRollingBack:
      return "rolling back";
    case Phase::kDone:
      return "done";
    case Phase::kFailed:
      return "failed";
    case Phase::kStuck:
      return "stuck";
  }
  return "unknown";
}

Step advance(Row row, const Observed& seen, Instant now, const Limits& limits) {
  return Stepper(std::move(row), seen, now, limits).run();
}

}  // namespace qm::placement::relayout
