#include "qm/kube/config_feed.hpp"

#include "qm/base/log.hpp"

#include <algorithm>

namespace qm::kube {
namespace {

Json without_bookkeeping(const Json& object, bool status) {
  Json out = object;
  auto& metadata = out.set("metadata");
  for (const char* field : {"managedFields", "resourceVersion", "generation", "finalizers"}) metadata.erase(field);
  if (!status) out.erase("status");
  return out;
}

/// The Event has one text: it includes the field and the remedy.
std::string whole(const Error& error) {
  std::string out = error.message;
  if (!error.field.empty() && out.find(error.field) == std::string::npos) out = error.field + ": " + out;
  if (!error.remedy.empty() && out.find(error.remedy) == std::string::npos) out += "; " + error.remedy;
  return out;
}

}  // namespace

struct ConfigFeed::Feed {
  Feed(Client& c, EventRecorder& e, const Callbacks& calls, Kind k)
      : client(c),
        events(e),
        callbacks(calls),
        kind(std::move(k)),
        informer(client, [this] { return client.locate(kind.group, kind.plural, kind.versions); }, "",
                 {[this](const Json& object, bool deleted) { changed(object, deleted); }, [this] { listed(); }, {}}) {}

  Client& client;
  EventRecorder& events;
  const Callbacks& callbacks;
  const Kind kind;
  std::map<Key, std::string> judged;  // as last evaluated
  mutable std::mutex mutex;           // guards refused
  std::map<Key, std::string> refused;
  Informer informer;

  void changed(const Json& object, bool deleted) {
    const Key at{namespace_of(object), name_of(object)};
    if (deleted || !object.path("metadata.deletionTimestamp").is_null()) {
      judged.erase(at);
      note(at, {});
      return callbacks.gone(kind, at);
    }
    const Json slim = without_bookkeeping(object, kind.status);
    const auto bytes = slim.dump();
    if (auto& last = judged[at]; std::exchange(last, bytes) == bytes) return;
    if (const auto done = callbacks.take(kind, slim); !done) return refuse(object, at, done.error());
    note(at, {});
  }

  void note(const Key& at, std::string why) {
    const std::scoped_lock lock(mutex);
    if (why.empty()) {
      refused.erase(at);
    } else {
      refused[at] = std::move(why);
    }
  }

  void refuse(const Json& object, const Key& at, const Error& error) {
    log::warn("object rejected",
              {{"kind", kind.kind}, {"namespace", at.first}, {"name", at.second}, {"error", error.to_string()}});
    const auto why = whole(error);
    note(at, why);
    const auto written =
        events.record({object["apiVersion"].string(), kind.kind, at.first, at.second, uid_of(object)},
                      {true, "NotAccepted",
                       fmt::format("{}; the last version that could be read stays in force", why.substr(0, 900))});
    if (!written) log::warn("event not written", {{"object", at.second}, {"error", written.error().to_string()}});
  }

  void listed() {
    if (!callbacks.listed) return;
    std::vector<Key> present;
    for (const auto& [at, bytes] : judged) present.push_back(at);
    callbacks.listed(kind, present);
  }
};

ConfigFeed::ConfigFeed(Client& client, const std::string& component, std::vector<Kind> kinds, Callbacks callbacks)
    : events_(client, component), callbacks_(std::move(callbacks)) {
  for (auto& kind : kinds) feeds_.push_back(std::make_unique<Feed>(client, events_, callbacks_, std::move(kind)));
}

ConfigFeed::~ConfigFeed() { stop(); }

void ConfigFeed::start() {
  for (auto& feed : feeds_) feed->informer.start();
}

void ConfigFeed::stop() {
  for (auto& feed : feeds_) feed->informer.stop();
}

bool ConfigFeed::synced() const {
  return std::all_of(feeds_.begin(), feeds_.end(),
                     [](const auto& feed) { return feed->informer.synced() || feed->informer.absent(); });
}

Result<Resource> ConfigFeed::resource(const std::string& kind) const {
  for (const auto& feed : feeds_) {
    if (feed->kind.kind != kind) continue;
    auto found = feed->informer.resource();
    if (!found.plural.empty()) return found;
  }
  return fail(Code::kNotFound, "{} is not served", kind);
}

std::map<ConfigFeed::Key, std::string> ConfigFeed::refused(const std::string& kind) const {
  for (const auto& feed : feeds_) {
    if (feed->kind.kind != kind) continue;
    const std::scoped_lock lock(feed->mutex);
    return feed->refused;
  }
  return {};
}

}  // namespace qm::kube
