#include "qm/admission/watch.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/translate/translate.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"
#include "watch/owners.hpp"

#include <algorithm>
#include <thread>
#include <vector>

namespace qm::admission {

void Mailbox::send(std::string name, std::string bytes, const std::string& key, std::string trace_parent,
                   service::Urgency urgency) {
  service::Input input;
  input.urgency = urgency;
  input.source = service::Source::kWatch;
  input.name = std::move(name);
  input.bytes = std::move(bytes);
  input.key = key;
  input.trace_parent = std::move(trace_parent);
  while (!stopping_) {
    const auto taken = host_.submit(input);
    if (taken) return;
    if (!taken.error().retryable()) {
      log::error("watch input refused", {{"name", input.name}, {"error", taken.error().to_string()}});
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::string job_print(const Json& job, bool readiness) {
  const auto* kind = suspending_kind(job);
  if (kind == nullptr) return {};
  const bool suspended = job.path(kind->suspend).boolean();
  std::string print = suspended ? "suspended" : "running";
  if (suspended && kind->active(job) > 0) print += "/with-pods";
  print += fmt::format("/{}", attempt_of(job, *kind));
  if (const auto ended = ended_pods(job, *kind); ended > 0) print += fmt::format("/{}-ended", ended);
  if (config::is_complete(job, *kind)) print += "/complete";
  if (config::is_failed(job, *kind)) print += "/failed";
  if (readiness && config::are_pods_ready(job, *kind)) print += "/ready";
  // Only the minimum of an elastic Job has to be ready (JobUpdated).
  if (readiness && kind->kind == "Job" && config::is_elastic_job(job)) {
    print += fmt::format("/{}-ready", config::ready_pods(job));
  }
  for (const auto& c : job.path("status.conditions").items()) {
    if (c["status"].string() == "True") print += "/" + c["type"].string();
  }
  // Covers all that the author may change: each such update is parsed again.
  const auto& metadata = job["metadata"];
  print += fmt::format("/{:x}", Digest()
                                    .add(metadata["labels"].dump())
                                    .add(metadata["annotations"].dump())
                                    .add(metadata["ownerReferences"].dump())
                                    .add(job["spec"].dump())
                                    .value());
  return print;
}

namespace {

kube::Locate locate(kube::Client& client, const config::WorkloadKind& kind) {
  return [&client, &kind] {
    return client.locate(std::string(kind.group), std::string(kind.plural),
                         {kind.versions.begin(), kind.versions.end()});
  };
}

/// The scheduler that its pods name; the first template that names one counts.
std::string scheduler_of(const Json& job, const config::WorkloadKind& kind) {
  for (const auto& place : kind.places(job)) {
    const Json* pods = config::find_template(job, place);
    if (pods == nullptr) continue;
    if (const auto& named = (*pods)["spec"]["schedulerName"].string(); !named.empty()) return named;
  }
  return {};
}

}  // namespace

bool external_scheduler(const WatchOptions& options, const std::string& ns, const std::string& scheduler) {
  if (!options.placement) return true;
  if (options.binding != nullptr) {
    const auto owner = options.binding->of(ns);
    if (owner.explicit_owner) return !owner.ours;
  }
  return scheduler != words::kScheduler;
}

std::vector<const Json*> oldest_first(const std::map<std::string, Json>& objects) {
  std::vector<const Json*> out;
  for (const auto& [uid, object] : objects) out.push_back(&object);
  std::ranges::stable_sort(out, {}, [](const Json* object) { return kube::created_of(*object); });
  return out;
}

bool engine_follows(service::Host& host, const std::string& uid) {
  bool follows = false;
  host.read([&](const service::Shell& shell) {
    const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid));
    follows = w != nullptr && !w->ended();
  });
  return follows;
}

bool is_of_other_namespace(service::Host& host, const std::string& uid, const std::string& ns) {
  bool other = false;
  host.read([&](const service::Shell& shell) {
    const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid));
    other = w != nullptr && w->spec.ns.value() != ns;
  });
  return other;
}

JobWatch::JobWatch(kube::Client& client, service::Host& host, WatchOptions options, const std::string& kind)
    : kind_(*config::workload_kind(kind)),
      options_(options),
      mailbox_(host),
      owners_(options.quota, options.binding),
      // Jobs are served by every cluster.
      informer_(client, kind == "Job" ? kube::Locate([] { return kube::resources::kJobs; }) : locate(client, kind_), "",
                {[this](const Json& job, bool deleted) { changed(job, deleted); }, [this] { synced_list(); }, {}}) {}

JobWatch::~JobWatch() { stop(); }

void JobWatch::start() { informer_.start(); }

void JobWatch::stop() {
  mailbox_.stop();
  informer_.stop();
}

bool JobWatch::taken(const std::string& uid) { return engine_follows(mailbox_.host(), uid); }

void JobWatch::changed(const Json& job, bool deleted) {
  const std::lock_guard lock(mutex_);
  const std::string uid = kube::uid_of(job);
  if (!deleted) return offer(job);
  left_.erase(uid);
  if (options_.observed != nullptr) options_.observed->erase(uid);
  if (known_.erase(uid) == 0) return;
  mailbox_.send("job", Json::object({{"deleted", true}, {"metadata", Json::object({{"uid", uid}})}}).dump(), uid, {},
                service::Urgency::kDeferred);
}

void JobWatch::offer(const Json& job) {
  const std::string uid = kube::uid_of(job), ns = kube::namespace_of(job);
  Json slim = job;  // items of a list have no kind
  if (slim["kind"].string().empty()) {
    slim.set("apiVersion", fmt::format("{}/{}", kind_.group, kind_.versions.front())).set("kind", kind_.kind);
  }
  if (!is_managed(slim)) return;
  slim.set("metadata").erase("managedFields");
  if (options_.checkpoints != nullptr) options_.checkpoints->mark_job(slim);
  const bool wait = !listed_ || !owners_.known();
  if (!known_.contains(uid) && (wait || (!owners_.acts(ns, "job " + kube::name_of(job)) && !taken(uid)))) {
    left_.insert_or_assign(uid, std::move(slim));
    return;
  }
  left_.erase(uid);
  const std::string refusal = options_.pod_defaults == nullptr ? "" : options_.pod_defaults->apply(slim, kind_);
  const auto& classes = slim[kRuntimeClasses];
  if (!refusal.empty()) slim.set(kRefused, refusal);
  if (!refusal.empty() || classes.size() > 0) left_.insert_or_assign(uid, job);  // retried when these change
  std::string print = job_print(slim, options_.pods_ready) + refusal + (classes.size() > 0 ? classes.dump() : "");
  if (options_.observed != nullptr && job.path(kind_.suspend).boolean()) {
    options_.observed->put(job);
  } else if (options_.observed != nullptr) {
    options_.observed->erase(uid);
  }
  auto [it, fresh] = known_.emplace(uid, print);
  if (!fresh && it->second == print) return;
  it->second = std::move(print);
  if (external_scheduler(options_, ns, scheduler_of(job, kind_))) slim.set(kExternalScheduler, true);
  slim.set(kSpecPrint, static_cast<std::int64_t>(spec_print(job, kind_)));
  // An update is a status, or the end of the job: it matters to workloads that are pending.
  mailbox_.send("job", slim.dump(), uid, trace_of(job), fresh ? service::Urgency::kNow : service::Urgency::kDeferred);
}

void JobWatch::offer_left() {
  const auto again = std::exchange(left_, {});
  for (const Json* job : oldest_first(again)) offer(*job);
}

void JobWatch::owners_changed() {
  const std::lock_guard lock(mutex_);
  owners_.renew();
  offer_left();
}

void JobWatch::synced_list() {
  const std::lock_guard lock(mutex_);
  listed_ = true;
  offer_left();
  Json uids = Json::array();
  for (const auto& [uid, print] : known_) uids.push_back(uid);
  for (const auto& [uid, job] : left_) uids.push_back(uid);
  mailbox_.send("job.synced", Json::object({{"kind", kind_.kind}, {"uids", std::move(uids)}}).dump());
}

}  // namespace qm::admission
