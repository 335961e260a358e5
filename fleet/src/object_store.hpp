#pragma once
#include "kinds.hpp"
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"
#include "world.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::fleet {

using ObjectPtr = std::shared_ptr<const Json>;

/// Label and field selectors of a list or watch.
class Selector {
 public:
  static Answered<Selector> parse(const Kind& kind, std::string_view labels, std::string_view fields);
  [[nodiscard]] bool matches(const Json& object) const;

 private:
  struct Field {
    std::string path, value;
    bool equal;
  };
  std::optional<LabelSelector> labels_;
  std::vector<Field> fields_;
};

enum class Part { kMain, kStatus };

/// The objects of the API with the API server's rules: one resourceVersion for all, optimistic updates, generations,
/// finalizers, owner references with cascading deletion, graceful deletion of pods, deletion of a namespace after its
/// last object, and a bounded history for watches.
///
/// Threads  the caller holds the world's lock in every call.
/// Order    watchers and observers see changes in resourceVersion order.
/// Bounds   history_limit changes of each kind are kept for watches to resume from; older positions get 410.
/// Time     timestamps are domain time.
class ObjectStore {
 public:
  explicit ObjectStore(World& world, std::size_t history_limit = 8192);

  struct DeleteOptions {
    std::string uid, resource_version;  ///< preconditions; empty = none
    std::optional<std::int64_t> grace;
    std::string propagation;  ///< Background, Foreground, Orphan; empty = the kind's default
    static DeleteOptions of(const Json& body);
  };
  struct Page {
    std::vector<ObjectPtr> items;
    std::uint64_t resource_version = 0;
    std::string continue_token;
  };

  Answered<ObjectPtr> get(const Kind& kind, const std::string& ns, const std::string& name) const;
  /// ns empty = all namespaces. limit 0 = all.
  Answered<Page> list(const Kind& kind, const std::string& ns, const Selector& selector, std::size_t limit = 0,
                      const std::string& continue_token = {}) const;
  /// A dry run stores nothing.
  Answered<ObjectPtr> create(const Kind& kind, const std::string& ns, Json object, bool is_dry = false);
  Answered<ObjectPtr> update(const Kind& kind, const std::string& ns, const std::string& name, Json object, Part part);
  /// The object after the call or its last state; it still exists if grace or finalizers keep it.
  Answered<ObjectPtr> remove(const Kind& kind, const std::string& ns, const std::string& name,
                             const DeleteOptions& options);
  Answered<ObjectPtr> bind(const std::string& ns, const std::string& pod, const Json& binding);
  Answered<ObjectPtr> evict(const std::string& ns, const std::string& pod, const Json& eviction);

  // For the fleet's own controllers: no preconditions, no immutable fields.
  [[nodiscard]] ObjectPtr find(const Kind& kind, const std::string& ns, const std::string& name) const;
  [[nodiscard]] ObjectPtr find_uid(const std::string& uid) const;
  /// Null if the object does not exist. A modification without a difference is not stored.
  ObjectPtr modify(const Kind& kind, const std::string& ns, const std::string& name,
                   const std::function<void(Json&)>& fn);
  [[nodiscard]] std::vector<ObjectPtr> owned_by(const std::string& uid, const Kind& kind) const;
  void each(const Kind& kind, const std::function<void(const ObjectPtr&)>& fn) const;

  using Observer = std::function<void(const Kind&, const ObjectPtr& before, const ObjectPtr& after)>;
  void observe(Observer observer) { observers_.push_back(std::move(observer)); }

  // Watches ---------------------------------------------------------------------------------------
  /// Receives one line `{"type":..,"object":..}\n`; false ends the watch.
  using Sink = std::function<bool(const std::string& line)>;
  /// Sends all changes since `resource_version` (empty or "0": every object as ADDED), then new ones. 0 = it ended at
  /// once, with an ERROR line of code 410 if the position is too old.
  std::uint64_t watch(const Kind& kind, const std::string& ns, Selector selector, const std::string& resource_version,
                      Sink sink);
  void unwatch(std::uint64_t id);
  bool bookmark(std::uint64_t id);  ///< false once the watch is gone
  [[nodiscard]] std::size_t watchers() const { return watchers_.size(); }
  [[nodiscard]] std::uint64_t resource_version() const { return version_; }
  /// Drops the history, so that every resume answers 410.
  void compact();

 private:
  struct Key {
    std::string ns, name;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Change {
    std::uint64_t version;
    ObjectPtr before, after;  // after is the last state if the object was deleted
    bool deleted;
  };
  struct Shelf {  // all objects of one kind
    std::map<Key, ObjectPtr> objects;
    std::deque<Change> history;
    std::uint64_t forgotten = 0;  // version of the newest change that is no longer in the history
  };
  struct Watcher {
    const Kind* kind;
    std::string ns;
    Selector selector;
    Sink sink;
  };
  struct Place {
    const Kind* kind;
    Key key;
  };

  Shelf& shelf(const Kind& kind) { return shelves_.at(&kind); }
  [[nodiscard]] const Shelf& shelf(const Kind& kind) const { return shelves_.at(&kind); }
  [[nodiscard]] Answered<void> check_position(const Kind& kind, std::uint64_t version) const;
  /// Stores `after` (null = deleted) with a new version, and notifies all watchers and observers.
  ObjectPtr commit(const Kind& kind, const Key& key, const ObjectPtr& before, std::optional<Json> after);
  ObjectPtr finish_write(const Kind& kind, const Key& key, const ObjectPtr& before, Json after);
  void drop(const Kind& kind, const Key& key, const std::string& propagation);
  /// True if it is a namespace that is not empty.
  [[nodiscard]] bool holds_objects(const Kind& kind, const Key& key) const;
  void remove_contents(const std::string& ns);
  /// Calls fn for each object that names this one as an owner; fn may delete it.
  void each_dependent(const std::string& owner_uid, const std::function<void(const Place&)>& fn);
  void deliver(const Kind& kind, const Change& change);
  static bool send(const Watcher& watcher, const Change& change, std::string& body);
  void index(const Kind& kind, const Key& key, const Json* before, const Json* after);
  /// True if no PodDisruptionBudget prevents the eviction of one more pod.
  [[nodiscard]] bool may_disrupt(const Json& pod) const;

  World& world_;
  std::size_t history_limit_;
  std::map<const Kind*, Shelf> shelves_;
  std::map<std::string, Place> by_uid_;
  std::map<std::string, std::set<std::string>> dependents_;  // owner uid -> uids
  std::map<std::uint64_t, Watcher> watchers_;
  std::vector<Observer> observers_;
  std::uint64_t version_ = 1000;
  std::uint64_t next_watcher_ = 0;
};

[[nodiscard]] std::string name_of(const Json& object);
[[nodiscard]] std::string namespace_of(const Json& object);
[[nodiscard]] std::string uid_of(const Json& object);
[[nodiscard]] const Json& label_of(const Json& object, std::string_view key);
[[nodiscard]] const Json& annotation_of(const Json& object, std::string_view key);
[[nodiscard]] bool is_deleting(const Json& object);
/// True if the pod has succeeded or failed.
[[nodiscard]] bool is_finished(const Json& pod);
/// Sets or replaces the condition of that type; its transition time changes only with its status.
void set_condition(Json& object, std::string_view type, std::string_view status, std::string_view reason,
                   std::string_view message, Instant now);
[[nodiscard]] const Json& condition_of(const Json& object, std::string_view type);
[[nodiscard]] bool is_true(const Json& object, std::string_view condition);

}  // namespace qm::fleet
