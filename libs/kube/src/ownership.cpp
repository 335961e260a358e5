// Namespaces are watched by an informer, other controllers are polled: their leases are renewed every two seconds, so a
// watch on those would be the busiest of all.
#include "qm/kube/ownership.hpp"

#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "qm/base/time.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

namespace qm::kube {
namespace {

constexpr std::string_view kUs = "quartermaster";
const Resource kNamespaces{"", "v1", "namespaces", false};
const Resource kDeployments{"apps", "v1", "deployments", true};
/// A lease that was not renewed for this long has no holder, regardless of its duration.
constexpr std::chrono::seconds kLeastLease{60};

/// Whether the lease is being renewed. Leases use wall time, independent of the domain clock.
bool held(const Json& lease) {
  const auto& spec = lease["spec"];
  if (spec["holderIdentity"].string().empty()) return false;
  const auto renewed = from_rfc3339(spec["renewTime"].string());
  if (!renewed) return true;
  const auto now = std::chrono::time_point_cast<Duration>(std::chrono::system_clock::now()).time_since_epoch();
  const auto lasts = std::max(kLeastLease, 2 * std::chrono::seconds(spec["leaseDurationSeconds"].integer()));
  return micros(*renewed) + std::chrono::duration_cast<Duration>(lasts).count() > now.count();
}

}  // namespace

std::vector<OtherController> other_controllers_of(const std::string& what) {
  const OtherController kueue{
      "kueue", "kueue.x-k8s.io", {"c1f6bfd2.kueue.x-k8s.io", "kueue-controller-manager"}, {"kueue-controller-manager"}};
  const OtherController volcano{"volcano",
                                "scheduling.volcano.sh",
                                {"volcano", "vc-scheduler", "vc-controller-manager", "volcano-scheduler"},
                                {"volcano-scheduler"}};
  const OtherController karpenter{"karpenter", "karpenter.sh", {"karpenter-leader-election"}, {"karpenter"}};
  const OtherController cluster_autoscaler{"cluster-autoscaler", "", {"cluster-autoscaler"}, {"cluster-autoscaler"}};
  const OtherController keda{"keda", "keda.sh", {"operator.keda.sh"}, {"keda-operator"}};
  if (what == "quota") return {kueue, volcano};
  if (what == "binding") return {volcano};
  if (what == "scaling") return {karpenter, cluster_autoscaler};
  if (what == "replicas") return {keda};
  return {};
}

struct Ownership::Impl {
  Impl(Client& c, Options o, std::function<void()> fn)
      : client(c), options(std::move(o)), key("quartermaster.dev/" + options.what) {
    if (fn) listeners.push_back(std::move(fn));
    namespaces = std::make_unique<Informer>(
        client, kNamespaces, "",
        Informer::Callbacks{
            [this](const Json& object, bool deleted) { on_namespace(object, deleted); }, [this] { on_synced(); }, {}});
  }

  Client& client;
  const Options options;
  const std::string key;
  std::vector<std::function<void()>> listeners;

  mutable std::mutex mutex;
  std::condition_variable wake;
  std::map<std::string, std::string> owners;  // of the namespaces that name one
  std::map<std::string, std::string> uids;
  bool synced = false, stopping = false;
  std::optional<std::string> other;                          // "" = none; unset = not checked yet
  std::string other_seen;                                    // the object that showed its activity
  std::map<std::string, std::string> left;                   // namespace -> its owner, of skipped namespaces
  std::vector<std::pair<std::string, std::string>> reports;  // (namespace, subject)
  std::unique_ptr<Informer> namespaces;
  std::thread thread;

  void notify_listeners() {
    for (const auto& fn : listeners) fn();
  }

  void on_namespace(const Json& object, bool deleted) {
    const auto name = name_of(object);
    std::string owner = label(object, key);
    if (owner.empty()) owner = annotation(object, key);
    bool changed = false;
    {
      const std::scoped_lock lock(mutex);
      const auto it = owners.find(name);
      const std::string before = it == owners.end() ? "" : it->second;
      if (deleted) owner.clear(), uids.erase(name), left.erase(name);
      if (!deleted) uids[name] = uid_of(object);
      changed = before != owner && synced;
      if (owner.empty()) {
        owners.erase(name);
      } else {
        owners[name] = owner;
      }
    }
    if (changed) notify_listeners();
  }
  void on_synced() {
    {
      const std::scoped_lock lock(mutex);
      if (std::exchange(synced, true)) return;
    }
    notify_listeners();
  }

  /// Whether any object has that name, in any namespace. `failed` is set if the server could not be reached.
  bool any(const Resource& resource, const std::string& name, const std::function<bool(const Json&)>& alive,
           std::string* where, bool* failed) {
    ListOptions ask;
    ask.field_selector = "metadata.name=" + name;
    const auto found = client.list(resource, "", ask);
    if (!found) {
      // A kind that is not served or not visible counts as absent.
      *failed = *failed || found.error().retryable();
      return false;
    }
    for (const auto& item : found->items) {
      if (!alive(item)) continue;
      *where = fmt::format("{} {}/{}", resource.plural, namespace_of(item), name);
      return true;
    }
    return false;
  }

  void look() {
    std::string found, where;
    bool failed = false;
    for (const auto& candidate : options.other_controllers) {
      if (!candidate.group.empty()) {
        const auto served = client.versions_of(candidate.group);
        failed = failed || (!served && served.error().retryable());
        if (!served || served->empty()) continue;
      }
      bool at_work = false;
      for (const auto& name : candidate.leases) {
        at_work = at_work || any(resources::kLeases, name, held, &where, &failed);
      }
      for (const auto& name : candidate.deployments) {
        const auto runs = [](const Json& d) { return d["status"]["availableReplicas"].integer() > 0; };
        at_work = at_work || any(kDeployments, name, runs, &where, &failed);
      }
      if (!at_work) continue;
      found = candidate.owner;
      break;
    }
    if (failed && found.empty()) return;  // the last result remains valid
    bool changed = false;
    {
      const std::scoped_lock lock(mutex);
      changed = other != found;
      if (changed) {
        log::info("other controller changed",
                  {{"what", options.what}, {"controller", found.empty() ? "none" : found}, {"seen", where}});
        left.clear();
      }
      other = found;
      other_seen = where;
    }
    if (changed) notify_listeners();
  }

  Verdict of(const std::string& ns) const {
    const auto it = owners.find(ns);
    if (!synced) return {false, false, "unknown", "the namespaces are not listed yet"};
    if (it != owners.end()) {
      return {it->second == kUs, true, it->second,
              fmt::format("namespace {} has the label {}={}", ns, key, it->second)};
    }
    if (options.standard == kUs) return {true, true, std::string(kUs), "by the setting"};
    if (options.standard != "auto") {
      return {false, true, options.standard, fmt::format("the setting {} is {}", options.what, options.standard)};
    }
    if (!other) return {false, false, "unknown", "it is not known yet whether another controller is active"};
    if (other->empty()) return {true, false, std::string(kUs), "no other controller is active"};
    return {false, false, *other, fmt::format("{} is active ({})", *other, other_seen)};
  }

  void report(const std::string& ns, const std::string& subject) {
    Verdict verdict;
    std::string uid;
    {
      const std::scoped_lock lock(mutex);
      verdict = of(ns);
      const auto it = uids.find(ns);
      if (it != uids.end()) uid = it->second;
    }
    if (verdict.ours || verdict.owner == "unknown") return;
    const std::string message =
        fmt::format("{} is left to {}: {}; label the namespace {}={} to let Quartermaster do its {}", subject,
                    verdict.owner, verdict.why, key, kUs, options.what);
    log::warn("left to another controller",
              {{"namespace", ns}, {"what", options.what}, {"owner", verdict.owner}, {"why", message}});
    const Json event = Json::object(
        {{"apiVersion", "v1"},
         {"kind", "Event"},
         {"metadata",
          Json::object({{"name", fmt::format("{}.{}", ns, sha256_hex(options.what + verdict.owner).substr(0, 16))},
                        {"namespace", ns}})},
         {"involvedObject",
          Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"name", ns}, {"namespace", ns}, {"uid", uid}})},
         {"type", "Normal"},
         {"reason", "DeferredToOtherController"},
         {"message", message},
         {"source", Json::object({{"component", "quartermaster"}})}});
    const auto written = client.create(resources::kEvents, ns, event);
    if (!written && written.error().code != Code::kAlreadyExists) {
      log::warn("event not written", {{"namespace", ns}, {"error", written.error().to_string()}});
    }
  }

  void run() {
    auto next = std::chrono::steady_clock::now();
    for (;;) {
      std::vector<std::pair<std::string, std::string>> due;
      {
        std::unique_lock lock(mutex);
        wake.wait_until(lock, next, [this] { return stopping || !reports.empty(); });
        if (stopping) return;
        due = std::exchange(reports, {});
      }
      for (const auto& [ns, subject] : due) report(ns, subject);
      if (std::chrono::steady_clock::now() < next) continue;
      look();
      const std::scoped_lock lock(mutex);
      next = std::chrono::steady_clock::now() + (other ? options.period : std::chrono::milliseconds(500));
    }
  }
};

Ownership::Ownership(Client& client, Options options, std::function<void()> on_change)
    : impl_(std::make_unique<Impl>(client, std::move(options), std::move(on_change))) {}
Ownership::~Ownership() { stop(); }

void Ownership::start() {
  impl_->namespaces->start();
  impl_->thread = std::thread([this] { impl_->run(); });
}

void Ownership::stop() {
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->wake.notify_all();
  impl_->namespaces->stop();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void Ownership::listen(std::function<void()> on_change) { impl_->listeners.push_back(std::move(on_change)); }

bool Ownership::known() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->synced && impl_->other.has_value();
}

Ownership::Verdict Ownership::of(const std::string& ns) const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->of(ns);
}

std::map<std::string, std::string> Ownership::named_owners() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->owners;
}

bool Ownership::acts(const std::string& ns, const std::string& subject) {
  bool fresh = false;
  {
    const std::scoped_lock lock(impl_->mutex);
    const auto verdict = impl_->of(ns);
    if (verdict.ours) {
      impl_->left.erase(ns);
      return true;
    }
    if (verdict.owner != "unknown") {
      auto& owner = impl_->left[ns];
      fresh = owner != verdict.owner;
      owner = verdict.owner;
      if (fresh) impl_->reports.emplace_back(ns, subject);
    }
  }
  if (fresh) impl_->wake.notify_all();
  return false;
}

Json Ownership::left_alone() const {
  Json out = Json::object();
  const std::scoped_lock lock(impl_->mutex);
  for (const auto& [ns, owner] : impl_->left) out.set(ns, owner);
  return out;
}

}  // namespace qm::kube
