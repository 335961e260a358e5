#include "object_store.hpp"

#include "qm/base/assert.hpp"
#include "text.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

std::string version_of(const Json& object) { return object["metadata"]["resourceVersion"].string(); }

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

/// True if everything except metadata and status is equal: a difference is a new generation.
bool same_spec(const Json& a, const Json& b) {
  const auto covered = [](const Json& from, const Json& other) {
    return std::ranges::all_of(from.members(), [&](const Json::Member& m) {
      return m.first == "metadata" || m.first == "status" || other[m.first] == m.second;
    });
  };
  return covered(a, b) && covered(b, a);
}

std::string make_uid(World& world) {
  std::string hex = world.random_hex(32);
  hex[12] = '4';
  hex[16] = 'a';
  return dashed(hex);
}

/// Copies the member of `from`; removes it if `from` has none.
void copy_member(const Json& from, Json& to, std::string_view key) {
  if (const Json* value = from.find(key)) {
    to.set(key, *value);
  } else {
    to.erase(key);
  }
}

/// Refuses if the caller means another object of the same name.
Answered<void> check_uid(const Kind& kind, const Json& object, const std::string& wanted) {
  if (wanted.empty() || wanted == uid_of(object)) return {};
  return conflict(
      kind, name_of(object),
      fmt::format("Precondition failed: UID in precondition: {}, UID in object meta: {}", wanted, uid_of(object)));
}

}  // namespace

std::string name_of(const Json& object) { return object["metadata"]["name"].string(); }
std::string namespace_of(const Json& object) { return object["metadata"]["namespace"].string(); }
std::string uid_of(const Json& object) { return object["metadata"]["uid"].string(); }
const Json& label_of(const Json& object, std::string_view key) { return object["metadata"]["labels"][key]; }
const Json& annotation_of(const Json& object, std::string_view key) { return object["metadata"]["annotations"][key]; }
bool is_deleting(const Json& object) { return object["metadata"].contains("deletionTimestamp"); }
bool is_finished(const Json& pod) {
  const std::string& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

const Json& condition_of(const Json& object, std::string_view type) {
  static const Json kNone;
  for (const Json& condition : object["status"]["conditions"].items()) {
    if (condition["type"].string() == type) return condition;
  }
  return kNone;
}

bool is_true(const Json& object, std::string_view condition) {
  return condition_of(object, condition)["status"].string() == "True";
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
  const auto* object = find_in(shelf(kind).objects, {ns, name});
  return object == nullptr ? nullptr : *object;
}

ObjectPtr ObjectStore::find_uid(const std::string& uid) const {
  const auto* place = find_in(by_uid_, uid);
  return place == nullptr ? nullptr : shelf(*place->kind).objects.at(place->key);
}

Answered<ObjectPtr> ObjectStore::get(const Kind& kind, const std::string& ns, const std::string& name) const {
  if (auto object = find(kind, ns, name)) return object;
  return refused(apiserver::not_found(kind.type(), name));
}

void ObjectStore::each(const Kind& kind, const std::function<void(const ObjectPtr&)>& fn) const {
  for (const auto& [key, object] : shelf(kind).objects) fn(object);
}

std::vector<ObjectPtr> ObjectStore::owned_by(const std::string& uid, const Kind& kind) const {
  std::vector<ObjectPtr> found;
  const auto* dependents = find_in(dependents_, uid);
  if (dependents == nullptr) return found;
  for (const auto& dependent : *dependents) {
    if (by_uid_.at(dependent).kind == &kind) found.push_back(find_uid(dependent));
  }
  return found;
}

void ObjectStore::each_dependent(const std::string& owner_uid, const std::function<void(const Place&)>& fn) {
  const auto* dependents = find_in(dependents_, owner_uid);
  if (dependents == nullptr) return;
  const std::set<std::string> uids = *dependents;
  for (const auto& uid : uids) {
    if (const auto* found = find_in(by_uid_, uid)) fn(Place(*found));
  }
}

Answered<void> ObjectStore::check_position(const Kind& kind, std::uint64_t version) const {
  if (version > version_) return too_large(version, version_);
  const auto forgotten = shelf(kind).forgotten;
  if (version < forgotten) return expired(fmt::format("too old resource version: {} ({})", version, forgotten));
  return {};
}

Answered<ObjectStore::Page> ObjectStore::list(const Kind& kind, const std::string& ns, const Selector& selector,
                                              std::size_t limit, const std::string& continue_token) const {
  const auto& objects = shelf(kind).objects;
  Page page;
  page.resource_version = version_;
  auto it = objects.begin();
  if (!continue_token.empty()) {
    // "<version>/<namespace>/<name>": the state of the last page, and its last item.
    const auto parts = split(continue_token, '/');
    const auto version = whole_number(parts[0]);
    if (parts.size() != 3 || !version) return bad_request("continue key is not valid");
    if (!check_position(kind, static_cast<std::uint64_t>(*version))) {
      return expired("The provided continue parameter is too old to display a consistent list result.");
    }
    it = objects.upper_bound({std::string(parts[1]), std::string(parts[2])});
  }
  for (; it != objects.end(); ++it) {
    if ((!ns.empty() && it->first.ns != ns) || !selector.matches(*it->second)) continue;
    if (limit > 0 && page.items.size() == limit) {
      const Json& last = *page.items.back();
      page.continue_token = fmt::format("{}/{}/{}", version_, namespace_of(last), name_of(last));
      return page;
    }
    page.items.push_back(it->second);
  }
  return page;
}

Answered<ObjectPtr> ObjectStore::create(const Kind& kind, const std::string& ns, Json object, bool is_dry) {
  ObjectPtr space;
  if (kind.namespaced) {
    FLEET_ASSIGN(space, get(kind_of("namespaces"), "", ns));
  }
  Json& metadata = object.set("metadata");
  const std::string named_ns = metadata["namespace"].string();
  if (kind.namespaced && !named_ns.empty() && named_ns != ns) {
    return bad_request("the namespace of the provided object does not match the namespace sent on the request");
  }
  if (metadata["name"].string().empty() && !metadata["generateName"].string().empty()) {
    metadata.set("name", metadata["generateName"].string() + world_.random_hex(5));
  }
  if (space && is_deleting(*space)) return refused(apiserver::namespace_terminating(kind.type(), name_of(object), ns));
  FLEET_TRY(prepare_create(kind, object));
  Json& meta = object.set("metadata");
  const Key key{kind.namespaced ? ns : std::string(), name_of(object)};
  if (const auto there = find(kind, key.ns, key.name)) {
    return refused(apiserver::already_exists(kind.type(), key.name, is_deleting(*there)));
  }
  if (!version_of(object).empty()) return bad_request("resourceVersion should not be set on objects to be created");
  if (kind.namespaced) meta.set("namespace", ns);
  meta.set("uid", make_uid(world_));
  meta.set("creationTimestamp", to_rfc3339(world_.now_floor()));
  meta.set("generation", 1);
  meta.erase("deletionTimestamp");
  object.set("apiVersion", kind.api_version());
  object.set("kind", kind.kind);
  return is_dry ? std::make_shared<const Json>(std::move(object)) : commit(kind, key, nullptr, std::move(object));
}

ObjectPtr ObjectStore::finish_write(const Kind& kind, const Key& key, const ObjectPtr& before, Json after) {
  if (after == *before) return before;
  if (!same_spec(*before, after)) {
    after.set("metadata").set("generation", (*before)["metadata"]["generation"].integer() + 1);
  }
  auto stored = commit(kind, key, before, std::move(after));
  // A pod with a grace period left still waits for its kubelet.
  const bool waits = (*stored)["metadata"]["deletionGracePeriodSeconds"].integer() > 0;
  if (is_deleting(*stored) && !has_finalizers(*stored) && !waits && !holds_objects(kind, key)) drop(kind, key, "");
  return stored;
}

Answered<ObjectPtr> ObjectStore::update(const Kind& kind, const std::string& ns, const std::string& name, Json object,
                                        Part part) {
  FLEET_ASSIGN(const auto before, get(kind, ns, name));
  const std::string wanted = version_of(object);
  if (!wanted.empty() && wanted != version_of(*before)) {
    return conflict(kind, name,
                    "the object has been modified; please apply your changes to the latest version and try again");
  }
  FLEET_TRY(check_uid(kind, *before, uid_of(object)));
  Json after = *before;
  if (part == Part::kStatus) {
    after.set("status", object["status"]);
  } else {
    after = std::move(object);
    if (kind.status) copy_member(*before, after, "status");
    if (after["status"].is_null()) after.erase("status");
    // Fields that the server owns are kept.
    Json& metadata = after.set("metadata");
    for (const char* owned : {"uid", "creationTimestamp", "generation", "resourceVersion", "deletionTimestamp",
                              "deletionGracePeriodSeconds"}) {
      copy_member((*before)["metadata"], metadata, owned);
    }
    if (kind.namespaced && !metadata.contains("namespace")) metadata.set("namespace", ns);
    after.set("apiVersion", kind.api_version());
    after.set("kind", kind.kind);
  }
  FLEET_TRY(check_update(kind, *before, after));
  return finish_write(kind, {kind.namespaced ? ns : std::string(), name}, before, std::move(after));
}

ObjectPtr ObjectStore::modify(const Kind& kind, const std::string& ns, const std::string& name,
                              const std::function<void(Json&)>& fn) {
  const auto before = find(kind, ns, name);
  if (!before) return nullptr;
  Json after = *before;
  fn(after);
  return finish_write(kind, {ns, name}, before, std::move(after));
}

ObjectStore::DeleteOptions ObjectStore::DeleteOptions::of(const Json& body) {
  DeleteOptions options;
  options.uid = body["preconditions"]["uid"].string();
  options.resource_version = body["preconditions"]["resourceVersion"].string();
  if (body["gracePeriodSeconds"].is_int()) options.grace = body["gracePeriodSeconds"].integer();
  options.propagation = body["propagationPolicy"].string();
  return options;
}

Answered<ObjectPtr> ObjectStore::remove(const Kind& kind, const std::string& ns, const std::string& name,
                                        const DeleteOptions& options) {
  FLEET_ASSIGN(const auto before, get(kind, ns, name));
  FLEET_TRY(check_uid(kind, *before, options.uid));
  if (!options.resource_version.empty() && options.resource_version != version_of(*before)) {
    return conflict(kind, name, "Precondition failed: resourceVersion");
  }
  const Key key{ns, name};
  const bool is_space = kind.plural == "namespaces";
  if (is_space && (name == "default" || name == "kube-system")) {
    return refused(apiserver::forbidden(kind.type(), name, "this namespace may not be deleted"));
  }
  // Jobs have the old default: without a policy, their pods are orphaned.
  std::string propagation = options.propagation;
  if (propagation.empty()) propagation = kind.plural == "jobs" ? "Orphan" : "Background";

  Json after = *before;
  Json& metadata = after.set("metadata");
  const bool again = is_deleting(*before);
  const std::int64_t left = metadata["deletionGracePeriodSeconds"].integer();
  std::int64_t grace = 0;
  if (kind.plural == "pods" && !is_finished(*before) && !(*before)["spec"]["nodeName"].string().empty()) {
    grace = options.grace.value_or((*before)["spec"]["terminationGracePeriodSeconds"].integer(30));
    if (again) grace = std::min(grace, left);
  }
  if (propagation == "Foreground" && dependents_.contains(uid_of(*before)) && !has_finalizer(after, kForeground)) {
    metadata.set("finalizers").push_back(kForeground);
  }
  // The deletion of a pod or namespace is visible before it is gone, even without finalizers.
  if (is_space) after.set("status").set("phase", "Terminating");
  if (grace == 0 && !has_finalizers(after) && kind.plural != "pods" && !is_space) {
    drop(kind, key, propagation);
    return before;
  }
  if (!again || grace < left) {
    metadata.set("deletionTimestamp", to_rfc3339(world_.now_floor() + std::chrono::seconds(grace)));
    metadata.set("deletionGracePeriodSeconds", grace);
  }
  auto stored = finish_write(kind, key, before, std::move(after));
  if (propagation == "Foreground" && has_finalizer(*stored, kForeground)) {
    each_dependent(uid_of(*stored), [this](const Place& place) {
      (void)remove(*place.kind, place.key.ns, place.key.name, {{}, {}, {}, "Foreground"});
    });
  }
  if (is_space && !again) remove_contents(name);
  return stored;
}

bool ObjectStore::holds_objects(const Kind& kind, const Key& key) const {
  return kind.plural == "namespaces" && std::ranges::any_of(shelves_, [&](const auto& entry) {
           const auto first = entry.second.objects.lower_bound({key.name, ""});
           return entry.first->namespaced && first != entry.second.objects.end() && first->first.ns == key.name;
         });
}

void ObjectStore::remove_contents(const std::string& ns) {
  // The last kinds of the table first, so that jobs go before their pods.
  for (auto kind = kinds().rbegin(); kind != kinds().rend(); ++kind) {
    if (!kind->namespaced) continue;
    const auto& objects = shelf(*kind).objects;
    std::vector<std::string> names;
    for (auto it = objects.lower_bound({ns, ""}); it != objects.end() && it->first.ns == ns; ++it)
      names.push_back(it->first.name);
    for (const auto& name : names) (void)remove(*kind, ns, name, {{}, {}, {}, "Background"});
  }
}

void ObjectStore::drop(const Kind& kind, const Key& key, const std::string& propagation) {
  const auto before = shelf(kind).objects.at(key);
  const std::string uid = uid_of(*before);
  commit(kind, key, before, std::nullopt);
  each_dependent(uid, [&](const Place& place) {
    if (propagation != "Orphan") {
      (void)remove(*place.kind, place.key.ns, place.key.name, {{}, {}, {}, "Background"});
      return;
    }
    modify(*place.kind, place.key.ns, place.key.name, [&](Json& object) {
      auto& references = object.set("metadata").set("ownerReferences").items_mut();
      std::erase_if(references, [&](const Json& r) { return r["uid"].string() == uid; });
    });
  });
  // An owner that waits for its dependents is deleted with the last of them.
  for (const auto& owner : owners_of(*before)) {
    const auto waiting = find_uid(owner);
    if (!waiting || dependents_.contains(owner)) continue;
    if (!is_deleting(*waiting) || !has_finalizer(*waiting, kForeground)) continue;
    const Place place = by_uid_.at(owner);
    modify(*place.kind, place.key.ns, place.key.name, [](Json& object) {
      std::erase_if(object.set("metadata").set("finalizers").items_mut(),
                    [](const Json& f) { return f.string() == kForeground; });
    });
  }
  // A namespace that is being deleted is removed with the last of its objects.
  const auto& spaces = kind_of("namespaces");
  const auto space = kind.namespaced ? find(spaces, "", key.ns) : nullptr;
  if (space && is_deleting(*space) && !has_finalizers(*space) && !holds_objects(spaces, {"", key.ns}))
    drop(spaces, {"", key.ns}, "");
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
  FLEET_ASSIGN(const auto before, get(kind, ns, pod));
  FLEET_TRY(check_uid(kind, *before, uid_of(binding)));
  const std::string& node = binding["target"]["name"].string();
  if (node.empty()) return refused(apiserver::invalid(kind.type(), pod, {{"target.name", "Required value"}}));
  const auto refused = [&](std::string_view why) { return conflict(kind, pod, fmt::format("pod {} {}", pod, why)); };
  const Json& spec = (*before)["spec"];
  const std::string& bound = spec["nodeName"].string();
  if (!bound.empty()) return refused(fmt::format("is already assigned to node \"{}\"", bound));
  if (is_deleting(*before)) return refused("is being deleted, cannot be assigned to a host");
  if (spec["schedulingGates"].size() > 0) return refused("has non-empty .spec.schedulingGates");
  return modify(kind, ns, pod, [&](Json& object) {
    object.set("spec").set("nodeName", node);
    for (const auto& [key, value] : binding["metadata"]["annotations"].members()) {
      object.set("metadata").set("annotations").set(key, value);
    }
    set_condition(object, "PodScheduled", "True", "", "", world_.now_floor());
  });
}

bool ObjectStore::may_disrupt(const Json& pod) const {
  const std::string ns = namespace_of(pod);
  bool may = true;
  each(kind_of("poddisruptionbudgets"), [&](const ObjectPtr& budget) {
    const Json& spec = (*budget)["spec"];
    const auto& wanted = spec["selector"]["matchLabels"].members();
    const auto selected = [&](const Json& candidate) {
      return namespace_of(candidate) == ns && !wanted.empty() &&
             std::ranges::all_of(wanted,
                                 [&](const Json::Member& m) { return label_of(candidate, m.first) == m.second; });
    };
    if (namespace_of(*budget) != ns || !selected(pod)) return;
    std::int64_t healthy = 0, all = 0;
    each(kind_of("pods"), [&](const ObjectPtr& other) {
      if (!selected(*other)) return;
      ++all;
      healthy += (*other)["status"]["phase"].string() == "Running" && !is_deleting(*other) ? 1 : 0;
    });
    const std::int64_t desired = spec["minAvailable"].integer(all - spec["maxUnavailable"].integer());
    may = may && healthy > desired;
  });
  return may;
}

Answered<ObjectPtr> ObjectStore::evict(const std::string& ns, const std::string& pod, const Json& eviction) {
  const Kind& kind = kind_of("pods");
  FLEET_ASSIGN(const auto before, get(kind, ns, pod));
  if ((*before)["status"]["phase"].string() == "Running" && !is_deleting(*before) && !may_disrupt(*before)) {
    return refuse(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
  }
  return remove(kind, ns, pod, DeleteOptions::of(eviction["deleteOptions"]));
}

}  // namespace qm::fleet
