// The node constraints of a pod's claims.
#include "engine/allocator/mounts.hpp"

#include "qm/kube_rules/node_rules.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <array>

namespace qm::placement {
namespace {

constexpr std::array<const char*, 3> kNeeded{"claim", "volume", "class"};

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

/// An existing or expected claim.
void mount(const Tables& tables, const Namespace& ns, const std::string& name, const PodClaim* own, Mounts& out) {
  const auto* claim = find<Claim>(tables, fmt::format("claim/{}/{}", ns, name));
  if (claim == nullptr) {
    out.blocked =
        fmt::format("claim {} does not exist{}", name, own == nullptr ? "" : " yet: it is created for the pod");
    return;
  }
  if (own != nullptr && claim->made_for != own->pod_uid) {
    out.blocked = fmt::format("claim {} was not created for its pod", name);
    return;
  }
  if (claim->one_node && own == nullptr && out.one_node.empty()) out.one_node = name;
  if (!claim->volume.empty()) {
    const auto* volume = find<Volume>(tables, "volume/" + claim->volume);
    if (volume == nullptr) {
      out.blocked = fmt::format("claim {} is bound to volume {}, which does not exist", name, claim->volume);
      return;
    }
    append(volume->reach, claim->volume, out.reach);
    return;
  }
  const auto* made_by = find<StorageClass>(tables, "class/" + claim->storage_class);
  if (made_by == nullptr || !made_by->waits) {
    out.blocked = fmt::format("claim {} is not bound to a volume yet", name);
  } else if (!claim->selected_node.empty()) {
    using rules::Requirement;
    out.reach.push_back({name, {{{}, {{"metadata.name", Requirement::Op::kIn, {claim->selected_node}}}}}});
  } else if (!made_by->makes) {
    out.blocked =
        fmt::format("claim {} is not bound, and storage class {} provisions no volumes", name, claim->storage_class);
  } else {
    append(made_by->reach, name, out.reach);
    out.to_make.push_back(name);
  }
}

/// A claim that Kubernetes will create with its pod. Without a class it is later bound to an existing volume;
/// here it does not constrain the node.
void mount_later(const Tables& tables, const rules::OwnClaim& own, Mounts& out) {
  const auto* made_by = class_of(tables, own.storage_class);
  if (made_by == nullptr) {
    if (own.storage_class && !own.storage_class->empty())
      out.blocked =
          fmt::format("volume {} is of storage class {}, which does not exist", own.volume, *own.storage_class);
  } else if (made_by->waits && !made_by->makes) {
    out.blocked = fmt::format("volume {} is of storage class {}, which provisions no volumes", own.volume,
                              own.storage_class.value_or("the default"));
  } else {
    append(made_by->reach, own.volume, out.reach);
  }
}

}  // namespace

const StorageClass* class_of(const Tables& tables, const std::optional<std::string>& name) {
  if (name) return name->empty() ? nullptr : find<StorageClass>(tables, "class/" + *name);
  const StorageClass* last = nullptr;
  const auto& rows = tables.storage.rows();
  for (auto it = rows.lower_bound("class/"); it != rows.end() && it->first.starts_with("class/"); ++it) {
    const auto* made_by = std::get_if<StorageClass>(&it->second);
    if (made_by != nullptr && made_by->by_default && (last == nullptr || last->made < made_by->made)) last = made_by;
  }
  return last;
}

Mounts mounts_of(const Tables& tables, const rules::PodTemplate& like, const std::vector<PodClaim>& own) {
  Mounts out;
  const Meta* meta = tables.meta.find(0);
  if (like.ns.empty() || meta == nullptr) return out;
  if (!std::ranges::all_of(kNeeded, [&](const char* kind) { return meta->storage_listed.contains(kind); })) return out;
  for (const std::string& name : like.rules.claims) {
    mount(tables, like.ns, name, nullptr, out);
    if (!out.blocked.empty()) return out;
  }
  for (const PodClaim& claim : own) {
    mount(tables, like.ns, claim.name, &claim, out);
    if (!out.blocked.empty()) return out;
  }
  for (const rules::OwnClaim& claim : like.rules.own_claims) {
    if (own.empty()) mount_later(tables, claim, out);
    if (!out.blocked.empty()) return out;
  }
  return out;
}

std::vector<PodClaim> own_claims_of(const PodFacts& pod, const rules::PodTemplate& like) {
  std::vector<PodClaim> out;
  for (const rules::OwnClaim& own : like.rules.own_claims)
    out.push_back({own.volume, fmt::format("{}-{}", pod.name, own.volume), pod.uid});
  return out;
}

bool reaches(const Mounts& mounts, const NodeName& node, const NodeFacts& facts) {
  if (mounts.reach.empty()) return true;
  const rules::NodeView view{node, facts.labels, {}, false, {}};
  return std::ranges::all_of(mounts.reach, [&](const auto& reach) { return rules::matches(reach.nodes, view); });
}

std::optional<Attached> attached_by(const Tables& tables, const ClaimUse& use) {
  const auto* claim = find<Claim>(tables, "claim/" + use.claim);
  if (claim != nullptr && !claim->volume.empty()) {
    const auto* volume = find<Volume>(tables, "volume/" + claim->volume);
    if (volume != nullptr) {
      if (volume->driver.empty()) return std::nullopt;
      return Attached{volume->driver, "volume " + (volume->handle.empty() ? claim->volume : volume->handle)};
    }
  }
  const auto* made_by = claim != nullptr ? class_of(tables, claim->storage_class) : class_of(tables, use.storage_class);
  if (made_by == nullptr || made_by->driver.empty()) return std::nullopt;
  return Attached{made_by->driver, "claim " + use.claim};
}

}  // namespace qm::placement
