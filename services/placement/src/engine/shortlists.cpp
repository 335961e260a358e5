#include "qm/placement/shortlists.hpp"

#include "qm/base/assert.hpp"
#include "qm/placement/nearness.hpp"

#include <algorithm>

namespace qm::placement {
namespace {

/// Minimum length of the journal; in a large fleet a quarter of the nodes. A list with an older position is
/// rebuilt.
constexpr std::size_t kLeastJournal = 4096;

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

void Shortlists::look(List& list, const Kind& kind, const NodeName& node, const Rooms& rooms,
                      const Preference& preference) {
  const auto& [shape, type, pool] = kind;
  strike(list, node);
  const auto found = rooms.find(node);
  if (found == rooms.end()) return;
  const Room& room = found->second;
  if (type != 0 && (room.types & ~type) != 0) return;
  if (pool != GpuPool::kAny && room.slices != (pool == GpuPool::kSlices)) return;
  const auto fits = pods_that_fit(room, shape);
  if (fits <= 0 || !admitted(room, shape)) return;
  const auto score = preference.score(room, shape);
  const List::Bucket bucket(fits, shape.gpu.whole > 0 ? joined_gpus(room) : 0);
  list.nodes.emplace(node, List::Standing{bucket, score});
  list.by_fits[bucket].emplace(-score, node);
  list.fits += fits;
}

const Shortlists::List& Shortlists::of(const PodShape& shape, std::uint32_t type, GpuPool pool, const Rooms& rooms,
                                       const Preference& preference) {
  const auto [found, made] = kept_.try_emplace({shape, type, pool});
  Kept& kept = found->second;
  kept.asked = ++questions_;
  const std::uint64_t end = begins_ + journal_.size();
  if (made || kept.epoch != preference.epoch() || kept.read < begins_ || end - kept.read > rooms.size()) {
    kept.list = {};
    for (const auto& [name, room] : rooms) look(kept.list, found->first, name, rooms, preference);
    kept.epoch = preference.epoch();
  } else {
    const auto changed = journal_.begin() + static_cast<std::ptrdiff_t>(kept.read - begins_);
    for (const NodeName& node : std::set<NodeName>(changed, journal_.end()))
      look(kept.list, found->first, node, rooms, preference);
  }
  kept.read = read_ = end;
  make_way(rooms.size());
  return kept.list;
}

// Drops the least recently used lists, and from a long journal the part that all lists have read, or that
// only outdated lists have not.
void Shortlists::make_way(std::size_t fleet) {
  const auto nodes = [this] {
    std::size_t all = 0;
    for (const auto& [kind, kept] : kept_) all += kept.list.nodes.size();
    return all;
  };
  const auto asked = [](const auto& one) { return one.second.asked; };
  while (kept_.size() > 1 && (kept_.size() > kMost || nodes() > kMostNodes))
    kept_.erase(std::ranges::min_element(kept_, {}, asked));
  const std::size_t most = std::max(kLeastJournal, fleet / 4);
  if (journal_.size() < most) return;
  const std::uint64_t end = begins_ + journal_.size();
  std::uint64_t read = end;
  for (const auto& [kind, kept] : kept_) read = std::min(read, std::max(kept.read, end - most / 2));
  journal_.erase(journal_.begin(), journal_.begin() + static_cast<std::ptrdiff_t>(read - begins_));
  begins_ = read;
}

void Shortlists::audit(const Rooms& rooms, const Preference& preference) {
  for (auto& [kind, kept] : kept_) {
    List fresh;
    for (const auto& [name, room] : rooms) look(fresh, kind, name, rooms, preference);
    const auto epoch = kept.epoch;
    const List& known = of(std::get<0>(kind), std::get<1>(kind), std::get<2>(kind), rooms, preference);
    QM_ASSERT(known.fits == fresh.fits && known.by_fits == fresh.by_fits,
              "a shortlist of {} nodes differs from a look at all of them, which finds {} (scores of {} and {})",
              known.nodes.size(), fresh.nodes.size(), epoch, preference.epoch());
  }
}

}  // namespace qm::placement
