// Storage: what is heard of claims, volumes and classes, and what a pod's claims come to.
#include "engine/mounts.hpp"
#include "qm/placement/engine.hpp"
#include "qm/placement/rules/text.hpp"

namespace qm::placement {
namespace {

constexpr std::size_t kKinds = 3;

template <class Kind>
const Kind* find(const Tables& tables, const std::string& key) {
  const Storage* row = tables.storage.find(key);
  return row == nullptr ? nullptr : std::get_if<Kind>(row);
}

void append(const std::string& text, const std::string& name, std::vector<rules::VolumeReach>& out) {
  auto like = text.empty() ? std::nullopt : rules::template_of(text);
  if (!like) return;
  for (auto& reach : like->rules.volumes) out.push_back({name, std::move(reach.nodes)});
}

}  // namespace

Mounts mounts_of(const Tables& tables, const rules::PodTemplate& like) {
  Mounts out;
  const Meta* meta = tables.meta.find(0);
  if (like.ns.empty() || meta == nullptr || meta->storage_told.size() < kKinds) return out;
  for (const std::string& name : like.rules.claims) {
    const auto* claim = find<Claim>(tables, fmt::format("claim/{}/{}", like.ns, name));
    if (claim == nullptr) {
      out.blocked = fmt::format("claim {} does not exist", name);
      return out;
    }
    if (claim->one_node && out.one_node.empty()) out.one_node = name;
    if (!claim->volume.empty()) {
      const auto* volume = find<Volume>(tables, "volume/" + claim->volume);
      if (volume == nullptr) {
        out.blocked = fmt::format("claim {} is bound to volume {}, which does not exist", name, claim->volume);
        return out;
      }
      append(volume->reach, claim->volume, out.reach);
      continue;
    }
    const auto* made_by = find<StorageClass>(tables, "class/" + claim->storage_class);
    if (made_by == nullptr || !made_by->waits) {
      out.blocked = fmt::format("claim {} is not bound to a volume yet", name);
      return out;
    }
    if (!claim->selected_node.empty()) {
      using rules::Requirement;
      out.reach.push_back({name, {{{}, {{"metadata.name", Requirement::Op::kIn, {claim->selected_node}}}}}});
    } else if (!made_by->makes) {
      out.blocked =
          fmt::format("claim {} is not bound, and storage class {} makes no volumes", name, claim->storage_class);
      return out;
    } else {
      append(made_by->reach, name, out.reach);
      out.to_make.push_back(name);
    }
  }
  return out;
}

void Engine::apply(const StorageSeen& seen) {
  const Storage* old = tables_.storage.find(seen.key);
  if (old != nullptr && *old == seen.what) return;
  tables_.storage.insert(seen.key, seen.what);
  scratch_.grew = true;
}

void Engine::apply(const StorageGone& gone) {
  if (tables_.storage.contains(gone.key)) tables_.storage.erase(gone.key);
}

void Engine::apply(const StorageSynced& synced) {
  std::vector<std::string> gone;
  for (const auto& [key, what] : tables_.storage) {
    if (key.starts_with(synced.kind + "/") && !synced.keys.contains(key)) gone.push_back(key);
  }
  for (const std::string& key : gone) tables_.storage.erase(key);
  if (meta().storage_told.contains(synced.kind)) return;
  tables_.meta.edit(0).storage_told.insert(synced.kind);
  scratch_.grew = true;
}

}  // namespace qm::placement
