#include "qm/admission/translate.hpp"
#include "qm/admission/watch.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"

namespace qm::admission {
namespace {

/// What the engine keeps of an object: not what changes without its owner's doing.
Json slim_of(const Json& object) {
  Json out = object;
  auto& metadata = out.set("metadata");
  for (const char* field : {"managedFields", "resourceVersion", "generation", "finalizers"}) metadata.erase(field);
  out.erase("status");
  return out;
}

}  // namespace

const std::vector<ConfigWatch::Kind>& ConfigWatch::kinds() {
  static const std::vector<std::string> kueue = {"v1beta2", "v1beta1"};
  static const std::vector<Kind> all = {
      {"kueue.x-k8s.io", "resourceflavors", "ResourceFlavor", kueue, false},
      {"kueue.x-k8s.io", "cohorts", "Cohort", kueue, false},
      {"kueue.x-k8s.io", "clusterqueues", "ClusterQueue", kueue, true},
      {"kueue.x-k8s.io", "localqueues", "LocalQueue", kueue, true},
      {"kueue.x-k8s.io", "workloadpriorityclasses", "WorkloadPriorityClass", kueue, false},
      {"scheduling.k8s.io", "priorityclasses", "PriorityClass", {"v1"}, false},
  };
  return all;
}

struct ConfigWatch::Feed {
  Feed(kube::Client& c, Mailbox& m, Kind k)
      : client(c),
        mailbox(m),
        kind(std::move(k)),
        informer(client, [this] { return client.find_kind(kind.group, kind.plural, kind.versions); }, "",
                 {[this](const Json& object, bool deleted) { changed(object, deleted); }, [this] { synced(); }, {}}) {}

  kube::Client& client;
  Mailbox& mailbox;
  const Kind kind;
  std::map<std::pair<std::string, std::string>, std::string> sent;  // what was last taken of an object
  kube::Informer informer;

  void changed(const Json& object, bool deleted) {
    const std::pair at{kube::namespace_of(object), kube::name_of(object)};
    // An object that is being deleted is held by finalizers only: for us it is gone.
    if (deleted || !object.path("metadata.deletionTimestamp").is_null()) {
      sent.erase(at);
      mailbox.send("object", Json::object({{"deleted", true},
                                           {"kind", kind.kind},
                                           {"metadata", Json::object({{"namespace", at.first}, {"name", at.second}})}})
                                 .dump());
      return;
    }
    auto slim = slim_of(object);
    auto bytes = slim.dump();
    auto& last = sent[at];
    if (last == bytes) return;
    if (const auto readable = objects_from_manifest(bytes, kind.kind + "/" + at.second); !readable) {
      refuse(object, readable.error());
      return;
    }
    last = bytes;
    mailbox.send("object", std::move(bytes), kube::uid_of(object));
  }

  /// The object stays as it was; its owner is told.
  void refuse(const Json& object, const Error& error) const {
    log::warn("object not taken", {{"kind", kind.kind},
                                   {"namespace", kube::namespace_of(object)},
                                   {"name", kube::name_of(object)},
                                   {"error", error.to_string()}});
    const auto ns = kube::namespace_of(object).empty() ? std::string("default") : kube::namespace_of(object);
    Json about = Json::object({{"apiVersion", object["apiVersion"]},
                               {"kind", kind.kind},
                               {"name", kube::name_of(object)},
                               {"uid", kube::uid_of(object)}});
    if (!kube::namespace_of(object).empty()) about.set("namespace", ns);
    const auto id = sha256_hex(kube::uid_of(object) + error.message).substr(0, 16);
    const Json event = Json::object(
        {{"apiVersion", "v1"},
         {"kind", "Event"},
         {"metadata", Json::object({{"name", fmt::format("{}.{}", kube::name_of(object), id)}, {"namespace", ns}})},
         {"involvedObject", std::move(about)},
         {"type", "Warning"},
         {"reason", "NotTaken"},
         {"message",
          fmt::format("{}; the last version that could be read stays in force", error.message.substr(0, 900))},
         {"source", Json::object({{"component", "qm-admission"}})}});
    const auto written = client.create(kube::resources::kEvents, ns, event);
    if (!written && written.error().code != Code::kAlreadyExists) {
      log::warn("event not written", {{"object", kube::name_of(object)}, {"error", written.error().to_string()}});
    }
  }

  void synced() {
    Json objects = Json::array();
    for (const auto& [at, bytes] : sent) {
      objects.push_back(Json::object({{"namespace", at.first}, {"name", at.second}}));
    }
    mailbox.send("object.synced", Json::object({{"kind", kind.kind}, {"objects", std::move(objects)}}).dump());
  }
};

ConfigWatch::ConfigWatch(kube::Client& client, service::Host& host) : mailbox_(host) {
  for (const auto& kind : kinds()) feeds_.push_back(std::make_unique<Feed>(client, mailbox_, kind));
}

ConfigWatch::~ConfigWatch() { stop(); }

void ConfigWatch::start() {
  for (auto& feed : feeds_) feed->informer.start();
}

void ConfigWatch::stop() {
  mailbox_.stop();
  for (auto& feed : feeds_) feed->informer.stop();
}

bool ConfigWatch::synced() const {
  return std::all_of(feeds_.begin(), feeds_.end(),
                     [](const auto& feed) { return feed->informer.synced() || feed->informer.absent(); });
}

Result<kube::Resource> ConfigWatch::resource(const std::string& kind) const {
  for (const auto& feed : feeds_) {
    if (feed->kind.kind != kind) continue;
    auto found = feed->informer.resource();
    if (!found.plural.empty()) return found;
  }
  return fail(Code::kNotFound, "{} is not served", kind);
}

}  // namespace qm::admission
