// Namespaces are watched by an informer, rivals are polled: their leases are renewed every two seconds, so a
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

std::vector<Rival> rivals_of(const std::string& what) {
  const Rival kueue{
      "kueue", "kueue.x-k8s.io", {"c1f6bfd2.kueue.x-k8s.io", "kueue-controller-manager"}, {"kueue-controller-manager"}};
  const Rival volcano{"volcano",
                      "scheduling.volcano.sh",
                      {"volcano", "vc-scheduler", "vc-controller-manager", "volcano-scheduler"},
                      {"volcano-scheduler"}};
  const Rival karpenter{"karpenter", "karpenter.sh", {"karpenter-leader-election"}, {"karpenter"}};
  const Rival cluster_autoscaler{"cluster-autoscaler", "", {"cluster-autoscaler"}, {"cluster-autoscaler"}};
  const Rival keda{"keda", "keda.sh", {"operator.keda.sh"}, {"keda-operator"}};
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
  std::optional<std::string> rival;                          // "" = none; unset = not checked yet
  std::string rival_seen;                                    // the object that showed its activity
  std::map<std::string, std::string> left;                   // namespace -> its owner, of skipped namespaces
  std::vector<std::pair<std::string, std::string>> reports;  // (namespace, subject)
  std::unique_ptr<Informer> namespaces;
  std::thread thread;

  void tell() {
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
    if (changed) tell();
  }
  void on_synced() {
    {
      const std::scoped_lock lock(mutex);
      if (std::exchange(synced, true)) return;
    }
    tell();
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
    for (const auto& candidate : options.rivals) {
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
      changed = rival != found;
      if (changed) {
        log::info("who is at work",
                  {{"what", options.what}, {"rival", found.empty() ? "nobody" : found}, {"seen", where}});
        left.clear();
      }
      rival = found;
      rival_seen = where;
    }
    if (changed) tell();
  }

  Verdict of(const std::string& ns) const {
    const auto it = owners.find(ns);
    if (!synced) return {false, false, "unknown", "the namespaces were not seen yet"};
    if (it != owners.end()) {
      return {it->second == kUs, true, it->second, fmt::format("namespace {} says {}={}", ns, key, it->second)};
    }
    if (options.standard == kUs) return {true, true, std::string(kUs), "the setting says so"};
    if (options.standard != "auto") {
      return {false, true, options.standard, fmt::format("the setting {} is {}", options.what, options.standard)};
    }
    if (!rival) return {false, false, "unknown", "it is not known yet who else is at work"};
    if (rival->empty()) return {true, false, std::string(kUs), "nobody else is at work"};
    return {false, false, *rival, fmt::format("{} is at work ({})", *rival, rival_seen)};
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
        fmt::format("{} is left to {}: {}; label the namespace {}={} to hand its {} to Quartermaster", subject,
                    verdict.owner, verdict.why, key, kUs, options.what);
    log::warn("left alone", {{"namespace", ns}, {"what", options.what}, {"owner", verdict.owner}, {"why", message}});
    const Json event = Json::object(
        {{"apiVersion", "v1"},
         {"kind", "Event"},
         {"metadata",
          Json::object({{"name", fmt::format("{}.{}", ns, sha256_hex(options.what + verdict.owner).substr(0, 16))},
                        {"namespace", ns}})},
         {"involvedObject",
          Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"name", ns}, {"namespace", ns}, {"uid", uid}})},
         {"type", "Normal"},
         {"reason", "LeftToOther"},
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
      next = std::chrono::steady_clock::now() + (rival ? options.period : std::chrono::milliseconds(500));
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
  return impl_->synced && impl_->rival.has_value();
}

Ownership::Verdict Ownership::of(const std::string& ns) const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->of(ns);
}

std::map<std::string, std::string> Ownership::told() const {
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
