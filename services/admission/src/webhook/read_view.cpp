// Combines two sources in one view. Namespaces come from a watch, and on a standby replica LocalQueues too. On the
// leader, LocalQueues are copied from the engine between batches, when there were batches.
#include "qm/admission/webhook/read_view.hpp"

#include "qm/admission/codec.hpp"
#include "qm/base/wake.hpp"
#include "qm/model/scalers.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>

namespace qm::admission::webhook {

using admission_policy::ResourceQuota, admission_policy::ScaleTargets, admission_policy::View;
namespace {

const kube::Resource kNamespaces{"", "v1", "namespaces", false};
const kube::Resource kQuotas{"", "v1", "resourcequotas", true};
constexpr std::string_view kReplicas = "quartermaster.dev/replicas";
const std::vector<std::string> kQueueVersions{"v1beta2", "v1beta1"};

}  // namespace

struct ReadView::Impl : std::enable_shared_from_this<ReadView::Impl> {
  Impl(kube::Client& client, Options from)
      : options(std::move(from)),
        namespaces_informer(client, kNamespaces, "",
                            {[this](const Json& ns, bool deleted) { seen(ns, deleted); }, [] {}}),
        queues_informer(client, [&client] { return client.locate("kueue.x-k8s.io", "localqueues", kQueueVersions); },
                        "", {[this](const Json& queue, bool deleted) { on_local_queue(queue, deleted); }, [] {}}),
        quotas_informer(client, kQuotas, "",
                        {[this](const Json& quota, bool deleted) { on_resource_quota(quota, deleted); }, [] {}}),
        classes_informer(client, [&client] { return client.locate("node.k8s.io", "runtimeclasses", {"v1"}); }, "",
                         {[this](const Json& runtime, bool deleted) { on_runtime_class(runtime, deleted); }, [] {}}) {
    const auto annotated = [](const Json& object) {
      const auto value = kube::annotation(object, kReplicas);
      return value == "quartermaster" || value == "strict";
    };
    for (const auto& [kind, plural] :
         {std::pair("Deployment", "deployments"), std::pair("StatefulSet", "statefulsets")}) {
      watch(client, {"apps", "v1", plural},
            {[this, kind = kind](const Json& object, bool deleted) { on_scale_target(kind, object, deleted); }, [] {},
             annotated});
    }
    const auto scalers = [this](const char* kind) {
      return kube::Informer::Callbacks{
          [this, kind](const Json& object, bool deleted) { on_scaler(kind, object, deleted); }, [] {}};
    };
    watch(client, {"autoscaling", "v2", "horizontalpodautoscalers"}, scalers("HorizontalPodAutoscaler"));
    watch(client, {"keda.sh", "v1alpha1", "scaledobjects"}, scalers("ScaledObject"));
  }

  void watch(kube::Client& client, const kube::Resource& kind, kube::Informer::Callbacks callbacks) {
    scaling_informers.push_back(std::make_unique<kube::Informer>(
        client, [&client, kind] { return client.locate(kind.group, kind.plural, {kind.version}); }, "",
        std::move(callbacks)));
  }

  void seen(const Json& object, bool deleted) {
    const std::scoped_lock lock(mutex);
    if (deleted) {
      namespaces.erase(kube::name_of(object));
    } else {
      namespaces[kube::name_of(object)] = View::Namespace::read(object);
    }
    changed = true;
  }

  void on_local_queue(const Json& object, bool deleted) {
    const std::scoped_lock lock(mutex);
    auto& names = listed[kube::namespace_of(object)];
    if (deleted) {
      names.erase(kube::name_of(object));
    } else {
      names.insert(kube::name_of(object));
    }
    changed = true;
  }

  /// Keeps which pods a quota counts. Its usage changes with every pod and is not needed here.
  void on_resource_quota(const Json& object, bool deleted) {
    auto quota = ResourceQuota::read(object);
    const std::scoped_lock lock(mutex);
    auto& all = quotas[kube::namespace_of(object)];
    const auto known = std::ranges::find(all, kube::name_of(object), &ResourceQuota::name);
    if (quota) quota->used.clear();
    if (quota && !deleted && known != all.end() && *known == *quota) return;
    if (known != all.end()) all.erase(known);
    if (quota && !deleted) all.push_back(std::move(*quota));
    changed = true;
  }

  void on_runtime_class(const Json& object, bool deleted) {
    const std::scoped_lock lock(mutex);
    classes.erase(kube::name_of(object));
    if (!deleted && object["scheduling"].is_object()) classes[kube::name_of(object)] = object["scheduling"];
    changed = true;
  }

  /// Only annotated workloads are wanted.
  void on_scale_target(const char* kind, const Json& object, bool deleted) {
    const auto key = ScaleTargets::key(kube::namespace_of(object), "apps", kind, kube::name_of(object));
    const std::scoped_lock lock(mutex);
    if (deleted) {
      scale_targets.strict.erase(key);
    } else {
      scale_targets.strict[key] = kube::annotation(object, kReplicas) == "strict";
    }
    changed = true;
  }

  void on_scaler(const char* kind, const Json& object, bool deleted) {
    const auto ns = kube::namespace_of(object);
    const auto key = ScaleTargets::key(ns, {}, kind, kube::name_of(object));
    Json typed = object;  // items of a list have no kind
    typed.set("kind", kind);
    const auto ref = scale_target_of(typed);
    auto target = ScaleTargets::key(ns, ref.group(), ref.kind, ref.name);
    const std::scoped_lock lock(mutex);
    if (deleted) {
      scale_targets.scalers.erase(key);
    } else if (std::exchange(scale_targets.scalers[key], target) == target) {
      return;  // its status has changed
    }
    changed = true;
  }

  /// Requires the mutex.
  void publish() {
    auto next = std::make_shared<View>();
    next->namespaces = namespaces;
    if (decided) {
      next->local_queues = *decided;
    } else {
      next->local_queues = options.queues;
      for (const auto& [ns, names] : listed) next->local_queues[ns].insert(names.begin(), names.end());
    }
    next->quotas = quotas;
    next->runtime_classes = classes;
    next->scale_targets = scale_targets;
    next->manages_quota = options.manages_quota;
    next->manages_binding = options.manages_binding;
    changed = false;
    view = std::move(next);
  }

  /// Runs on the engine's thread, between batches.
  void copy(const Engine& engine) {
    Queues queues;
    for (const auto& [key, queue] : engine.tables().local_queues) queues[key.first.value()].insert(key.second);
    const std::scoped_lock lock(mutex);
    if (host == nullptr || decided == queues) return;
    decided = std::move(queues);
    changed = true;
  }

  /// Requires the mutex: the host cannot disappear meanwhile.
  void read_engine() {
    if (host == nullptr) return;
    const auto batches = host->counters().batches;
    if (looked == batches) return;
    const auto accepted = host->read_async([self = shared_from_this()](const service::Shell& shell) {
      self->copy(static_cast<const AdmissionShell&>(shell).engine());
    });
    if (accepted) looked = batches;
  }

  void run(const std::stop_token& stop) {
    for (; !stop.stop_requested(); sleep_unless_stopped(options.period, stop)) {
      const std::scoped_lock lock(mutex);
      read_engine();
      if (changed) publish();
    }
  }

  const Options options;
  mutable std::mutex mutex;
  service::Host* host = nullptr;  // set while this replica leads
  std::optional<std::uint64_t> looked;
  std::map<std::string, View::Namespace> namespaces;
  std::map<std::string, std::vector<ResourceQuota>> quotas;
  std::map<std::string, Json> classes;
  ScaleTargets scale_targets;
  Queues listed;
  std::optional<Queues> decided;  // from the engine
  bool changed = true;
  std::shared_ptr<const View> view = std::make_shared<View>();
  kube::Informer namespaces_informer, queues_informer, quotas_informer, classes_informer;
  std::vector<std::unique_ptr<kube::Informer>> scaling_informers;
  std::jthread thread;
};

ReadView::ReadView(kube::Client& client, Options options) : impl_(std::make_shared<Impl>(client, std::move(options))) {}

ReadView::~ReadView() { stop(); }

void ReadView::start() {
  impl_->namespaces_informer.start();
  impl_->queues_informer.start();
  impl_->quotas_informer.start();  // nothing waits for it: without it a rule that only warns reports nothing
  impl_->classes_informer.start();
  for (const auto& informer : impl_->scaling_informers) informer->start();
  impl_->thread = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->run(stop); });
}

void ReadView::stop() {
  stand_by();
  if (!impl_->thread.joinable()) return;
  impl_->thread.request_stop();
  impl_->thread.join();
  impl_->namespaces_informer.stop();
  impl_->queues_informer.stop();
  impl_->quotas_informer.stop();
  impl_->classes_informer.stop();
  for (const auto& informer : impl_->scaling_informers) informer->stop();
}

void ReadView::lead(service::Host& host) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->host = &host;
  impl_->looked.reset();
}

void ReadView::stand_by() {
  const std::scoped_lock lock(impl_->mutex);
  impl_->host = nullptr;
}

bool ReadView::synced() const {
  if (!impl_->namespaces_informer.synced()) return false;
  if (!impl_->classes_informer.synced() && !impl_->classes_informer.absent()) return false;
  if (!impl_->queues_informer.synced() && !impl_->queues_informer.absent()) return false;
  const std::scoped_lock lock(impl_->mutex);
  return !impl_->changed;
}

std::shared_ptr<const View> ReadView::current() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->view;
}

}  // namespace qm::admission::webhook
