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

/// Repartitions the GPUs of a node through mig-manager: the node label nvidia.com/mig.config names a layout,
/// and mig-manager writes the result to the label nvidia.com/mig.config.state.
///
///   kWaiting ----> kEmptying ----> kSwitching ----> kVerifying ----> kDone
///      ^   idle, or   |   empty         | failed,        | other capacity, too late
///      |   in the     |                 | too late       |
///      |   window     |                 '---> kRollingBack <---'
///      '--------------'                          |           |
///      a pod came                            kFailed      kStuck: neither layout; stays cordoned, needs a person
///
/// Every action follows from the row and the observed node, and may be repeated. Lost replies, restarts and
/// leader changes therefore need no special handling.
namespace qm::placement::relayout {

/// GPU resources that a node advertises: "nvidia.com/gpu" and "nvidia.com/mig-...". Zeros are left out.
using Capacity = std::map<std::string, std::int64_t>;

/// Weekly hours in which pods may be evicted for a layout. The window ends on the next day if `to` is not
/// after `from`.
struct Weekly {
  unsigned days = 0;  ///< weekdays on which it begins: bit 0 is Sunday
  std::chrono::minutes from{0}, to{0};
  friend auto operator<=>(const Weekly&, const Weekly&) = default;
};
/// "Sat,Sun 02:00-06:00", UTC; without days it is every day. Fails with kInvalid and the reason.
[[nodiscard]] Result<Weekly> weekly_of(std::string_view text);
/// Start and end of the current window, else of the next one; both zero if there is none.
[[nodiscard]] std::pair<Instant, Instant> next_window(std::span<const Weekly> windows, Instant now);

struct Order {
  NodeName node;
  std::string layout;  ///< a name in mig-manager's list, "all-1g.10gb"
  Capacity capacity;   ///< that the node must advertise afterwards
  // The window in which pods are asked to save, and then evicted. If `until` equals `from` there is no
  // window, and the order waits until the GPUs are idle.
  Instant from{}, until{};
  [[nodiscard]] bool has_window() const { return until > from; }
  friend auto operator<=>(const Order&, const Order&) = default;
};

enum class Phase { kWaiting, kEmptying, kSwitching, kVerifying, kRollingBack, kDone, kFailed, kStuck };
[[nodiscard]] std::string_view name_of(Phase phase);

struct Row {
  Order order;
  Phase phase = Phase::kWaiting;
  Instant since{};       ///< start of the phase
  std::string previous;  ///< layout of the label before; set from kEmptying on
  Capacity before;       ///< capacity that the node advertised with it
  std::string reason;    ///< why it waits or failed
  bool withdrawn = false;
  [[nodiscard]] bool over() const { return phase == Phase::kDone || phase == Phase::kFailed || phase == Phase::kStuck; }
  friend auto operator<=>(const Row&, const Row&) = default;
};

/// A pod that holds devices of the node and has not ended.
struct Occupant {
  std::string pod;     ///< "namespace/name"
  Instant asked{};     ///< last request to save; zero = none
  bool saved = false;  ///< since that request, or it has nothing to save
};
struct Observed {
  std::string config, state;  ///< the two labels; empty = absent
  Capacity capacity;          ///< allocatable
  bool cordoned = false;      ///< no new pods are placed on it, by our order
  bool ready = true;
  std::vector<Occupant> occupants;
};

struct Cordon {};
struct Uncordon {};
struct Save {  ///< asks the pod to save its work
  std::string pod;
};
struct Evict {
  std::string pod;
};
/// Sets the layout label and removes the state label in one write, since the state belongs to the former
/// layout. If the label has the layout already, nothing is written.
struct Label {
  std::string layout;
};
using Action = std::variant<Cordon, Uncordon, Save, Evict, Label>;

struct Limits {
  Duration save = std::chrono::minutes(5);    ///< a pod that has not saved by then is evicted
  Duration empty = std::chrono::minutes(20);  ///< limit until the node is empty
  Duration apply = std::chrono::minutes(15);  ///< from the label to its state: GPUs are reset, sometimes the host
  Duration verify = std::chrono::minutes(5);  ///< from success to the capacity: the device plugin restarts
};

struct Step {
  Row row;
  std::vector<Action> actions;
  Instant wake_at{};  ///< next timer of the row; zero = none
};

/// Returns the next row and actions. A row that is over() does not change and is uncordoned until this is
/// observed; a kStuck one stays cordoned.
///
/// Laws     the label changes only on a cordoned node without occupants. A pod is evicted only within the
///          window, after it has saved or its time is over. The node is uncordoned when the new or the former
///          layout is in effect.
/// Threads  any; reads only its arguments.
[[nodiscard]] Step advance(Row row, const Observed& seen, Instant now, const Limits& limits = {});

}  // namespace qm::placement::relayout
