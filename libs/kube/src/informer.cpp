// List, then watch from the list's version. After an expired version it lists again; after a broken connection or a
// plain end it watches again from the last version seen. Each state of an object is reported once, regardless of
// repetitions.
#include "qm/base/log.hpp"
#include "qm/kube/client.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

namespace qm::kube {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstDelay{100};
constexpr milliseconds kMaxDelay{10'000};
/// A watch with at least this duration ended normally.
constexpr milliseconds kHealthyWatch{1'000};

std::string key_of(const Json& object) { return namespace_of(object) + "/" + name_of(object); }

/// A reported object. It is reported once more when it is gone, so all of it is kept, but as text, which is smaller than
/// a value of many small strings. Without managedFields, which no one reads of a deleted object.
struct Reported {
  std::string uid, version, text;

  explicit Reported(const Json& object) : uid(uid_of(object)), version(resource_version_of(object)) {
    Json slim = object;
    slim.set("metadata").erase("managedFields");
    text = slim.dump();
  }
  [[nodiscard]] Json object() const { return Json::parse(text).value_or(Json()); }
};

}  // namespace

struct Informer::Impl {
  Client& client;
  Locate locate;  // empty if the version is fixed
  Resource resource;
  Scope scope;
  Callbacks callbacks;
  int watch_seconds;

  std::map<std::string, Reported> known;  // used by the informer's thread only
  std::string version;
  milliseconds delay = kFirstDelay;
  std::mt19937 random{std::random_device{}()};

  mutable std::mutex mutex;
  std::condition_variable wake;
  Wake interrupt;  // of a watch
  Counters counters;
  std::atomic<bool> stopping = false;
  std::atomic<bool> synced = false;
  std::atomic<bool> absent = false;
  std::thread thread;

  template <class T>
  void count(T Counters::*field) {
    const std::scoped_lock lock(mutex);
    ++(counters.*field);
  }

  /// Reports the object if its version is new.
  void apply(const Json& object) {
    const auto key = key_of(object);
    const auto it = known.find(key);
    if (callbacks.wanted && !callbacks.wanted(object)) return forget(object);
    if (it != known.end()) {
      if (it->second.uid != uid_of(object)) {
        // The name was reused for another object between two reads.
        callbacks.on_change(it->second.object(), true);
      } else if (it->second.version == resource_version_of(object)) {
        return;
      }
    }
    known.insert_or_assign(key, Reported(object));
    callbacks.on_change(object, false);
  }

  void forget(const Json& object) {
    const auto it = known.find(key_of(object));
    if (it == known.end()) return;
    known.erase(it);
    callbacks.on_change(object, true);
  }

  Status relist() {
    std::string listed_at;
    if (resource.plural.empty()) {
      QM_ASSIGN(auto found, locate());
      const std::scoped_lock lock(mutex);
      resource = std::move(found);
    }
    auto listed = client.list_all(resource, scope, &listed_at);
    if (!listed) {
      if (locate && listed.error().code == Code::kNotFound) {
        const std::scoped_lock lock(mutex);
        resource = {};  // its definition is gone, or serves another version now
      }
      return fail(listed.error());
    }
    const auto& items = *listed;
    {
      const std::scoped_lock lock(mutex);
      ++counters.lists;
      counters.listed += items.size();
    }
    // Deletions are reported first: a new object may need the place of a deleted one.
    std::set<std::string> present;
    for (const auto& item : items) present.insert(key_of(item));
    std::vector<Json> vanished;
    for (const auto& [key, reported] : known) {
      if (!present.contains(key)) vanished.push_back(reported.object());
    }
    for (const auto& object : vanished) forget(object);
    for (const auto& item : items) apply(item);
    version = listed_at;
    if (callbacks.on_synced) callbacks.on_synced();
    synced = true;
    return {};
  }

  void on_event(const std::string& type, const Json& object) {
    if (const auto at = resource_version_of(object); !at.empty()) version = at;
    delay = kFirstDelay;
    if (type == "BOOKMARK") return count(&Counters::bookmarks);
    count(&Counters::events);
    if (type == "DELETED") {
      forget(object);
    } else {
      apply(object);
    }
  }

  void pause() {
    std::uniform_int_distribution<std::int64_t> spread(delay.count() / 2, delay.count());
    const milliseconds jittered(spread(random));
    delay = std::min(delay * 2, kMaxDelay);
    std::unique_lock lock(mutex);
    wake.wait_for(lock, jittered, [this] { return stopping.load(); });
  }

  void run() {
    bool list_due = true;
    while (!stopping) {
      if (list_due) {
        if (auto listed = relist(); !listed) {
          if (locate && listed.error().code == Code::kNotFound) {
            if (!absent.exchange(true)) log::info("kind is not served", {{"what", listed.error().message}});
          } else {
            log::warn("kube list failed", {{"resource", resource.plural}, {"error", listed.error().to_string()}});
          }
          pause();
          continue;
        }
        absent = false;
        list_due = false;
      }
      count(&Counters::watches);
      const auto started = steady_clock::now();
      const auto ended = client.watch(
          resource, scope, version, [this](const std::string& type, const Json& object) { on_event(type, object); },
          [this] { return stopping.load(); }, watch_seconds, &interrupt);
      if (stopping) return;
      if (steady_clock::now() - started >= kHealthyWatch) delay = kFirstDelay;
      if (!ended && locate && ended.error().code == Code::kNotFound) {
        list_due = true;
      } else if (!ended && ended.error().code == Code::kOutOfRange) {
        count(&Counters::expired);
        list_due = true;
      } else if (!ended) {
        count(&Counters::cut);
        log::info("kube watch ended", {{"resource", resource.plural}, {"error", ended.error().to_string()}});
      }
      // Also after a plain end: a server that ends every watch at once must not be called without a pause.
      pause();
    }
  }
};

Informer::Informer(Client& client, Resource resource, Scope scope, Callbacks callbacks, int watch_seconds)
    : impl_(new Impl{client, {}, std::move(resource), std::move(scope), std::move(callbacks), watch_seconds}) {}

Informer::Informer(Client& client, Locate locate, Scope scope, Callbacks callbacks, int watch_seconds)
    : impl_(new Impl{client, std::move(locate), {}, std::move(scope), std::move(callbacks), watch_seconds}) {}

Informer::~Informer() { stop(); }

void Informer::start() {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

void Informer::stop() {
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  impl_->interrupt.notify();
  if (impl_->thread.joinable()) impl_->thread.join();
}

bool Informer::synced() const { return impl_->synced; }

bool Informer::absent() const { return impl_->absent; }

Resource Informer::resource() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->resource;
}

Informer::Counters Informer::counters() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->counters;
}

}  // namespace qm::kube
