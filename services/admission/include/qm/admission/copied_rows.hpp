#pragma once
#include "qm/admission/engine.hpp"
#include "qm/service/host.hpp"

#include <memory>
#include <set>
#include <vector>

namespace qm::admission {

struct CopiedRows {
  Engine::Tables rows;
  Options options;
};

/// The engine's rows, copied in slices between batches, so that each holds the engine's thread for less than a millisecond. Rows
/// change meanwhile, each as a whole: what comes while they are copied may be in or not.
///
/// Threads  slice() on the engine's, one after the other; the rest on any.
/// Cost     a slice: 100 workloads of 400 that are looked at, 40 rows of run times, or 8 objects. Copies of workloads are written into
///          memory that whoever asks took and frees.
class RowsCopy {
 public:
  /// What has not ended, of all queues.
  RowsCopy();
  /// The workload with its quota tree: what has not ended there.
  explicit RowsCopy(const WorkloadUid& uid);
  /// The same: what has not ended there, what was submitted since then, ended or not; and what was
  /// learned for forecasts.
  RowsCopy(const WorkloadUid& uid, Instant since);

  /// Takes the next slice; whether there is another. Each is followed by put().
  [[nodiscard]] bool slice(const Engine& engine);
  /// Where it belongs: large tables grow at times, which takes longer.
  void put() { parts_[filled_]->put(out_); }
  [[nodiscard]] CopiedRows take() && { return std::move(out_); }

  /// One table's.
  class Part {
   public:
    virtual ~Part() = default;
    virtual bool slice(const Engine& engine) = 0;
    virtual void put(CopiedRows& into) = 0;
  };

 private:
  void add_objects();
  [[nodiscard]] std::shared_ptr<std::set<QueueName>> add_tree_of(const WorkloadUid& uid);

  std::vector<std::unique_ptr<Part>> parts_;
  std::size_t at_ = 0, filled_ = 0;
  CopiedRows out_;
};

/// All slices.
/// Threads  any but the engine's. Blocks.
[[nodiscard]] CopiedRows copied(RowsCopy copy, service::Host& host);

}  // namespace qm::admission
