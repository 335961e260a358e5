#include "qm/admission/cluster.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace qm::admission {

Cluster::Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, ClusterSettings settings,
                 CheckpointPolicies& checkpoints, ObservedJobs* observed)
    : checkpoints_(checkpoints),
      pod_defaults_(client),
      quota_(client, {"quota", settings.quota, kube::other_controllers_of("quota")}),
      binding_(client, {"binding", settings.binding, kube::other_controllers_of("binding")}),
      pods_(client, host,
            {&quota_, &binding_, &checkpoints, settings.engine.places, nullptr,
             settings.engine.wait_for_pods_ready.has_value()}),
      workloads_(client, host, clock,
                 {&quota_, &binding_, &checkpoints, settings.engine.places, &pod_defaults_,
                  settings.engine.wait_for_pods_ready.has_value()},
                 {settings.workload_objects}),
      config_(client, host),
      status_(client, host, config_, clock, &quota_) {
  const WatchOptions options{&quota_,        &binding_,
                             &checkpoints,   settings.engine.places,
                             &pod_defaults_, settings.engine.wait_for_pods_ready.has_value(),
                             observed};
  if (!settings.engine.places) {
    nodes_ = std::make_unique<NodeWatch>(client, host, clock);
    ungater_ = std::make_unique<TopologyUngater>(client, host);
  }
  for (const auto& kind : settings.kinds) jobs_.push_back(std::make_unique<JobWatch>(client, host, options, kind));
  pod_defaults_.listen([this] {
    for (auto& jobs : jobs_) jobs->owners_changed();
    workloads_.owners_changed();
  });
  for (auto* owner : {&quota_, &binding_}) {
    owner->listen([this] {
      for (auto& jobs : jobs_) jobs->owners_changed();
      workloads_.owners_changed();
      pods_.owners_changed();
    });
  }
}

Cluster::~Cluster() { stop(); }

void Cluster::start() {
  // A workload is evaluated as soon as it is observed: load the policies first, but wait for them only briefly.
  checkpoints_.start();
  pod_defaults_.start();
  const auto patient_until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (!(checkpoints_.synced() && pod_defaults_.synced()) && std::chrono::steady_clock::now() < patient_until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  quota_.start();
  binding_.start();
  config_.start();
  if (nodes_) nodes_->start();
  if (ungater_) ungater_->start();
  for (auto& jobs : jobs_) jobs->start();
  pods_.start();
  workloads_.start();
  status_.start();
}

void Cluster::stop() {
  status_.stop();
  if (ungater_) ungater_->stop();
  if (nodes_) nodes_->stop();
  workloads_.stop();
  for (auto& jobs : jobs_) jobs->stop();
  pods_.stop();
  config_.stop();
  checkpoints_.stop();
  pod_defaults_.stop();
  quota_.stop();
  binding_.stop();
}

bool Cluster::synced() const {
  return quota_.known() && binding_.known() && config_.synced() && pods_.synced() && workloads_.synced() &&
         std::ranges::all_of(jobs_, [](const auto& jobs) { return jobs->synced(); });
}

Json Cluster::debug_state() const { return Json::object({{"leftToOthers", quota_.left_alone()}}); }

}  // namespace qm::admission
