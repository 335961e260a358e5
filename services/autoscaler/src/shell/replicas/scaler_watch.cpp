// Scalers and pods of the API server.
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/autoscaler/replicas/scaler.hpp"
#include "qm/base/log.hpp"
#include "qm/model/quantity.hpp"
#include "qm/model/scalers.hpp"
#include "replicas/replica_rows.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

const kube::Resource kHpas{"autoscaling", "v2", "horizontalpodautoscalers", true};
constexpr Duration kSyncPeriod = std::chrono::seconds(15);

kube::Locate scaled_objects(kube::Client& client) {
  return [&client] { return client.locate("keda.sh", "scaledobjects", {"v1alpha1"}); };
}

/// What decides: without status and fields that the server or other clients change.
Json manifest_of(const Json& object) {
  const Json own = qm::restored(object);
  auto metadata = Json::object({{"name", kube::name_of(own)}, {"namespace", kube::namespace_of(own)}});
  auto annotations = Json::object();
  for (const auto& [key, value] : own["metadata"]["annotations"].members()) {
    if (key.starts_with("autoscaling.keda.sh/")) annotations.set(key, value);
  }
  if (annotations.size() > 0) metadata.set("annotations", std::move(annotations));
  return Json::object({{"apiVersion", own["apiVersion"]},
                       {"kind", own["kind"]},
                       {"metadata", std::move(metadata)},
                       {"spec", own["spec"]}});
}

/// Fills in what a sample needs; nothing for a manifest that cannot be read, because it is not evaluated.
void read_needs(ScalerKind kind, WatchedScaler& out) {
  out.period = kSyncPeriod;
  const auto read = kind == ScalerKind::kHpa ? replicas::Scaler::read_autoscaler(out.row.manifest)
                                             : replicas::Scaler::read_object(out.row.manifest);
  if (!read) return;
  out.pods = read->needs_pods();
  out.triggers = read->triggers();
  if (kind == ScalerKind::kScaledObject) out.period = std::min(out.period, read->polling());
}

service::Input watched(std::string name, std::string key, std::string bytes) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = std::move(name);
  in.key = std::move(key);
  in.bytes = std::move(bytes);
  return in;
}

replicas::Amounts requests_of(const Json& resources) {
  replicas::Amounts out;
  for (const auto& [name, value] : resources["requests"].members()) {
    const auto quantity = Quantity::parse(value.is_string() ? value.string() : value.dump());
    if (quantity) out[name] = quantity->milli();
  }
  return out;
}

}  // namespace

WatchedScaler watched_scaler(const ScalerId& id, const Json& listed) {
  Json object = listed;  // items of a list have no kind
  object.set("kind", name_of(id.kind));
  object.set("apiVersion", id.kind == ScalerKind::kHpa ? "autoscaling/v2" : "keda.sh/v1alpha1");
  WatchedScaler out;
  out.manifest = manifest_of(object);
  const auto ref = scale_target_of(object);
  out.row.target = {id.ns, ref.group(), ref.kind, ref.name};
  out.row.api_version = ref.api_version;
  out.row.manifest = out.manifest.dump();
  out.row.uid = kube::uid_of(object);
  out.row.created = from_rfc3339(object["metadata"]["creationTimestamp"].string()).value_or(Instant{});
  out.row.suspended = is_suspended(object);
  for (const auto& owner : object["metadata"]["ownerReferences"].items()) {
    if (owner["kind"].string() == "ScaledObject") out.row.generated = true;
  }
  read_needs(id.kind, out);
  return out;
}

ScalerWatch::ScalerWatch(kube::Client& client)
    : hpas_(client, kHpas, "",
            {[this](const Json& object, bool deleted) { changed(ScalerKind::kHpa, object, deleted); },
             [this] { listed(ScalerKind::kHpa); }}),
      objects_(client, scaled_objects(client), "",
               {[this](const Json& object, bool deleted) { changed(ScalerKind::kScaledObject, object, deleted); },
                [this] { listed(ScalerKind::kScaledObject); }}) {}

void ScalerWatch::start() {
  hpas_.start();
  objects_.start();
}

void ScalerWatch::stop() {
  objects_.stop();
  hpas_.stop();
}

bool ScalerWatch::synced() const {
  return (hpas_.synced() || hpas_.absent()) && (objects_.synced() || objects_.absent());
}

void ScalerWatch::changed(ScalerKind kind, const Json& object, bool deleted) {
  const ScalerId id{kind, kube::namespace_of(object), kube::name_of(object)};
  auto scaler = std::make_shared<WatchedScaler>(watched_scaler(id, object));
  const std::scoped_lock lock(mutex_);
  const auto known = scalers_.find(id);
  if (deleted) {
    if (known != scalers_.end()) scalers_.erase(known);
  } else if (known != scalers_.end() && known->second->row == scaler->row) {
    return;
  } else {
    scalers_[id] = scaler;
  }
  pending_.push_back(watched("replicas.scaler", id.to_string(), scaler_bytes({id, scaler->row, deleted})));
}

void ScalerWatch::listed(ScalerKind kind) {
  const std::scoped_lock lock(mutex_);
  ScalersListed all{kind, {}};
  for (const auto& [id, scaler] : scalers_) {
    if (id.kind == kind) all.ids.push_back(id);
  }
  pending_.push_back(watched("replicas.scalers", std::string(name_of(kind)), scalers_bytes(all)));
}

std::vector<service::Input> ScalerWatch::changes() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(pending_, {});
}

std::map<TargetId, ScalerWatch::Scalers> ScalerWatch::by_target() const {
  const std::scoped_lock lock(mutex_);
  std::map<TargetId, Scalers> out;
  for (const auto& [id, scaler] : scalers_) {
    if (!scaler->row.generated) out[scaler->row.target].emplace(id, scaler);
  }
  return out;
}

replicas::Pod replica_pod(const Json& pod) {
  replicas::Pod out;
  out.name = kube::name_of(pod);
  const auto& phase = pod["status"]["phase"].string();
  out.phase = phase == "Running"     ? replicas::Pod::Phase::kRunning
              : phase == "Succeeded" ? replicas::Pod::Phase::kSucceeded
              : phase == "Failed"    ? replicas::Pod::Phase::kFailed
                                     : replicas::Pod::Phase::kPending;
  out.ready.reset();
  for (const auto& condition : pod["status"]["conditions"].items()) {
    if (condition["type"].string() != "Ready") continue;
    out.ready = condition["status"].string() == "True";
    out.ready_since = from_rfc3339(condition["lastTransitionTime"].string()).value_or(Instant{});
  }
  if (const auto start = from_rfc3339(pod["status"]["startTime"].string())) out.start = *start;
  out.deleted = !pod["metadata"]["deletionTimestamp"].is_null();
  const Json& spec = pod["spec"];
  for (const auto& container : spec["containers"].items()) {
    out.containers[container["name"].string()] = requests_of(container["resources"]);
  }
  for (const auto& container : spec["initContainers"].items()) {
    if (container["restartPolicy"].string() == "Always") {
      out.sidecars[container["name"].string()] = requests_of(container["resources"]);
    }
  }
  out.pod_requests = requests_of(spec["resources"]);
  return out;
}

void ReplicaPods::changed(const Json& pod, bool deleted) {
  const auto ns = kube::namespace_of(pod), name = kube::name_of(pod);
  Entry entry;
  if (!deleted) {
    entry.pod = replica_pod(pod);
    for (const auto& [key, value] : pod["metadata"]["labels"].members()) entry.labels[key] = value.string();
  }
  const std::scoped_lock lock(mutex_);
  if (deleted) {
    pods_[ns].erase(name);
  } else {
    pods_[ns][name] = std::move(entry);
  }
}

void ReplicaPods::stop() {
  std::unique_ptr<kube::Informer> ended;
  {
    const std::scoped_lock lock(mutex_);
    ended = std::move(informer_);
  }
  if (ended) ended->stop();
}

std::optional<std::vector<replicas::Pod>> ReplicaPods::matching(const std::string& ns, const std::string& selector) {
  const auto parsed = LabelSelector::parse(selector);
  const std::scoped_lock lock(mutex_);
  if (!informer_) {
    informer_ = std::make_unique<kube::Informer>(
        client_, kube::resources::kPods, "",
        kube::Informer::Callbacks{[this](const Json& pod, bool deleted) { changed(pod, deleted); }, [] {}});
    informer_->start();
  }
  if (!informer_->synced()) return {};
  std::vector<replicas::Pod> out;
  if (!parsed) return out;
  for (const auto& [name, entry] : pods_[ns]) {
    if (parsed->matches(entry.labels)) out.push_back(entry.pod);
  }
  return out;
}

}  // namespace qm::autoscaler
