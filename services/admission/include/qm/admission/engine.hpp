#pragma once
#include "qm/admission/commands.hpp"
#include "qm/admission/tables.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace qm::admission {

struct EngineState;
struct EngineParts;

/// Messages that a step dropped, since the engine was created.
struct Counters {
  std::uint64_t stale = 0;    ///< messages for earlier attempts
  std::uint64_t unknown = 0;  ///< messages for unknown workloads
};

/// Decides which workloads are admitted: queues, quota, preemption, and the handshake with placement.
///
/// A workload goes Pending -> QuotaReserved -> Admitted -> Finished. Quota is reserved in full or not at all, when a
/// flavor fits each of its pod sets. The QuotaReserved event is the request to placement. Reserved admits the workload.
/// Short releases the quota and starts the next attempt, unless capacity is promised. Only admission orders evictions.
/// An admitted workload releases its quota only when placement reports that its pods are gone, or when its job ends.
///
/// Where another scheduler binds the pods there is no handshake. Reserved quota admits the workload. An evicted
/// workload releases its quota when its job is observed suspended without pods, or deleted. If no placement service runs
/// at all, flavors with a Topology have nodes, and a workload gets quota and nodes together.
///
/// A deleted cluster queue admits no more workloads. Workloads that it admitted run to completion; the queue is removed
/// with the last of them. Its pending workloads stay pending until a queue of that name is applied.
///
/// Queries are functions over state(): see queries/explanation.hpp, queries/queues.hpp, queries/workloads.hpp and
/// queries/when.hpp.
///
/// Laws     usage of a queue is the sum over its workloads that hold quota; quota is reserved only where it is
///          available; the attempt increases with each release, and otherwise only to follow placement after lost
///          commits; an ended workload never changes phase; `now` never decreases. A broken law stops the program.
/// Order    the commands of a batch in order, then due timers, then each quota tree with a change is scheduled. Nothing
///          depends on hashing.
/// Threads  one.
/// Cost     a change costs the pending shapes in its quota tree, not the workloads (kueue/continuous.hpp).
class Engine {
 public:
  using Command = admission::Command;
  using Output = admission::Output;

  explicit Engine(Options options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  /// Steps that may be neither committed nor undone.
  static constexpr std::size_t kMostOpen = 2;
  Output step(std::span<const Command> batch, Instant now);
  /// Reverts the newest step. Row by row if only workloads changed; otherwise the indexes are rebuilt.
  void undo();
  /// Commits the oldest step that is not committed.
  void commit();
  /// See digest_of(). Cost: all rows.
  [[nodiscard]] std::uint64_t digest() const;

  [[nodiscard]] const Options& options() const;
  [[nodiscard]] const Tables& tables() const;
  /// For loading: fill these tables, then call loaded().
  [[nodiscard]] Tables& tables_for_load();
  /// Builds the indexes, as of `now` where the engine is read before its first step. Otherwise the first step
  /// sets the time.
  void loaded(Instant now = {});

  /// For queries. Valid as long as the engine.
  [[nodiscard]] const EngineState& state() const;
  [[nodiscard]] const Workload* find(const WorkloadUid& uid) const { return tables().workloads.find(uid); }
  /// The workload of that name; the newest one where successive jobs have the same name.
  [[nodiscard]] const Workload* find(const Namespace& ns, const std::string& name) const;
  [[nodiscard]] const Counters& counters() const;
  /// Compares each derived index with a rebuilt one, and recounts usage. A difference is a broken law.
  void check_laws() const;

 private:
  std::unique_ptr<EngineParts> parts_;
};

}  // namespace qm::admission
