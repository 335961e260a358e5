#include "engine/allocator/volume_limits.hpp"

#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <limits>

namespace qm::placement {
namespace {

constexpr const char* kLimits = "limits/";
const std::string kNoClass;

bool has_limits(const Tables& tables) {
  const auto first = tables.storage.rows().lower_bound(kLimits);
  return first != tables.storage.rows().end() && first->first.starts_with(kLimits);
}

}  // namespace

VolumeLimits::VolumeLimits(const Tables& tables, const ClaimsByNode& claims, const Likes& likes,
                           const std::vector<PodSet>& pod_sets, const FreeCapacity* free_capacity,
                           InterPodConstraints* others)
    : tables_(tables), claims_(claims), others_(others), uses_(likes.size()) {
  const auto names_any = [](const auto& like) {
    return like && (!like->rules.claims.empty() || !like->rules.own_claims.empty());
  };
  if (std::ranges::none_of(likes, names_any) || !has_limits(tables)) return;
  for (std::size_t i = 0; i < likes.size(); ++i) {
    if (!likes[i]) continue;
    for (const auto& claim : likes[i]->rules.claims) {
      if (auto volume = attached_by(tables, {fmt::format("{}/{}", likes[i]->ns, claim), kNoClass}))
        uses_[i][volume->driver].shared.insert(std::move(volume->volume));
    }
    for (const auto& own : likes[i]->rules.own_claims) {
      const auto* made_by = class_of(tables, own.storage_class);
      if (made_by != nullptr && !made_by->driver.empty()) ++uses_[i][made_by->driver].own;
    }
  }
  if (!std::ranges::all_of(uses_, &ByDriver::empty)) find_nodes(pod_sets, free_capacity);
}

// Attach limits, used claims and `free_capacity` are all ordered by node name.
void VolumeLimits::find_nodes(const std::vector<PodSet>& pod_sets, const FreeCapacity* free_capacity) {
  const auto& rows = tables_.storage.rows();
  auto used = claims_.begin();
  const auto last_used = claims_.end();
  FreeCapacity::const_iterator capacity, last_capacity;
  if (free_capacity != nullptr) capacity = free_capacity->begin(), last_capacity = free_capacity->end();
  for (auto row = rows.lower_bound(kLimits); row != rows.end() && row->first.starts_with(kLimits); ++row) {
    const auto* limits = std::get_if<AttachLimits>(&row->second);
    if (limits == nullptr) continue;
    const auto name = std::string_view(row->first).substr(std::string_view(kLimits).size());
    while (used != last_used && used->first.value() < name) ++used;
    const auto claims = used != last_used && used->first.value() == name ? std::ssize(used->second) : 0;
    const NodeCapacity* here = nullptr;
    if (free_capacity != nullptr) {
      while (capacity != last_capacity && capacity->first.value() < name) ++capacity;
      if (capacity == last_capacity) return;
      if (capacity->first.value() != name) continue;
      here = &capacity->second;
    }
    if (!takes_all(*limits, claims, pod_sets, here)) nodes_.emplace(NodeName(std::string(name)), There{limits});
  }
}

/// Whether the volumes are so few that they need not be distinguished.
bool VolumeLimits::takes_all(const AttachLimits& limits, std::int64_t used, const std::vector<PodSet>& pod_sets,
                             const NodeCapacity* capacity) const {
  return std::ranges::all_of(limits.volumes, [&](const auto& limit) {
    const auto& [driver, most] = limit;
    std::int64_t added = 0;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const auto uses = uses_[i].find(driver);
      if (uses == uses_[i].end()) continue;
      std::int64_t pods = pod_sets[i].count;
      if (capacity != nullptr) pods = std::clamp<std::int64_t>(pods_that_fit(*capacity, pod_sets[i].shape), 1, pods);
      added += std::ssize(uses->second.shared) + pods * uses->second.own;
    }
    return added == 0 || used + added <= most;
  });
}

VolumeLimits::There* VolumeLimits::there(const NodeName& node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return nullptr;
  There& there = found->second;
  if (std::exchange(there.known, true)) return &there;
  const auto used = claims_.find(node);
  if (used == claims_.end()) return &there;
  for (const ClaimUse& use : used->second) {
    if (auto volume = attached_by(tables_, use))
      there.attached[volume->driver].shared.insert(std::move(volume->volume));
  }
  return &there;
}

VolumeLimits::Bound VolumeLimits::bound(std::size_t set, const NodeName& node) const {
  static const Volumes kNone;
  Bound out{kAnyNumber, nullptr};
  const There* now = there(node);
  if (now == nullptr) return out;
  for (const auto& [driver, uses] : uses_[set]) {
    const auto limit = now->limits->volumes.find(driver);
    if (limit == now->limits->volumes.end()) continue;
    const auto known = now->attached.find(driver);
    const Volumes& attached = known == now->attached.end() ? kNone : known->second;
    const auto fresh =
        std::ranges::count_if(uses.shared, [&](const auto& volume) { return !attached.shared.contains(volume); });
    if (fresh == 0 && uses.own == 0) continue;  // volumes that are attached already need no slot
    const auto free = limit->second - std::ssize(attached.shared) - attached.own;
    const auto pods = free < fresh + uses.own ? 0 : uses.own == 0 ? kAnyNumber : (free - fresh) / uses.own;
    if (pods < out.pods) out = {pods, &driver};
  }
  return out;
}

std::int64_t VolumeLimits::most(std::size_t set, const NodeName& node) const {
  const auto others = others_ == nullptr ? kAnyNumber : others_->most(set, node);
  return std::min(others, bound(set, node).pods);
}

bool VolumeLimits::one_by_one(std::size_t set) const { return others_ != nullptr && others_->one_by_one(set); }

bool VolumeLimits::suits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const {
  return bound(set, node).pods > 0 && (others_ == nullptr || others_->suits(set, node, capacity));
}

const DynamicConstraints* VolumeLimits::dynamic(std::size_t set) const {
  return others_ == nullptr ? nullptr : others_->dynamic(set);
}

std::string VolumeLimits::rejects(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const {
  auto why = others_ == nullptr ? std::string() : others_->rejects(set, node, capacity);
  if (!why.empty()) return why;
  const auto [pods, driver] = bound(set, node);
  return pods > 0 ? std::string() : fmt::format("with as many volumes of {} attached as they may have", *driver);
}

bool VolumeLimits::has_data(std::size_t set, const NodeCapacity& capacity) const {
  return others_ != nullptr && others_->has_data(set, capacity);
}

void VolumeLimits::take(std::size_t set, const NodeName& node) {
  if (others_ != nullptr) others_->take(set, node);
  There* now = there(node);
  if (now == nullptr) return;
  for (const auto& [driver, uses] : uses_[set]) {
    Volumes& attached = now->attached[driver];
    attached.shared.insert(uses.shared.begin(), uses.shared.end());
    attached.own += uses.own;
  }
}

}  // namespace qm::placement
