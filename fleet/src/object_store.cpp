#include "object_store.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>
#include <charconv>

namespace qm::fleet {
namespace {

std::string version_of(const Json& object) { return object["metadata"]["resourceVersion"].string(); }

bool deleting(const Json& object) { return object["metadata"].contains("deletionTimestamp"); }
bool has_finalizers(const Json& object) { return object["metadata"]["finalizers"].size() > 0; }

bool has_finalizer(const Json& object, std::string_view name) {
  return std::ranges::any_of(object["metadata"]["finalizers"].items(),
                             [&](const Json& f) { return f.string() == name; });
}

constexpr std::string_view kForeground = "foregroundDeletion";

std::vector<std::string> owners_of(const Json& object) {
  std::vector<std::string> uids;
  for (const Json& owner : object["metadata"]["ownerReferences"].items()) uids.push_back(owner["uid"].string());
  return uids;
}

/// Whether everything but metadata and status is the same: a difference is a new generation.
bool same_spec(const Json& a, const Json& b) {
  const auto covered = [](const Json& from, const Json& other) {
    return std::ranges::all_of(from.members(), [&](const Json::Member& m) {
      return m.first == "metadata" || m.first == "status" || other[m.first] == m.second;
    });
  };
  return covered(a, b) && covered(b, a);
}

std::string make_uid(World& world) {
  return fmt::format("{}-{}-4{}-a{}-{}", world.random_hex(8), world.random_hex(4), world.random_hex(3),
                     world.random_hex(3), world.random_hex(12));
}

}  // namespace

std::string name_of(const Json& object) { return object["metadata"]["name"].string(); }
std::string namespace_of(const Json& object) { return object["metadata"]["namespace"].string(); }
std::string uid_of(const Json& object) { return object["metadata"]["uid"].string(); }
const Json& label_of(const Json& object, std::string_view key) { return object["metadata"]["labels"][key]; }
const Json& annotation_of(const Json& object, std::string_view key) { return object["metadata"]["annotations"][key]; }

const Json& condition_of(const Json& object, std::string_view type) {
  static const Json kNone;
  for (const Json& condition : object["status"]["conditions"].items()) {
    if (condition["type"].string() == type) return condition;
  }
  return kNone;
}

void set_condition(Json& object, std::string_view type, std::string_view status, std::string_view reason,
                   std::string_view message, Instant now) {
  Json condition = Json::object({{"type", type},
                                 {"status", status},
                                 {"reason", reason},
                                 {"message", message},
                                 {"lastTransitionTime", to_rfc3339(now)}});
  auto& list = object.set("status").set("conditions").items_mut();
  for (Json& old : list) {
    if (old["type"].string() != type) continue;
    if (old["status"].string() == status) condition.set("lastTransitionTime", old["lastTransitionTime"]);
    old = std::move(condition);
    return;
  }
  list.push_back(std::move(condition));
}

ObjectStore::ObjectStore(World& world, std::size_t history_limit) : world_(world), history_limit_(history_limit) {
  for (const Kind& kind : kinds()) shelves_[&kind];
  for (const char* name : {"default", "kube-system", "kube-node-lease"}) {
    auto made = create(kind_of("namespaces"), "", Json::object({{"metadata", Json::object({{"name", name}})}}));
    QM_ASSERT(made.has_value());
  }
}

ObjectPtr ObjectStore::find(const Kind& kind, const std::string& ns, const std::string& name) const {
  const auto& objects = shelf(kind).objects;
  const auto it = objects.find({ns, name});
  return it == objects.end() ? nullptr : it->second;
}

ObjectPtr ObjectStore::find_uid(const std::string& uid) const {
  const auto it = by_uid_.find(uid);
  return it == by_uid_.end() ? nullptr : shelf(*it->second.kind).objects.at(it->second.key);
}

Answered<ObjectPtr> ObjectStore::get(const Kind& kind, const std::string& ns, const std::string& name) const {
  if (auto object = find(kind, ns, name)) return object;
  return tl::unexpected(not_found(kind, name));
}

std::size_t ObjectStore::count(const Kind& kind) const { return shelf(kind).objects.size(); }

void ObjectStore::each(const Kind& kind, const std::function<void(const ObjectPtr&)>& fn) const {
  for (const auto& [key, object] : shelf(kind).objects) fn(object);
}

std::vector<ObjectPtr> ObjectStore::owned_by(const std::string& uid, const Kind& kind) const {
  std::vector<ObjectPtr> found;
  const auto it = dependents_.find(uid);
  if (it == dependents_.end()) return found;
  for (const auto& dependent : it->second) {
    const Place& place = by_uid_.at(dependent);
    if (place.kind == &kind) found.push_back(shelf(kind).objects.at(place.key));
  }
  return found;
}

std::optional<ApiError> ObjectStore::check_position(const Kind& kind, std::uint64_t version) const {
  if (version > version_) {
    return ApiError{504, "Timeout", fmt::format("Too large resource version: {}, current: {}", version, version_), {}};
  }
  if (version < shelf(kind).forgotten) {
    return expired(fmt::format("too old resource version: {} ({})", version, shelf(kind).forgotten));
  }
  return std::nullopt;
}

Answered<ObjectStore::Page> ObjectStore::list(const Kind& kind, const std::string& ns, const Selector& selector,
                                              std::size_t limit, const std::string& continue_token) const {
  const auto& objects = shelf(kind).objects;
  Page page;
  page.resource_version = version_;
  auto it = objects.begin();
  if (!continue_token.empty()) {
    // "<version>:<namespace>/<name>": where the last page ended, and the state that it showed.
    const auto colon = continue_token.find(':'), slash = continue_token.find('/');
    std::uint64_t version = 0;
    if (colon == std::string::npos || slash == std::string::npos || slash < colon ||
        std::from_chars(continue_token.data(), continue_token.data() + colon, version).ec != std::errc()) {
      return tl::unexpected(bad_request("continue key is not valid"));
    }
    if (check_position(kind, version)) {
      return tl::unexpected(expired("The provided continue parameter is too old to display a consistent list result."));
    }
    it = objects.upper_bound({continue_token.substr(colon + 1, slash - colon - 1), continue_token.substr(slash + 1)});
  }
  for (; it != objects.end(); ++it) {
    if ((!ns.empty() && it->first.ns != ns) || !selector.matches(*it->second)) continue;
    if (limit > 0 && page.items.size() == limit) {
      const Json& last = *page.items.back();
      page.continue_token = fmt::format("{}:{}/{}", version_, namespace_of(last), qm::fleet::name_of(last));
      return page;
    }
    page.items.push_back(it->second);
  }
  return page;
}

Answered<ObjectPtr> ObjectStore::create(const Kind& kind, const std::string& ns, Json object) {
  Json& metadata = object.set("metadata");
  if (kind.namespaced && !find(kind_of("namespaces"), "", ns)) {
    return tl::unexpected(not_found(kind_of("namespaces"), ns));
  }
  const std::string named_ns = metadata["namespace"].string();
  if (kind.namespaced && !named_ns.empty() && named_ns != ns) {
    return tl::unexpected(
        bad_request("the namespace of the provided object does not match the namespace sent on the request"));
  }
  if (metadata["name"].string().empty() && !metadata["generateName"].string().empty()) {
    metadata.set("name", metadata["generateName"].string() + world_.random_hex(5));
  }
  if (auto error = prepare_create(kind, object)) return tl::unexpected(std::move(*error));
  Json& meta = *object.find("metadata");
  const Key key{kind.namespaced ? ns : std::string(), meta["name"].string()};
  if (find(kind, key.ns, key.name)) {
    return tl::unexpected(
        ApiError{409, "AlreadyExists", fmt::format("{} \"{}\" already exists", kind.qualified(), key.name), {}});
  }
  if (!meta["resourceVersion"].string().empty()) {
    return tl::unexpected(bad_request("resourceVersion should not be set on objects to be created"));
  }
  if (kind.namespaced) meta.set("namespace", ns);
  meta.set("uid", make_uid(world_));
  meta.set("creationTimestamp", to_rfc3339(world_.now_floor()));
  meta.set("generation", 1);
  meta.erase("deletionTimestamp");
  object.set("apiVersion", kind.api_version());
  object.set("kind", kind.kind);
  return commit(kind, key, nullptr, std::move(object));
}

ObjectPtr ObjectStore::finish_write(const Kind& kind, const Key& key, const ObjectPtr& before, Json after) {
  if (after == *before) return before;
  if (!same_spec(*before, after)) {
    after.set("metadata").set("generation", (*before)["metadata"]["generation"].integer() + 1);
  }
  auto stored = commit(kind, key, before, std::move(after));
  // A pod with grace left still waits for its kubelet.
  const bool waits = (*stored)["metadata"]["deletionGracePeriodSeconds"].integer() > 0;
  if (deleting(*stored) && !has_finalizers(*stored) && !waits) drop(kind, key, "");
  return stored;
}

Answered<ObjectPtr> ObjectStore::update(const Kind& kind, const std::string& ns, const std::string& name, Json object,
                                        Part part) {
  const auto before = find(kind, ns, name);
  if (!before) return tl::unexpected(not_found(kind, name));
  const std::string wanted = version_of(object);
  if (!wanted.empty() && wanted != version_of(*before)) {
    return tl::unexpected(conflict(kind, name,
                                   "the object has been modified; please apply your changes to the "
                                   "latest version and try again"));
  }
  const std::string uid = uid_of(object);
  if (!uid.empty() && uid != uid_of(*before)) {
    return tl::unexpected(conflict(
        kind, name,
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid, uid_of(*before))));
  }
  Json after = *before;
  if (part == Part::kStatus) {
    after.set("status", object["status"]);
  } else {
    if (kind.status) object.set("status", (*before)["status"]);
    // What the server owns stays.
    Json& metadata = object.set("metadata");
    for (const char* owned : {"uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp",
                              "deletionGracePeriodSeconds"}) {
      if (const Json* value = (*before)["metadata"].find(owned)) {
        metadata.set(owned, *value);
      } else {
        metadata.erase(owned);
      }
    }
    if (kind.namespaced && !metadata.contains("namespace")) metadata.set("namespace", ns);
    object.set("apiVersion", kind.api_version());
    object.set("kind", kind.kind);
    after = std::move(object);
    if (after["status"].is_null()) after.erase("status");
  }
  if (auto error = check_update(kind, *before, after)) return tl::unexpected(std::move(*error));
  return finish_write(kind, {kind.namespaced ? ns : std::string(), name}, before, std::move(after));
}

Answered<ObjectPtr> ObjectStore::patch(const Kind& kind, const std::string& ns, const std::string& name,
                                       const Json& merge, Part part) {
  const auto before = find(kind, ns, name);
  if (!before) return tl::unexpected(not_found(kind, name));
  Json after = *before;
  after.merge_patch(merge);
  return update(kind, ns, name, std::move(after), part);
}

ObjectPtr ObjectStore::modify(const Kind& kind, const std::string& ns, const std::string& name,
                              const std::function<void(Json&)>& fn) {
  const auto before = find(kind, ns, name);
  if (!before) return nullptr;
  Json after = *before;
  fn(after);
  return finish_write(kind, {ns, name}, before, std::move(after));
}

Answered<ObjectPtr> ObjectStore::remove(const Kind& kind, const std::string& ns, const std::string& name,
                                        const DeleteOptions& options) {
  const auto before = find(kind, ns, name);
  if (!before) return tl::unexpected(not_found(kind, name));
  if (!options.uid.empty() && options.uid != uid_of(*before)) {
    return tl::unexpected(conflict(kind, name,
                                   fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}",
                                               options.uid, uid_of(*before))));
  }
  if (!options.resource_version.empty() && options.resource_version != version_of(*before)) {
    return tl::unexpected(conflict(kind, name, "Precondition failed: resourceVersion"));
  }
  const Key key{ns, name};
  // Jobs keep the old default: without a policy, their pods stay.
  std::string propagation = options.propagation;
  if (propagation.empty()) propagation = kind.plural == "jobs" ? "Orphan" : "Background";

  Json after = *before;
  Json& metadata = after.set("metadata");
  std::int64_t grace = 0;
  if (kind.plural == "pods") {
    const std::string& phase = (*before)["status"]["phase"].string();
    const bool runs = !(*before)["spec"]["nodeName"].string().empty() && phase != "Succeeded" && phase != "Failed";
    grace = runs ? options.grace.value_or((*before)["spec"]["terminationGracePeriodSeconds"].integer(30)) : 0;
    if (deleting(*before)) grace = std::min(grace, metadata["deletionGracePeriodSeconds"].integer());
  }
  if (propagation == "Foreground" && dependents_.contains(uid_of(*before)) && !has_finalizer(after, kForeground)) {
    metadata.set("finalizers").push_back(kForeground);
  }
  if (grace == 0 && !has_finalizers(after)) {
    drop(kind, key, propagation);
    return before;
  }
  const bool again = deleting(*before) && metadata["deletionGracePeriodSeconds"].integer() <= grace;
  if (!again) {
    metadata.set("deletionTimestamp", to_rfc3339(world_.now_floor() + std::chrono::seconds(grace)));
    metadata.set("deletionGracePeriodSeconds", grace);
  }
  auto stored = finish_write(kind, key, before, std::move(after));
  if (propagation == "Foreground" && has_finalizer(*stored, kForeground)) {
    const std::set<std::string> dependents = dependents_[uid_of(*stored)];
    for (const auto& uid : dependents) {
      const auto it = by_uid_.find(uid);
      if (it == by_uid_.end()) continue;
      const Place place = it->second;
      (void)remove(*place.kind, place.key.ns, place.key.name, {{}, {}, {}, "Foreground"});
    }
  }
  return stored;
}

void ObjectStore::drop(const Kind& kind, const Key& key, const std::string& propagation) {
  const auto before = shelf(kind).objects.at(key);
  const std::string uid = uid_of(*before);
  commit(kind, key, before, std::nullopt);
  if (const auto it = dependents_.find(uid); it != dependents_.end()) {
    const std::set<std::string> dependents = it->second;
    for (const auto& dependent : dependents) {
      const auto found = by_uid_.find(dependent);
      if (found == by_uid_.end()) continue;
      const Place place = found->second;
      if (propagation == "Orphan") {
        modify(*place.kind, place.key.ns, place.key.name, [&](Json& object) {
          auto& references = object.set("metadata").set("ownerReferences").items_mut();
          std::erase_if(references, [&](const Json& r) { return r["uid"].string() == uid; });
        });
      } else {
        (void)remove(*place.kind, place.key.ns, place.key.name, {{}, {}, {}, "Background"});
      }
    }
  }
  // An owner that waits for its dependents goes with the last of them.
  for (const auto& owner : owners_of(*before)) {
    const auto it = by_uid_.find(owner);
    if (it == by_uid_.end() || dependents_.contains(owner)) continue;
    const Place place = it->second;
    const auto waiting = shelf(*place.kind).objects.at(place.key);
    if (!deleting(*waiting) || !has_finalizer(*waiting, kForeground)) continue;
    modify(*place.kind, place.key.ns, place.key.name, [](Json& object) {
      std::erase_if(object.set("metadata").set("finalizers").items_mut(),
                    [](const Json& f) { return f.string() == kForeground; });
    });
  }
}

void ObjectStore::index(const Kind& kind, const Key& key, const Json* before, const Json* after) {
  if (before != nullptr) {
    for (const auto& owner : owners_of(*before)) {
      auto& set = dependents_[owner];
      set.erase(uid_of(*before));
      if (set.empty()) dependents_.erase(owner);
    }
    if (after == nullptr) by_uid_.erase(uid_of(*before));
  }
  if (after != nullptr) {
    by_uid_[uid_of(*after)] = {&kind, key};
    for (const auto& owner : owners_of(*after)) dependents_[owner].insert(uid_of(*after));
  }
}

ObjectPtr ObjectStore::commit(const Kind& kind, const Key& key, const ObjectPtr& before, std::optional<Json> after) {
  const bool deleted = !after.has_value();
  Json value = deleted ? *before : std::move(*after);
  value.set("metadata").set("resourceVersion", std::to_string(++version_));
  const auto stored = std::make_shared<const Json>(std::move(value));
  index(kind, key, before.get(), deleted ? nullptr : stored.get());
  Shelf& home = shelf(kind);
  if (deleted) {
    home.objects.erase(key);
  } else {
    home.objects[key] = stored;
  }
  Change change{version_, before, stored, deleted};
  home.history.push_back(change);
  if (home.history.size() > history_limit_) {
    home.forgotten = home.history.front().version;
    home.history.pop_front();
  }
  deliver(kind, change);
  for (const auto& observer : observers_) observer(kind, before, deleted ? nullptr : stored);
  return stored;
}

Answered<ObjectPtr> ObjectStore::bind(const std::string& ns, const std::string& pod, const Json& binding) {
  const Kind& kind = kind_of("pods");
  const auto before = find(kind, ns, pod);
  if (!before) return tl::unexpected(not_found(kind, pod));
  const auto refuse = [&](std::string_view why) { return tl::unexpected(conflict(kind, pod, why)); };
  const std::string uid = uid_of(binding), node = binding["target"]["name"].string();
  if (!uid.empty() && uid != uid_of(*before)) {
    return refuse(
        fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", uid, uid_of(*before)));
  }
  if (node.empty()) return tl::unexpected(invalid(kind, pod, "target.name", "Required value"));
  const std::string& bound = (*before)["spec"]["nodeName"].string();
  if (!bound.empty()) return refuse(fmt::format("pod {} is already assigned to node \"{}\"", pod, bound));
  if (deleting(*before)) return refuse(fmt::format("pod {} is being deleted, cannot be assigned to a host", pod));
  if ((*before)["spec"]["schedulingGates"].size() > 0) {
    return refuse(fmt::format("pod {} has non-empty .spec.schedulingGates", pod));
  }
  return modify(kind, ns, pod, [&](Json& object) {
    object.set("spec").set("nodeName", node);
    for (const auto& [key, value] : binding["metadata"]["annotations"].members()) {
      object.set("metadata").set("annotations").set(key, value);
    }
    set_condition(object, "PodScheduled", "True", "", "", world_.now_floor());
  });
}

bool ObjectStore::disruption_forbidden(const Json& pod) const {
  const auto selects = [](const Json& budget, const Json& candidate) {
    const auto& wanted = budget["spec"]["selector"]["matchLabels"].members();
    return !wanted.empty() &&
           std::ranges::all_of(wanted, [&](const Json::Member& m) { return label_of(candidate, m.first) == m.second; });
  };
  bool forbidden = false;
  each(kind_of("poddisruptionbudgets"), [&](const ObjectPtr& budget) {
    if (namespace_of(*budget) != namespace_of(pod) || !selects(*budget, pod)) return;
    std::int64_t healthy = 0, all = 0;
    each(kind_of("pods"), [&](const ObjectPtr& other) {
      if (namespace_of(*other) != namespace_of(pod) || !selects(*budget, *other)) return;
      ++all;
      healthy += (*other)["status"]["phase"].string() == "Running" && !deleting(*other) ? 1 : 0;
    });
    const Json& spec = (*budget)["spec"];
    const std::int64_t desired =
        spec.contains("minAvailable") ? spec["minAvailable"].integer() : all - spec["maxUnavailable"].integer();
    forbidden = forbidden || healthy - 1 < desired;
  });
  return forbidden;
}

Answered<ObjectPtr> ObjectStore::evict(const std::string& ns, const std::string& pod, const Json& eviction) {
  const Kind& kind = kind_of("pods");
  const auto before = find(kind, ns, pod);
  if (!before) return tl::unexpected(not_found(kind, pod));
  if ((*before)["status"]["phase"].string() == "Running" && !deleting(*before) && disruption_forbidden(*before)) {
    return tl::unexpected(
        ApiError{429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", {}});
  }
  const Json& wanted = eviction["deleteOptions"];
  DeleteOptions options;
  options.uid = wanted["preconditions"]["uid"].string();
  if (wanted["gracePeriodSeconds"].is_int()) options.grace = wanted["gracePeriodSeconds"].integer();
  return remove(kind, ns, pod, options);
}

}  // namespace qm::fleet
