#pragma once
#include "qm/admission/volcano/resources.hpp"
#include "qm/admission/volcano/victim_policies.hpp"
#include "qm/base/result.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::volcano {

using QueueId = int;  ///< a parent has a smaller number than its children; 0 is the root

enum class QueueState : std::uint8_t { kOpen, kClosed, kClosing, kUnknown };

/// Fields of a Queue. Resource lists have the length of the total.
struct Queue {
  std::string name;
  std::string parent;  ///< empty: the root
  std::int32_t weight = 1;
  std::int32_t priority = 0;  ///< higher is served first
  QueueState state = QueueState::kOpen;
  bool reclaimable = true;  ///< other queues may reclaim what it has beyond its share
  bool preemptable = true;  ///< its jobs may be victims at all
  bool strict = false;      ///< dequeueStrategy fifo: a head that does not fit blocks the queue
  VictimPolicy victims = VictimPolicy::kFifo;
  Resources capability;  ///< kUnlimited if not set
  Resources guarantee, deserved;
  friend bool operator==(const Queue&, const Queue&) = default;
};

/// Amounts by resource name. Units  cpu in thousandths, everything else in units, rounded up.
using Named = std::map<std::string, std::int64_t>;

/// A Queue as written.
struct QueueObject {
  Queue rules;  ///< without its amounts
  Named capability, guarantee, deserved;
  friend bool operator==(const QueueObject&, const QueueObject&) = default;
};

/// Annotation or label of a job: "false" keeps it from being a victim.
inline constexpr std::string_view kPreemptable = "volcano.sh/preemptable";

/// Usage and requests of a queue; of an inner queue the sum over its leaves.
struct Use {
  Resources allocated;
  Resources request;  ///< allocated and pending together
  Resources inqueue;  ///< enqueued; some of its pods do not exist yet
};

/// The tree of queues over the resources of a cluster, with the usage of each.
///
/// Order    numbered by depth, then name; the input order has no effect.
/// Law      use of an inner queue is the sum over its children.
/// Threads  one; a copy is a snapshot.
/// Fails    plant: kInvalid for a duplicate name, a missing parent, a cycle of parents.
/// Cost     O(depth · resources) for each change of use.
/// Source   Volcano, docs/design/hierarchical-queue-on-capacity-plugin.md.
class Queues {
 public:
  [[nodiscard]] static Result<Queues> plant(std::vector<Queue> queues, Resources total);

  [[nodiscard]] int size() const { return static_cast<int>(queues_.size()); }
  [[nodiscard]] const Resources& total() const { return total_; }
  [[nodiscard]] const Queue& operator[](QueueId q) const { return queues_[at(q)]; }
  [[nodiscard]] const Use& use(QueueId q) const { return use_[at(q)]; }
  [[nodiscard]] std::optional<QueueId> find(std::string_view name) const;
  [[nodiscard]] const std::vector<QueueId>& children(QueueId q) const { return children_[at(q)]; }
  [[nodiscard]] bool is_leaf(QueueId q) const { return q != 0 && children_[at(q)].empty(); }
  [[nodiscard]] std::vector<QueueId> leaves() const;
  /// From the root to the parent.
  [[nodiscard]] std::vector<QueueId> ancestors(QueueId q) const;
  /// The ancestor this many steps up, excluding the root.
  [[nodiscard]] std::optional<QueueId> ancestor(QueueId q, int steps) const;
  /// How many ancestors two queues have in common.
  [[nodiscard]] int common(QueueId a, QueueId b) const;

  /// Changes a leaf and all its ancestors.
  void allocate(QueueId leaf, const Resources& amounts) { change(leaf, &Use::allocated, amounts, add); }
  void release(QueueId leaf, const Resources& amounts) { change(leaf, &Use::allocated, amounts, take); }
  void ask(QueueId leaf, const Resources& amounts) { change(leaf, &Use::request, amounts, add); }
  void ask_no_more(QueueId leaf, const Resources& amounts) { change(leaf, &Use::request, amounts, take); }

 private:
  static std::size_t at(QueueId q) { return static_cast<std::size_t>(q); }
  void change(QueueId leaf, Resources Use::*what, const Resources& amounts, void (*how)(Resources&, const Resources&));

  Resources total_;
  std::vector<Queue> queues_;
  std::vector<QueueId> parents_;
  std::vector<std::vector<QueueId>> children_;
  std::vector<Use> use_;
};

}  // namespace qm::admission::volcano
