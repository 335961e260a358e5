// Two sources, one picture. Namespaces come from a watch. Of the engine, the local queues are copied between batches when
// batches have been, and who holds quota is told from the events, as the workloads are too many to copy.
#include "qm/admission/webhook/read_view.hpp"

#include "pod.hpp"
#include "qm/admission/codec.hpp"
#include "qm/base/log.hpp"
#include "quartermaster/v1/events.pb.h"

#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_set>

namespace qm::admission::webhook {
namespace {

namespace pb = quartermaster::v1;
const kube::Resource kNamespaces{"", "v1", "namespaces", false};

bool holds(pb::WorkloadPhase phase) {
  return phase == pb::QUOTA_RESERVED || phase == pb::ADMITTED || phase == pb::EVICTING;
}

/// Who holds quota. Shared with the pictures that ask it, which may outlive everything else.
struct Holders {
  mutable std::shared_mutex mutex;
  std::unordered_set<std::string> uids;
  [[nodiscard]] bool has(const std::string& uid) const {
    const std::shared_lock lock(mutex);
    return uids.contains(uid);
  }
  void set(const std::string& uid, bool yes) {
    const std::scoped_lock lock(mutex);
    if (yes) {
      uids.insert(uid);
    } else {
      uids.erase(uid);
    }
  }
};

}  // namespace

struct ReadView::Impl : std::enable_shared_from_this<ReadView::Impl> {
  Impl(service::Host& host_, kube::Client& client, Ours quota, Ours binding, std::chrono::milliseconds period_)
      : host(host_),
        quota_is_ours(std::move(quota)),
        binding_is_ours(std::move(binding)),
        period(period_),
        informer(client, kNamespaces, "",
                 {[this](const Json& ns, bool deleted) { seen(ns, deleted); }, [this] { publish(); }}) {}

  void seen(const Json& object, bool deleted) {
    const std::scoped_lock lock(mutex);
    if (deleted) {
      namespaces.erase(kube::name_of(object));
    } else {
      namespaces[kube::name_of(object)] = {labels_of(object), texts_of(object["metadata"]["annotations"])};
    }
    changed = true;
  }

  void publish() {
    auto next = std::make_shared<View>();
    const std::scoped_lock lock(mutex);
    next->namespaces = namespaces;
    next->local_queues = local_queues;
    next->holds_quota = [holders = holders](const std::string& uid) { return holders->has(uid); };
    next->quota_is_ours = quota_is_ours;
    next->binding_is_ours = binding_is_ours;
    changed = false;
    view = std::move(next);
  }

  /// On the engine's thread, between batches.
  void copy(const Engine& engine) {
    std::map<std::string, std::set<std::string>> queues;
    for (const auto& [key, queue] : engine.tables().local_queues) queues[key.first.value()].insert(key.second);
    const std::scoped_lock lock(mutex);
    copied = true;
    if (queues == local_queues) return;
    local_queues = std::move(queues);
    changed = true;
  }

  void follow() {
    // Here no change falls between the state and what follows it.
    const auto accepted = host.read_async([self = shared_from_this()](const service::Shell& shell) {
      const auto& engine = static_cast<const AdmissionShell&>(shell).engine();
      for (const auto& [uid, workload] : engine.tables().workloads) {
        if (workload.holds_quota()) self->holders->set(uid.value(), true);
      }
      const auto following =
          self->host.follow(self->host.feed_position(), [holders = self->holders](const service::FeedEvent& event) {
            pb::WorkloadEvent said;
            if (event.topic != kTopic) return;
            const bool yes = !event.tombstone && said.ParseFromString(event.payload) && holds(said.phase());
            holders->set(event.key, yes);
          });
      const std::scoped_lock lock(self->mutex);
      if (following) self->handle = *following;
    });
    if (!accepted) log::warn("the webhook does not see who holds quota", {{"error", accepted.error().to_string()}});
  }

  void run(const std::stop_token& stop) {
    std::uint64_t looked = 0;
    follow();
    for (bool first = true; !stop.stop_requested(); first = false) {
      const auto batches = host.counters().batches;
      if (first || batches != looked) {
        const auto accepted = host.read_async([self = shared_from_this()](const service::Shell& shell) {
          self->copy(static_cast<const AdmissionShell&>(shell).engine());
        });
        if (accepted) looked = batches;
      }
      std::unique_lock lock(mutex);
      const bool publish_now = changed;
      lock.unlock();
      if (publish_now) publish();
      lock.lock();
      wake.wait_for(lock, stop, period, [] { return false; });
    }
  }

  service::Host& host;
  const Ours quota_is_ours, binding_is_ours;
  const std::chrono::milliseconds period;
  std::shared_ptr<Holders> holders = std::make_shared<Holders>();
  mutable std::mutex mutex;
  std::condition_variable_any wake;
  std::map<std::string, View::Namespace> namespaces;
  std::map<std::string, std::set<std::string>> local_queues;
  bool changed = false, copied = false;
  std::uint64_t handle = 0;
  std::shared_ptr<const View> view = std::make_shared<View>();
  kube::Informer informer;
  std::jthread thread;
};

ReadView::ReadView(service::Host& host, kube::Client& client, Ours quota, Ours binding,
                   std::chrono::milliseconds period)
    : impl_(std::make_shared<Impl>(host, client, std::move(quota), std::move(binding), period)) {}

ReadView::~ReadView() { stop(); }

void ReadView::start() {
  impl_->informer.start();
  impl_->thread = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->run(stop); });
}

void ReadView::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->thread.request_stop();
  impl_->thread.join();
  impl_->informer.stop();
  const std::scoped_lock lock(impl_->mutex);
  if (impl_->handle != 0) impl_->host.unfollow(std::exchange(impl_->handle, 0));
}

bool ReadView::synced() const {
  if (!impl_->informer.synced()) return false;
  const std::scoped_lock lock(impl_->mutex);
  return impl_->copied && !impl_->changed;
}

std::shared_ptr<const View> ReadView::current() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->view;
}

}  // namespace qm::admission::webhook
