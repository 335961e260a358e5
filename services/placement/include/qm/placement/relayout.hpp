#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/model/ids.hpp"
#include "qm/model/resources.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

/// Cuts the GPUs of a node anew, as mig-manager does it: the node's label nvidia.com/mig.config names a layout, and the label
/// nvidia.com/mig.config.state tells what became of it.
///
///   kWaiting ----> kEmptying ----> kSwitching ----> kVerifying ----> kDone
///      ^   idle, or   |   empty         | failed,        | other capacity, too late
///      |   in the     |                 | too late       |
///      |   window     |                 '---> kRollingBack <---'
///      '--------------'                          |           |
///      somebody came                         kFailed      kStuck: neither layout; stays cordoned for a person
///
/// What to do follows from the row and from what is seen, and everything that is done may be done again. So an answer that was
/// lost, a restart, or a new leader are no cases of their own.
namespace qm::placement::relayout {

/// What a node advertises of its GPUs: "nvidia.com/gpu" and "nvidia.com/mig-...". Zeros are left out.
using Capacity = std::map<std::string, std::int64_t>;

/// Hours in which work may be moved away for a layout, every week alike; past midnight where `to` is not after `from`.
struct Weekly {
  unsigned days = 0;  ///< on which it begins: bit 0 is Sunday
  std::chrono::minutes from{0}, to{0};
  friend auto operator<=>(const Weekly&, const Weekly&) = default;
};
/// "Sat,Sun 02:00-06:00", UTC; without days it is every day. kInvalid says what is wrong.
[[nodiscard]] Result<Weekly> weekly_of(std::string_view text);
/// Beginning and end of the window that is open now, else of the next one; both zero where there is none.
[[nodiscard]] std::pair<Instant, Instant> next_window(std::span<const Weekly> windows, Instant now);

struct Order {
  NodeName node;
  std::string layout;  ///< a name in mig-manager's list, "all-1g.10gb"
  Capacity capacity;   ///< that the node has to advertise then
  // The window in which work may be moved away: saved first, then evicted. Until equal to from = there is none, and the order
  // waits for the GPUs to be idle by themselves.
  Instant from{}, until{};
  [[nodiscard]] bool has_window() const { return until > from; }
  friend auto operator<=>(const Order&, const Order&) = default;
};

enum class Phase { kWaiting, kEmptying, kSwitching, kVerifying, kRollingBack, kDone, kFailed, kStuck };
[[nodiscard]] std::string_view name_of(Phase phase);

struct Row {
  Order order;
  Phase phase = Phase::kWaiting;
  Instant since{};       ///< of the phase
  std::string previous;  ///< layout that the label named before; known from kEmptying on
  Capacity before;       ///< and what the node advertised with it
  std::string reason;    ///< why it waits, or did not come to be
  bool withdrawn = false;
  [[nodiscard]] bool over() const { return phase == Phase::kDone || phase == Phase::kFailed || phase == Phase::kStuck; }
  friend auto operator<=>(const Row&, const Row&) = default;
};

/// A pod that holds devices of the node, and has not ended.
struct Occupant {
  std::string pod;     ///< "namespace/name"
  Instant asked{};     ///< when it was last asked to save; zero = it was not
  bool saved = false;  ///< since it was asked, or it has nothing to save
};
struct Seen {
  std::string config, state;  ///< the two labels; empty = absent
  Capacity capacity;          ///< allocatable
  bool cordoned = false;      ///< nothing new lands on it, by our order
  bool ready = true;
  std::vector<Occupant> occupants;
};

struct Cordon {};
struct Uncordon {};
struct Save {  ///< ask the pod to save its work
  std::string pod;
};
struct Evict {
  std::string pod;
};
/// Writes the label with the layout, and takes the state's label away in the same write: what it said is of another layout.
/// Where the label names the layout already, nothing is written.
struct Label {
  std::string layout;
};
using Action = std::variant<Cordon, Uncordon, Save, Evict, Label>;

struct Limits {
  Duration save = std::chrono::minutes(5);    ///< a pod that has not saved by then is evicted all the same
  Duration empty = std::chrono::minutes(20);  ///< until the node is empty
  Duration apply = std::chrono::minutes(15);  ///< from the label to its state: GPUs are reset, at times the machine
  Duration verify = std::chrono::minutes(5);  ///< from success to the capacity: the device plugin starts anew
};

struct Step {
  Row row;
  std::vector<Action> actions;
  Instant wake_at{};  ///< the row may change at this time by itself; zero = not
};

/// What is to be done now. A row that is over() stays as it is, and lifts its cordon until it is seen lifted; one that is stuck
/// keeps it.
///
/// Laws     the label changes only on a node that is cordoned and has no occupants; a pod is evicted only in the window, after it
///          has saved or had its time; the node is uncordoned when the layout stands, or the former one does again.
/// Threads  any; reads only its arguments.
[[nodiscard]] Step advance(Row row, const Seen& seen, Instant now, const Limits& limits = {});

}  // namespace qm::placement::relayout
