#include "engine/allocator/volume_limits.hpp"

#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <limits>

namespace qm::placement {
namespace {

constexpr const char* kLimits = "limits/";
const std::string kNoRules, kNoClass;

bool has_limits(const Tables& tables) {
  const auto first = tables.storage.rows().lower_bound(kLimits);
  return first != tables.storage.rows().end() && first->first.starts_with(kLimits);
}

}  // namespace

// Claims of the pods in the rule book, by the names of their own claims if the pods are known.
std::set<ClaimUse> Engine::claims_on(const NodeName& name) const {
  std::set<ClaimUse> out;
  const auto add = [&](const std::string& text, const Pod* pod, const std::string& whose) {
    const auto like = rules::names_claims(text) ? rules::template_of(text) : std::nullopt;
    if (!like) return;
    for (const auto& claim : like->rules.claims) out.insert({fmt::format("{}/{}", like->ns, claim), kNoClass});
    for (const auto& own : like->rules.own_claims) {
      auto named = pod == nullptr ? fmt::format("{} {}", whose, own.volume)
                                  : fmt::format("{}/{}-{}", like->ns, pod->facts.name, own.volume);
      out.insert({std::move(named), own.storage_class});
    }
  };
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      const Assignment& row = *tables_.assignments.find(id);
      const Member& member = row.members[position];
      const Pod* pod = member.pod_uid.empty() ? nullptr : tables_.pods.find(member.pod_uid);
      const bool here = pod != nullptr && pod->facts.node == name && !pod->facts.rules.empty();
      const std::string& planned = row.rules.empty() ? kNoRules : row.rules[static_cast<std::size_t>(member.set)];
      add(here ? pod->facts.rules : planned, pod, fmt::format("{}/{}", id.to_string(), position));
    }
  }
  for (const Pod* pod : non_member_pods(name)) add(pod->facts.rules, pod, {});
  return out;
}

Engine::VolumeLimits::VolumeLimits(const Engine& engine, const Likes& likes, const std::vector<PodSet>& pod_sets,
                                   const FreeCapacity* free_capacity, InterPodConstraints* others)
    : engine_(engine), others_(others), uses_(likes.size()) {
  const Tables& tables = engine.tables_;
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
void Engine::VolumeLimits::find_nodes(const std::vector<PodSet>& pod_sets, const FreeCapacity* free_capacity) {
  const auto& rows = engine_.tables_.storage.rows();
  auto used = engine_.index_.claims.begin();
  const auto last_used = engine_.index_.claims.end();
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
bool Engine::VolumeLimits::takes_all(const AttachLimits& limits, std::int64_t used, const std::vector<PodSet>& pod_sets,
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

Engine::VolumeLimits::There* Engine::VolumeLimits::there(const NodeName& node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return nullptr;
  There& there = found->second;
  if (std::exchange(there.known, true)) return &there;
  const auto used = engine_.index_.claims.find(node);
  if (used == engine_.index_.claims.end()) return &there;
  for (const ClaimUse& use : used->second) {
    if (auto volume = attached_by(engine_.tables_, use))
      there.attached[volume->driver].shared.insert(std::move(volume->volume));
  }
  return &there;
}

Engine::VolumeLimits::Bound Engine::VolumeLimits::bound(std::size_t set, const NodeName& node) const {
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

std::int64_t Engine::VolumeLimits::most(std::size_t set, const NodeName& node) const {
  const auto others = others_ == nullptr ? kAnyNumber : others_->most(set, node);
  return std::min(others, bound(set, node).pods);
}

bool Engine::VolumeLimits::one_by_one(std::size_t set) const { return others_ != nullptr && others_->one_by_one(set); }

bool Engine::VolumeLimits::suits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const {
  return bound(set, node).pods > 0 && (others_ == nullptr || others_->suits(set, node, capacity));
}

const DynamicConstraints* Engine::VolumeLimits::dynamic(std::size_t set) const {
  return others_ == nullptr ? nullptr : others_->dynamic(set);
}

std::string Engine::VolumeLimits::rejects(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const {
  auto why = others_ == nullptr ? std::string() : others_->rejects(set, node, capacity);
  if (!why.empty()) return why;
  const auto [pods, driver] = bound(set, node);
  return pods > 0 ? std::string() : fmt::format("with as many volumes of {} attached as they may have", *driver);
}

bool Engine::VolumeLimits::has_data(std::size_t set, const NodeCapacity& capacity) const {
  return others_ != nullptr && others_->has_data(set, capacity);
}

void Engine::VolumeLimits::take(std::size_t set, const NodeName& node) {
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
