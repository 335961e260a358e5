#pragma once
#include "qm/admission/engine.hpp"
#include "qm/service/host.hpp"

#include <memory>
#include <set>
#include <vector>

namespace qm::admission {

struct CopiedRows {
  Tables rows;
  Options options;
};

/// Copies the rows of the engine in slices between batches, so that each slice holds the engine thread for less than a
/// millisecond. Rows change meanwhile, each as a whole: a change during the copy may be included or not.
///
/// Threads  slice() on the engine thread, one after the other; the rest on any.
/// Cost     a slice: 100 workloads of 400 examined, 40 rows of run times, or 8 objects. Copies of workloads go to
///          memory that the requesting thread allocates and frees.
class RowsCopy {
 public:
  /// All rows that have not ended, of all queues.
  RowsCopy();
  /// The workload with its quota tree, and the workloads of other trees that use nodes: rows that have not ended.
  explicit RowsCopy(const WorkloadUid& uid);
  /// The same, in addition the rows submitted after `since`, ended or not; and the observations for forecasts.
  RowsCopy(const WorkloadUid& uid, Instant since);

  /// Copies the next slice; returns whether there is another. Call put() after each.
  [[nodiscard]] bool slice(const Engine& engine);
  /// Stores the slice. Large tables sometimes reallocate, which takes longer.
  void put() { parts_[filled_]->put(out_); }
  [[nodiscard]] CopiedRows take() && { return std::move(out_); }

  /// The copy of one table.
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

/// Copies all slices.
/// Threads  any but that of the engine. Blocks.
[[nodiscard]] CopiedRows copied(RowsCopy copy, service::Host& host);

}  // namespace qm::admission
