#pragma once
#include "qm/admission/volcano/queues.hpp"

#include <vector>

namespace qm::admission::volcano {

/// Dominant resource fairness between jobs: share = the largest of allocated / total; the smallest share is served
/// first.
///
/// A victim is a piece whose job, without it, still has at least the share that the requesting job has with it.
///
/// Law      evicting the victim does not reverse the order of the two jobs.
/// Threads  any. Cost  O(resources).
/// Source   Ghodsi et al., Dominant Resource Fairness, NSDI 2011, section 4; Volcano, pkg/scheduler/plugins/drf, which
///          allows shares to differ by a millionth, for its floating point.
namespace drf {
[[nodiscard]] bool gives(const Resources& victims_job, const Resources& piece, const Resources& needy_job,
                         const Resources& need, const Resources& total);
}  // namespace drf

/// The same over the tree of queues: which of two queues received less, from the root down.
///
/// The share of a node is that of the sum over its children. Each child is scaled down to the smallest share among
/// the children with unmet requests. So a child with a large share does not hide one with a small share. A job is
/// saturated when it has all it requests of some resource, or requests an exhausted one; a node when all its
/// children are. Saturated nodes come last.
///
/// Units    shares in billionths, rounded down; scaled amounts are rounded down.
/// Order    unsaturated first, then share / weight, level by level where the paths part; then the number of the queue.
/// Threads  any, once built. Cost  O((queues + jobs) · resources) to build.
/// Source   Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads, SoCC 2013; Volcano,
///          plugins/drf.
class Hdrf {
 public:
  struct Job {
    QueueId queue = 0;
    Resources allocated, request;
  };
  Hdrf(const Queues& queues, const std::vector<Job>& jobs);

  [[nodiscard]] bool before(QueueId a, QueueId b) const;
  [[nodiscard]] std::int64_t share(QueueId q) const { return nodes_[static_cast<std::size_t>(q)].share; }
  [[nodiscard]] bool saturated(QueueId q) const { return nodes_[static_cast<std::size_t>(q)].saturated; }

 private:
  struct Node {
    Resources allocated;
    std::int64_t share = 0;
    bool saturated = true;
    std::int32_t weight = 1;
  };
  void gather(Node& into, const std::vector<const Node*>& parts) const;
  [[nodiscard]] std::int64_t share_of(const Resources& allocated) const;

  Resources total_;
  std::vector<Node> nodes_;
  std::vector<std::vector<QueueId>> paths_;  ///< of each queue, including itself as the last
};

}  // namespace qm::admission::volcano
