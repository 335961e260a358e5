#pragma once
#include "qm/admission/engine.hpp"
#include "state/indexes.hpp"

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <utility>

namespace qm::admission {

/// What the running step has collected. A new step begins with an empty one, so decisions depend only on the rows and
/// the batch.
struct Step {
  Output out;
  std::size_t command = 0;                   ///< index of the command in progress
  std::size_t reserved = 0;                  ///< number of workloads that got quota
  std::set<int> dirty;                       ///< quota trees to schedule
  std::set<QueueName> touched;               ///< queues whose usage changed
  std::set<WorkloadUid> scale_up_requested;  ///< workloads whose requested number of pods increased
  bool resolve_needed = false;               ///< an object changed to which queues or priorities resolve
  std::set<Namespace> relabelled;            ///< namespaces with changed labels

  /// Answers the command in progress.
  void reply(Result<AnyReply> result) { out.replies.push_back({command, std::move(result)}); }
};

/// The instants of the steps that are not undone.
struct Steps {
  Instant committed{};         ///< of the last one that is committed
  std::deque<Instant> open{};  ///< of the others, which may be undone
  [[nodiscard]] Instant last() const { return open.empty() ? committed : open.back(); }
};

/// The data of an engine, which its parts share: options, rows, indexes of the rows, and the running step.
///
/// Rows of workloads are written by WorkloadRows, which keeps the indexes in step. Each other table is written by one
/// part, whose header names it.
struct EngineState {
  explicit EngineState(Options with) : options(std::move(with)), indexes(options.rules) {}

  Options options;
  Tables tables;
  Indexes indexes;
  Step step;
  Instant now{};                 ///< of the running step, or of the last one
  Steps steps;
  bool windows_changed = false;  ///< a quota window has opened or closed in a step that is open
  Instant submissions_end{};     ///< no submission expires before this
  Counters counters;

  /// A row that exists.
  [[nodiscard]] const Workload& workload(const WorkloadUid& uid) const { return *tables.workloads.find(uid); }
  /// The newest workload of that name, one that has not ended before others of the same second; null if there is none.
  [[nodiscard]] const Workload* find(const Namespace& ns, const std::string& name) const;
  /// The workload if this is its attempt and it has not ended; otherwise counts the message as dropped.
  [[nodiscard]] const Workload* current_attempt(const WorkloadUid& uid, std::int32_t attempt);
  /// Marks the quota tree of the queue, or every tree, for scheduling in this step.
  void reschedule(const QueueName& queue) { step.dirty.insert(indexes.decisions.tree_of(queue)); }
  void reschedule_all();
};

}  // namespace qm::admission
