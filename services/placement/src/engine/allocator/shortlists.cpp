#include "qm/placement/shortlists.hpp"

#include "qm/base/assert.hpp"
#include "qm/placement/nearness.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

/// Minimum length of the journal; in a large fleet a quarter of the nodes. A list with an older position is
/// rebuilt.
constexpr std::size_t kMinJournal = 4096;

void strike(Shortlists::List& list, const NodeName& node) {
  const auto known = list.nodes.find(node);
  if (known == list.nodes.end()) return;
  const auto& [bucket, score] = known->second;
  const auto order = list.by_fits.find(bucket);
  order->second.erase({-score, node});
  if (order->second.empty()) list.by_fits.erase(order);
  list.fits -= bucket.first;
  list.nodes.erase(known);
}

}  // namespace

void Shortlists::touch(const NodeName& node) {
  const bool unread = begins_ + journal_.size() > read_;
  if (kept_.empty() || (unread && journal_.back() == node)) return;
  journal_.push_back(node);
}

void Shortlists::look(List& list, const Kind& kind, const NodeName& node, const FreeCapacity& free_capacity,
                      const Preference& preference) {
  const auto& [shape, type, pool] = kind;
  strike(list, node);
  const auto found = free_capacity.find(node);
  if (found == free_capacity.end()) return;
  const NodeCapacity& capacity = found->second;
  if (type != 0 && (capacity.types & ~type) != 0) return;
  if (pool != GpuPool::kAny && capacity.slices != (pool == GpuPool::kSlices)) return;
  const auto fits = pods_that_fit(capacity, shape);
  if (fits <= 0 || !admitted(capacity, shape)) return;
  const auto score = preference.score(capacity, shape);
  const List::Bucket bucket(fits, shape.gpu.whole > 0 ? joined_gpus(capacity) : 0);
  list.nodes.emplace(node, List::Entry{bucket, score});
  list.by_fits[bucket].emplace(-score, node);
  list.fits += fits;
}

const Shortlists::List& Shortlists::of(const PodShape& shape, std::uint32_t type, GpuPool pool,
                                       const FreeCapacity& free_capacity, const Preference& preference) {
  const auto [found, made] = kept_.try_emplace({shape, type, pool});
  ShortlistView& kept = found->second;
  kept.asked = ++questions_;
  const std::uint64_t end = begins_ + journal_.size();
  if (made || kept.epoch != preference.epoch() || kept.read < begins_ || end - kept.read > free_capacity.size()) {
    kept.list = {};
    for (const auto& [name, capacity] : free_capacity) look(kept.list, found->first, name, free_capacity, preference);
    kept.epoch = preference.epoch();
  } else {
    const auto changed = journal_.begin() + static_cast<std::ptrdiff_t>(kept.read - begins_);
    for (const NodeName& node : std::set<NodeName>(changed, journal_.end()))
      look(kept.list, found->first, node, free_capacity, preference);
  }
  kept.read = read_ = end;
  evict_old(free_capacity.size());
  return kept.list;
}

// Drops the least recently used lists, and from a long journal the part that all lists have read, or that
// only outdated lists have not.
void Shortlists::evict_old(std::size_t fleet) {
  const auto nodes = [this] {
    std::size_t all = 0;
    for (const auto& [kind, kept] : kept_) all += kept.list.nodes.size();
    return all;
  };
  const auto asked = [](const auto& one) { return one.second.asked; };
  while (kept_.size() > 1 && (kept_.size() > kMost || nodes() > kMostNodes))
    kept_.erase(std::ranges::min_element(kept_, {}, asked));
  const std::size_t most = std::max(kMinJournal, fleet / 4);
  if (journal_.size() < most) return;
  const std::uint64_t end = begins_ + journal_.size();
  std::uint64_t read = end;
  for (const auto& [kind, kept] : kept_) read = std::min(read, std::max(kept.read, end - most / 2));
  journal_.erase(journal_.begin(), journal_.begin() + static_cast<std::ptrdiff_t>(read - begins_));
  begins_ = read;
}

void Shortlists::audit(const FreeCapacity& free_capacity, const Preference& preference) {
  for (auto& [kind, kept] : kept_) {
    List fresh;
    for (const auto& [name, capacity] : free_capacity) look(fresh, kind, name, free_capacity, preference);
    const auto epoch = kept.epoch;
    const List& known = of(std::get<0>(kind), std::get<1>(kind), std::get<2>(kind), free_capacity, preference);
    QM_ASSERT(known.fits == fresh.fits && known.by_fits == fresh.by_fits,
              "a shortlist of {} nodes differs from the full scan, which finds {} (scores {} and {})",
              known.nodes.size(), fresh.nodes.size(), epoch, preference.epoch());
  }
}

}  // namespace qm::placement
