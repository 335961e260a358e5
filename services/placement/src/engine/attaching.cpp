#include "engine/attaching.hpp"

#include "qm/placement/rules/text.hpp"

#include <algorithm>
#include <limits>

namespace qm::placement {
namespace {

constexpr std::int64_t kAnyNumber = std::numeric_limits<std::int32_t>::max();
const std::string kNoRules, kNoClass;

bool has_limits(const Tables& tables) {
  const auto first = tables.storage.rows().lower_bound("limits/");
  return first != tables.storage.rows().end() && first->first.starts_with("limits/");
}

}  // namespace

// Of the pods that the book of rules has there, by the names of their own claims where the pods are known.
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
  for (const Pod* pod : strangers(name)) add(pod->facts.rules, pod, {});
  return out;
}

Engine::Attaching::Attaching(const Engine& engine, const std::vector<std::optional<rules::PodTemplate>>& likes,
                             Neighbourhood* others)
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
    matters_ = matters_ || !uses_[i].empty();
  }
}

Engine::Attaching::There& Engine::Attaching::there(const NodeName& node) const {
  const auto [found, fresh] = nodes_.try_emplace(node);
  There& there = found->second;
  if (!fresh) return there;
  const Storage* row = engine_.tables_.storage.find("limits/" + node.value());
  there.limits = row == nullptr ? nullptr : std::get_if<AttachLimits>(row);
  const auto used = engine_.index_.claims.find(node);
  if (there.limits == nullptr || used == engine_.index_.claims.end()) return there;
  for (const ClaimUse& use : used->second) {
    if (auto volume = attached_by(engine_.tables_, use))
      there.attached[volume->driver].shared.insert(std::move(volume->volume));
  }
  return there;
}

Engine::Attaching::Bound Engine::Attaching::bound(std::size_t set, const NodeName& node) const {
  Bound out{kAnyNumber, nullptr};
  if (!matters_) return out;
  const There& now = there(node);
  if (now.limits == nullptr) return out;
  for (const auto& [driver, uses] : uses_[set]) {
    const auto limit = now.limits->volumes.find(driver);
    if (limit == now.limits->volumes.end()) continue;
    const auto known = now.attached.find(driver);
    const Volumes attached = known == now.attached.end() ? Volumes() : known->second;
    const auto fresh =
        std::ranges::count_if(uses.shared, [&](const auto& volume) { return !attached.shared.contains(volume); });
    if (fresh == 0 && uses.own == 0) continue;  // what is there already costs nothing
    const auto free = limit->second - std::ssize(attached.shared) - attached.own;
    const auto pods = free < fresh + uses.own ? 0 : uses.own == 0 ? kAnyNumber : (free - fresh) / uses.own;
    if (pods < out.pods) out = {pods, &driver};
  }
  return out;
}

std::int64_t Engine::Attaching::most(std::size_t set, const NodeName& node) const {
  const auto others = others_ == nullptr ? kAnyNumber : others_->most(set, node);
  return std::min(others, bound(set, node).pods);
}

bool Engine::Attaching::one_by_one(std::size_t set) const { return others_ != nullptr && others_->one_by_one(set); }

bool Engine::Attaching::suits(std::size_t set, const NodeName& node, const Room& room) const {
  return bound(set, node).pods > 0 && (others_ == nullptr || others_->suits(set, node, room));
}

const Shifting* Engine::Attaching::shifting(std::size_t set) const {
  return others_ == nullptr ? nullptr : others_->shifting(set);
}

std::string Engine::Attaching::rejects(std::size_t set, const NodeName& node, const Room& room) const {
  auto why = others_ == nullptr ? std::string() : others_->rejects(set, node, room);
  if (!why.empty()) return why;
  const auto [pods, driver] = bound(set, node);
  return pods > 0 ? std::string() : fmt::format("with as many volumes of {} attached as they may have", *driver);
}

bool Engine::Attaching::has_data(std::size_t set, const Room& room) const {
  return others_ != nullptr && others_->has_data(set, room);
}

void Engine::Attaching::take(std::size_t set, const NodeName& node) {
  if (others_ != nullptr) others_->take(set, node);
  if (!matters_) return;
  There& now = there(node);
  for (const auto& [driver, uses] : uses_[set]) {
    Volumes& attached = now.attached[driver];
    attached.shared.insert(uses.shared.begin(), uses.shared.end());
    attached.own += uses.own;
  }
}

}  // namespace qm::placement
