#include "qm/admission/watch.hpp"

#include "owners.hpp"
#include "qm/admission/codec.hpp"
#include "qm/admission/translate.hpp"
#include "qm/base/log.hpp"

#include <thread>

namespace qm::admission {

void Mailbox::send(std::string name, std::string bytes, const std::string& key, std::string trace_parent) {
  service::Input input;
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

std::string job_print(const Json& job) {
  const bool suspended = job["spec"]["suspend"].boolean();
  std::string print = suspended ? "suspended" : "running";
  const auto& status = job["status"];
  if (suspended && status["active"].integer() + status["terminating"].integer() > 0) print += "/with-pods";
  print += "/" + kube::annotation(job["spec"]["template"], words::kAttempt);
  for (const auto& c : job.path("status.conditions").items()) {
    if (c["status"].string() == "True") print += "/" + c["type"].string();
  }
  return print;
}

bool others_place(const WatchOptions& options, const std::string& ns, const std::string& scheduler) {
  if (!options.placement) return true;
  if (options.binding != nullptr) {
    const auto owner = options.binding->of(ns);
    if (owner.told) return !owner.ours;
  }
  return scheduler != words::kScheduler;
}

bool engine_follows(service::Host& host, const std::string& uid) {
  bool follows = false;
  host.read([&](const service::Shell& shell) {
    const auto* w = static_cast<const AdmissionShell&>(shell).engine().find(WorkloadUid(uid));
    follows = w != nullptr && !w->ended();
  });
  return follows;
}

JobWatch::JobWatch(kube::Client& client, service::Host& host, WatchOptions options)
    : options_(options),
      mailbox_(host),
      informer_(client, kube::resources::kJobs, "",
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
  if (known_.erase(uid) == 0) return;
  mailbox_.send("job", Json::object({{"deleted", true}, {"metadata", Json::object({{"uid", uid}})}}).dump(), uid);
}

void JobWatch::offer(const Json& job) {
  const std::string uid = kube::uid_of(job), ns = kube::namespace_of(job);
  if (!is_ours(job)) return;
  Json slim = job;
  slim.set("metadata").erase("managedFields");
  if (options_.checkpoints != nullptr) options_.checkpoints->mark_job(slim);
  const bool wait = options_.binding != nullptr && !options_.binding->known();
  const auto ours = [&] { return options_.quota == nullptr || options_.quota->acts(ns, "job " + kube::name_of(job)); };
  if (!known_.contains(uid) && (wait || (!ours() && !taken(uid)))) {
    left_.insert_or_assign(uid, std::move(slim));
    return;
  }
  left_.erase(uid);
  std::string print = job_print(job);
  auto [it, fresh] = known_.emplace(uid, print);
  if (!fresh && it->second == print) return;
  it->second = std::move(print);
  const auto& scheduler = job["spec"]["template"]["spec"]["schedulerName"].string();
  if (others_place(options_, ns, scheduler)) slim.set(kOthersPlace, true);
  mailbox_.send("job", slim.dump(), uid, trace_of(job));
}

void JobWatch::owners_changed() {
  const std::lock_guard lock(mutex_);
  const auto again = std::exchange(left_, {});
  for (const auto& [uid, job] : again) offer(job);
}

void JobWatch::synced_list() {
  const std::lock_guard lock(mutex_);
  Json uids = Json::array();
  for (const auto& [uid, print] : known_) uids.push_back(uid);
  for (const auto& [uid, job] : left_) uids.push_back(uid);
  mailbox_.send("job.synced", uids.dump());
}

}  // namespace qm::admission
