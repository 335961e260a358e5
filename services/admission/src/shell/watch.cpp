#include "qm/admission/watch.hpp"

#include "qm/admission/translate.hpp"
#include "qm/base/log.hpp"

#include <thread>

namespace qm::admission {

std::string job_print(const Json& job) {
  std::string print = job["spec"]["suspend"].boolean() ? "suspended" : "running";
  print += "/" + kube::annotation(job["spec"]["template"], words::kAttempt);
  for (const auto& c : job.path("status.conditions").items()) {
    if (c["status"].string() == "True") print += "/" + c["type"].string();
  }
  return print;
}

JobWatch::JobWatch(kube::Client& client, service::Host& host)
    : host_(host),
      informer_(client, kube::resources::kJobs, "",
                {[this](const Json& job, bool deleted) { changed(job, deleted); }, [this] { synced_list(); }}) {}

JobWatch::~JobWatch() { stop(); }

void JobWatch::start() { informer_.start(); }

void JobWatch::stop() {
  stopping_ = true;
  informer_.stop();
}

void JobWatch::send(std::string name, std::string bytes, const std::string& uid, std::string trace_parent) {
  service::Input input;
  input.source = service::Source::kWatch;
  input.name = std::move(name);
  input.bytes = std::move(bytes);
  input.key = uid;
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

void JobWatch::changed(const Json& job, bool deleted) {
  const std::string uid = kube::uid_of(job);
  if (deleted) {
    if (known_.erase(uid) == 0) return;
    send("job", Json::object({{"deleted", true}, {"metadata", Json::object({{"uid", uid}})}}).dump(), uid);
    return;
  }
  if (!is_ours(job)) return;
  std::string print = job_print(job);
  auto [it, fresh] = known_.emplace(uid, print);
  if (!fresh && it->second == print) return;
  it->second = std::move(print);
  Json slim = job;
  slim.set("metadata").erase("managedFields");
  send("job", slim.dump(), uid, trace_of(job));
}

void JobWatch::synced_list() {
  Json uids = Json::array();
  for (const auto& [uid, print] : known_) uids.push_back(uid);
  send("job.synced", uids.dump());
}

}  // namespace qm::admission
