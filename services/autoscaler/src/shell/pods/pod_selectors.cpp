#include "pods/pod_selectors.hpp"

#include "json_values.hpp"
#include "qm/kube/client.hpp"

namespace qm::autoscaler {
namespace {

kube::Locate located(kube::Client& client, const char* group, const char* plural) {
  return [&client, group, plural] { return client.locate(group, plural, {"v1"}); };
}

/// A selector of a Service or ReplicationController: each label must have its value.
LabelSelector of_map(const Json& labels) {
  LabelSelector out;
  for (const auto& [key, value] : labels.members())
    out.requirements.push_back({key, LabelRequirement::Op::kIn, {value.string()}});
  return out;
}

void append(const LabelSelector& from, LabelSelector& to) {
  to.requirements.insert(to.requirements.end(), from.requirements.begin(), from.requirements.end());
}

}  // namespace

PodSelectors::PodSelectors(kube::Client& client)
    : services_(client, located(client, "", "services"), "", taking("Service")),
      replica_sets_(client, located(client, "apps", "replicasets"), "", taking("ReplicaSet")),
      stateful_sets_(client, located(client, "apps", "statefulsets"), "", taking("StatefulSet")),
      replication_controllers_(client, located(client, "", "replicationcontrollers"), "",
                               taking("ReplicationController")) {}

kube::Informer::Callbacks PodSelectors::taking(const char* kind) {
  return {[this, kind](const Json& object, bool deleted) { take(kind, object, deleted); }, [] {}, {}};
}

void PodSelectors::start() {
  for (auto* informer : {&services_, &replica_sets_, &stateful_sets_, &replication_controllers_}) informer->start();
}

void PodSelectors::stop() {
  for (auto* informer : {&services_, &replica_sets_, &stateful_sets_, &replication_controllers_}) informer->stop();
}

bool PodSelectors::synced() const {
  const auto known = [](const kube::Informer& one) { return one.synced() || one.absent(); };
  return known(services_) && known(replica_sets_) && known(stateful_sets_) && known(replication_controllers_);
}

void PodSelectors::take(const std::string& kind, const Json& object, bool deleted) {
  const Json& selector = object["spec"]["selector"];
  const bool map = kind == "Service" || kind == "ReplicationController";
  const LabelSelector read = map ? of_map(selector) : label_selector(selector).value_or(LabelSelector{});
  const std::scoped_lock lock(mutex_);
  Selectors& all = by_kind_[kind];
  const auto key = std::pair(kube::namespace_of(object), kube::name_of(object));
  all.erase(key);
  if (!deleted && !read.requirements.empty()) all.emplace(key, read);
}

LabelSelector PodSelectors::of(const std::string& ns, const Labels& labels, const std::string& kind,
                               const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  LabelSelector out;
  if (const auto services = by_kind_.find("Service"); services != by_kind_.end()) {
    for (auto at = services->second.lower_bound({ns, ""}); at != services->second.end() && at->first.first == ns;
         ++at) {
      if (at->second.matches(labels)) append(at->second, out);
    }
  }
  if (const auto owners = by_kind_.find(kind); kind != "Service" && owners != by_kind_.end()) {
    if (const auto owner = owners->second.find({ns, name}); owner != owners->second.end()) append(owner->second, out);
  }
  return out;
}

}  // namespace qm::autoscaler
