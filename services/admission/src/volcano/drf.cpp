#include "qm/admission/volcano/drf.hpp"

#include <algorithm>

namespace qm::admission::volcano {
namespace {

constexpr std::int64_t kWhole = 1'000'000'000;

}  // namespace

bool drf::gives(const Resources& victims_job, const Resources& piece, const Resources& needy_job, const Resources& need,
                const Resources& total) {
  return dominant(sum(needy_job, need), total) <= dominant(rest(victims_job, piece), total);
}

std::int64_t Hdrf::share_of(const Resources& allocated) const {
  const auto share = dominant(allocated, total_);
  return static_cast<std::int64_t>(Wide(share.part) * kWhole / share.whole);
}

void Hdrf::gather(Node& into, const std::vector<const Node*>& parts) const {
  std::int64_t smallest = kWhole;
  for (const auto* part : parts) {
    into.saturated = into.saturated && part->saturated;
    if (part->share > 0 && !part->saturated) smallest = std::min(smallest, part->share);
  }
  for (const auto* part : parts) {
    auto scaled = part->allocated;
    if (part->share > 0 && !part->saturated) {
      for (auto& amount : scaled) amount = static_cast<std::int64_t>(Wide(amount) * smallest / part->share);
    }
    add(into.allocated, scaled);
  }
  into.share = share_of(into.allocated);
}

Hdrf::Hdrf(const Queues& queues, const std::vector<Job>& jobs)
    : total_(queues.total()), nodes_(static_cast<std::size_t>(queues.size())) {
  Resources used(total_.size());
  for (const auto& job : jobs) add(used, job.allocated);
  std::vector<Node> leaves(jobs.size());
  std::vector<std::vector<const Node*>> parts(nodes_.size());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    Node& leaf = leaves[j];
    leaf.allocated = jobs[j].allocated;
    leaf.share = share_of(leaf.allocated);
    leaf.saturated = false;
    for (std::size_t r = 0; r < total_.size(); ++r) {
      const auto wants = jobs[j].request[r];
      if (wants > 0 && (leaf.allocated[r] >= wants || used[r] >= total_[r])) leaf.saturated = true;
    }
    parts[static_cast<std::size_t>(jobs[j].queue)].push_back(&leaf);
  }
  for (QueueId q = queues.size() - 1; q >= 0; --q) {  // children precede their parents
    const auto i = static_cast<std::size_t>(q);
    for (const auto child : queues.children(q)) parts[i].push_back(&nodes_[static_cast<std::size_t>(child)]);
    nodes_[i].allocated.assign(total_.size(), 0);
    nodes_[i].weight = queues[q].weight;
    gather(nodes_[i], parts[i]);
  }
  for (QueueId q = 0; q < queues.size(); ++q) {
    paths_.push_back(queues.ancestors(q));
    paths_.back().push_back(q);
  }
}

bool Hdrf::before(QueueId a, QueueId b) const {
  const auto& left = paths_[static_cast<std::size_t>(a)];
  const auto& right = paths_[static_cast<std::size_t>(b)];
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const Node& l = nodes_[static_cast<std::size_t>(left[i])];
    const Node& r = nodes_[static_cast<std::size_t>(right[i])];
    if (l.saturated != r.saturated) return r.saturated;
    const auto order = Share{l.share, l.weight} <=> Share{r.share, r.weight};
    if (order != 0) return order < 0;
  }
  return a < b;
}

}  // namespace qm::admission::volcano
