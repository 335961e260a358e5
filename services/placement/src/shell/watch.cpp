// Informers, and the lists of existing objects after each complete list.
#include "qm/base/log.hpp"
#include "qm/placement/shell.hpp"
#include "shell/objects.hpp"
#include "shell/solo.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

namespace qm::placement {
namespace {

/// Submits the objects of one kind as inputs. Used only by its informer's thread.
class Feed {
 public:
  Feed(service::Host& host, std::string name, std::string (*key)(const Json&),
       service::Urgency urgency = service::Urgency::kNow)
      : host_(host), name_(std::move(name)), key_(key), urgency_(urgency) {}

  void change(const Json& object, bool deleted) {
    Json out = object;
    out.set("metadata").erase("managedFields");
    if (deleted) {
      out.set("deleted", true);
      present_.erase(key_(object));
    } else {
      present_.insert(key_(object));
    }
    submit(name_, out.dump(), urgency_);
  }
  /// Records whether the pod exists, for the list of existing objects; `Solo` submits the pod itself.
  void note(const Json& object, bool deleted) {
    if (deleted) {
      present_.erase(key_(object));
    } else {
      present_.insert(key_(object));
    }
  }
  void synced() {
    Json keys = Json::array();
    for (const std::string& key : present_) keys.push_back(key);
    submit(name_ + ".synced", keys.dump());
  }
  void stop() {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
  }

  /// No observed object may be lost: while the mailbox is full, the watch blocks.
  void submit(const std::string& name, std::string bytes, service::Urgency urgency = service::Urgency::kNow) {
    service::Input input;
    input.urgency = urgency;
    input.source = service::Source::kWatch;
    input.name = name;
    input.bytes = std::move(bytes);
    for (;;) {
      const Status accepted = host_.submit(input);
      if (accepted) return;
      if (accepted.error().code != Code::kExhausted && accepted.error().code != Code::kUnavailable) {
        log::error("watched object is refused by the host", {{"watch", name}, {"error", accepted.error().to_string()}});
        return;
      }
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, std::chrono::milliseconds(10), [this] { return stopping_; })) return;
    }
  }

 private:
  service::Host& host_;
  std::string name_;
  std::string (*key_)(const Json&);
  service::Urgency urgency_;
  std::set<std::string> present_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
};

const kube::Resource kClaims{"", "v1", "persistentvolumeclaims", true};
const kube::Resource kVolumes{"", "v1", "persistentvolumes", false};
const kube::Resource kClasses{"storage.k8s.io", "v1", "storageclasses", false};
const kube::Resource kLimits{"storage.k8s.io", "v1", "csinodes", false};

kube::Informer::Callbacks callbacks(Feed& feed) {
  return {[&feed](const Json& object, bool deleted) { feed.change(object, deleted); }, [&feed] { feed.synced(); }};
}

}  // namespace

struct Watcher::Impl {
  Feed nodes, pods, claims, volumes, classes, limits;
  Solo solo;
  bool alone;  // this process places pods without admission
  kube::Informer node_informer, pod_informer, claim_informer, volume_informer, class_informer, limits_informer;
  std::vector<std::unique_ptr<kube::Informer>> groups;

  Impl(kube::Client& client, service::Host& host, WatchOptions options)
      // A node matters to workloads that are pending; a volume, to pods that are not bound.
      : nodes(host, "node", kube::name_of, service::Urgency::kDeferred),
        pods(host, "pod", kube::uid_of),
        claims(host, "claim", [](const Json& claim) { return storage_key("claim", claim); }),
        volumes(host, "volume", [](const Json& volume) { return storage_key("volume", volume); }),
        classes(host, "class", [](const Json& made_by) { return storage_key("class", made_by); }),
        limits(host, "limits", [](const Json& csi_node) { return storage_key("limits", csi_node); }),
        solo(host, options.quota, options.binding,
             [this](const std::string& name, std::string bytes, service::Urgency urgency) {
               pods.submit(name, std::move(bytes), urgency);
             }),
        alone(options.quota != nullptr),
        node_informer(client, kube::resources::kNodes, {}, callbacks(nodes)),
        pod_informer(client, kube::resources::kPods, {},
                     {[this](const Json& pod, bool deleted) {
                        pods.note(pod, deleted);
                        solo.see(pod, deleted);
                      },
                      [this] { pods.synced(); },
                      {}}),
        claim_informer(client, kClaims, {}, callbacks(claims)),
        volume_informer(client, kVolumes, {}, callbacks(volumes)),
        class_informer(client, kClasses, {}, callbacks(classes)),
        limits_informer(client, kLimits, {}, callbacks(limits)) {
    if (!alone) return;
    for (const char* group : {"scheduling.x-k8s.io", "scheduling.volcano.sh"}) {
      groups.push_back(std::make_unique<kube::Informer>(
          client, [&client, group] { return client.locate(group, "podgroups", {}); }, "",
          kube::Informer::Callbacks{
              [this](const Json& object, bool deleted) { solo.see_group(object, deleted); }, {}, {}}));
    }
    for (auto* owner : {options.quota, options.binding}) {
      if (owner != nullptr) owner->listen([this] { solo.owners_changed(); });
    }
  }
};

Watcher::Watcher(kube::Client& client, service::Host& host, WatchOptions options)
    : impl_(std::make_unique<Impl>(client, host, options)) {}
Watcher::~Watcher() { stop(); }

void Watcher::start() {
  if (impl_->alone) impl_->solo.restore();
  impl_->node_informer.start();
  impl_->pod_informer.start();
  impl_->claim_informer.start();
  impl_->volume_informer.start();
  impl_->class_informer.start();
  impl_->limits_informer.start();
  for (auto& group : impl_->groups) group->start();
}

void Watcher::stop() {
  for (Feed* feed : {&impl_->nodes, &impl_->pods, &impl_->claims, &impl_->volumes, &impl_->classes, &impl_->limits}) {
    feed->stop();
  }
  for (kube::Informer* informer : {&impl_->node_informer, &impl_->pod_informer, &impl_->claim_informer,
                                   &impl_->volume_informer, &impl_->class_informer, &impl_->limits_informer}) {
    informer->stop();
  }
  for (auto& group : impl_->groups) group->stop();
}

bool Watcher::synced() const { return impl_->node_informer.synced() && impl_->pod_informer.synced(); }

service::Input watch_started() {
  service::Input input;
  input.source = service::Source::kWatch;
  input.name = "watch.started";
  return input;
}

}  // namespace qm::placement
