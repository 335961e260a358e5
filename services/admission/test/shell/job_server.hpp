#pragma once
#include "qm/base/wake.hpp"
#include "qm/config/manifest.hpp"
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"
#include "qm/testing/queue_manifest.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace qm::admission::testing {

/// The part of the Kubernetes API that admission uses: Jobs, pods and the kinds of `serve` with resource versions,
/// list and watch, merge patches, the status subresource and deletes with a uid precondition. Events are stored only.
class JobServer {
 public:
  JobServer() : server_({}, [this](const http::Request& r) { return answer(r); }) {
    const auto started = server_.start();
    EXPECT_TRUE(started) << (started ? "" : started.error().to_string());
  }
  ~JobServer() {
    close_watches();
    server_.stop();
  }
  /// Closes every watch, as a restart of the server would.
  void close_watches() {
    const std::lock_guard lock(mutex_);
    for (auto& [plural, stream] : watches_) stream->close();
    watches_.clear();
  }
  /// Responds this long after a request, from now on.
  void respond_after(SteadyDuration time) { latency_ = time; }
  /// Whether a watch of this kind exists: it receives all later changes.
  bool watched(const std::string& plural) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(watches_, [&](const auto& one) { return one.first == plural; });
  }
  void remove(const std::string& path) {
    const std::lock_guard lock(mutex_);
    auto it = jobs_.find(path);
    if (it == jobs_.end()) return;
    ++version_;
    tell("DELETED", it->second);
    jobs_.erase(it);
  }
  /// Deletes without a watch event, like a change while no watch is open.
  void remove_silently(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ++version_;
    jobs_.erase(path);
  }

  [[nodiscard]] kube::ClientOptions client() const {
    kube::ClientOptions options;
    options.server = "http://127.0.0.1:" + std::to_string(server_.port());
    return options;
  }
  /// Serves a kind that discovery lists, like a custom resource.
  void serve(const std::string& group, const std::string& version, const std::string& plural) {
    const std::lock_guard lock(mutex_);
    served_.push_back({group, version, plural});
  }
  Json put(Json job) {
    const std::lock_guard lock(mutex_);
    return put_locked(std::move(job));
  }
  Json get(const std::string& path) {
    const std::lock_guard lock(mutex_);
    auto it = jobs_.find(path);
    return it == jobs_.end() ? Json() : it->second;
  }
  std::vector<Json> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  int writes() {
    const std::lock_guard lock(mutex_);
    return writes_;
  }
  /// Requests for one object.
  int reads() {
    const std::lock_guard lock(mutex_);
    return reads_;
  }
  /// The next request fails with this status.
  void fail_next(int status) {
    const std::lock_guard lock(mutex_);
    fail_ = status;
  }
  /// Every write fails with this status; 0 = writes succeed.
  void refuse_writes(int status, std::string reason = {}, std::string message = {}) {
    const std::lock_guard lock(mutex_);
    refused_ = {status, std::move(reason), std::move(message)};
  }

 private:
  static http::Answer status(int code, const std::string& reason, const std::string& message = {}) {
    return http::json(
        code,
        Json::object(
            {{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message.empty() ? reason : message}})
            .dump());
  }
  void tell(const char* type, const Json& job) {
    for (auto& [plural, stream] : watches_) {
      if (plural == plural_of(job)) stream->write(Json::object({{"type", type}, {"object", job}}).dump() + "\n");
    }
  }
  /// /apis lists the groups, /apis/GROUP/VERSION the kinds.
  http::Answer discover(const std::vector<std::string>& parts) {
    Json groups = Json::array(), resources = Json::array();
    for (const auto& one : served_) {
      const Json version = Json::object({{"version", one.version}});
      groups.push_back(Json::object({{"name", one.group}, {"versions", Json::array({version})}}));
      if (parts.size() < 2 || one.group != parts[1]) continue;
      resources.push_back(Json::object({{"name", one.plural}, {"namespaced", true}}));
    }
    return http::json(200, Json::object({{"groups", groups}, {"resources", resources}}).dump());
  }
  static std::string plural_of(const Json& job) {
    std::string plural = job["kind"].string();
    plural += plural.ends_with("s") ? "es" : "s";
    std::ranges::transform(plural, plural.begin(), [](unsigned char c) { return std::tolower(c); });
    return plural;
  }
  http::Answer list_or_watch(const http::Request& request) {
    if (request.query()["watch"].empty()) {
      Json items = Json::array();
      for (const auto& [path, job] : jobs_) {
        if (plural_of(job) == request.path().substr(request.path().rfind('/') + 1)) items.push_back(job);
      }
      return http::json(200, Json::object({{"kind", "JobList"},
                                           {"apiVersion", "batch/v1"},
                                           {"metadata", Json::object({{"resourceVersion", std::to_string(version_)}})},
                                           {"items", items}})
                                 .dump());
    }
    // A watch from an expired version fails, and its client lists again.
    if (request.query()["resourceVersion"] != std::to_string(version_)) return status(410, "Expired");
    const auto plural = request.path().substr(request.path().rfind('/') + 1);
    return {http::json(200, ""), [this, plural, from = version_](std::shared_ptr<http::Stream> stream) {
              const std::lock_guard lock(mutex_);
              // Changes between the response and this point would be lost: close it, so that the client lists again.
              if (version_ != from) return stream->close();
              watches_.emplace_back(plural, std::move(stream));
            }};
  }
  Json put_locked(Json job) {
    const std::string path = job.path("metadata.namespace").string() + "/" + job.path("metadata.name").string();
    job.set("metadata").set("resourceVersion", std::to_string(++version_));
    tell(jobs_.contains(path) ? "MODIFIED" : "ADDED", job);
    jobs_[job.path("metadata.namespace").string() + "/" + job.path("metadata.name").string()] = job;
    return job;
  }
  http::Answer answer(const http::Request& request) {
    if (const auto latency = latency_.load(); latency > latency.zero()) sleep_unless_stopped(latency, {});
    const std::lock_guard lock(mutex_);
    if (fail_ != 0) return status(std::exchange(fail_, 0), "InternalError");
    if (refused_.status != 0 && request.method != "GET")
      return status(refused_.status, refused_.reason, refused_.message);
    const std::string path = request.path();
    if (path.find("/events") != std::string::npos) {
      events_.push_back(*Json::parse(request.body));
      return http::json(201, request.body);
    }
    // /apis/batch/v1/namespaces/NS/jobs[/NAME[/status]]
    std::vector<std::string> parts;
    for (std::size_t at = 1; at < path.size();) {
      auto end = path.find('/', at);
      if (end == std::string::npos) end = path.size();
      parts.push_back(path.substr(at, end - at));
      at = end + 1;
    }
    if (parts.front() == "apis" && parts.size() < 4) return discover(parts);
    if (parts.front() == "api") parts.insert(parts.begin(), "apis");  // the core group has no name
    if (parts.size() < 6 || (parts.size() == 6 && request.method == "GET")) return list_or_watch(request);
    const std::string ns = parts.at(4);
    if (request.method == "POST") {
      Json job = *Json::parse(request.body);
      const std::string name = job.path("metadata.name").string();
      if (jobs_.contains(ns + "/" + name)) return status(409, "AlreadyExists");
      if (request.query()["dryRun"] == "All") return http::json(201, request.body);
      job.set("metadata").set("uid", "uid-" + name);
      job.set("metadata").set("creationTimestamp", "2026-01-01T00:00:00Z");
      ++writes_;
      return http::json(201, put_locked(std::move(job)).dump());
    }
    auto it = jobs_.find(ns + "/" + parts.at(6));
    if (it == jobs_.end()) return status(404, "NotFound");
    if (request.method == "GET") {
      ++reads_;
      return http::json(200, it->second.dump());
    }
    const Json body = request.body.empty() ? Json() : *Json::parse(request.body);
    if (request.method == "DELETE") {
      const auto& uid = body.path("preconditions.uid").string();
      if (!uid.empty() && uid != it->second.path("metadata.uid").string()) return status(409, "Conflict");
      tell("DELETED", it->second);
      jobs_.erase(it);
      ++writes_;
      return http::json(200, "{}");
    }
    Json job = it->second;
    const auto& version = body.path("metadata.resourceVersion").string();
    if (!version.empty() && version != job.path("metadata.resourceVersion").string()) return status(409, "Conflict");
    // As in the real API server: the template of a job that has started is immutable.
    if (!body.path("spec.template").is_null() && !job.path("status.startTime").is_null()) return status(422, "Invalid");
    job.merge_patch(body);
    ++writes_;
    return http::json(200, put_locked(std::move(job)).dump());
  }

  struct Refused {
    int status = 0;
    std::string reason, message;
  };

  std::mutex mutex_;
  Refused refused_;
  std::map<std::string, Json> jobs_;
  std::vector<Json> events_;
  std::vector<std::pair<std::string, std::shared_ptr<http::Stream>>> watches_;  ///< by plural
  struct Served {
    std::string group, version, plural;
  };
  std::vector<Served> served_;
  std::atomic<SteadyDuration> latency_{SteadyDuration::zero()};
  int version_ = 0, writes_ = 0, reads_ = 0, fail_ = 0;
  http::Server server_;
};

inline Json make_job(const std::string& ns, const std::string& name, const std::string& queue, int gpus, int pods = 1) {
  const std::string text = R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":")" + ns + R"(","name":")" +
                           name + R"(","uid":"uid-)" + name + R"(","creationTimestamp":"2026-01-01T00:00:00Z",
    "labels":{"kueue.x-k8s.io/queue-name":")" +
                           queue + R"("}},
    "spec":{"suspend":true,"completionMode":"Indexed","parallelism":)" +
                           std::to_string(pods) + R"(,"completions":)" + std::to_string(pods) +
                           R"(,"template":{"metadata":{"annotations":{}},"spec":{"schedulerName":"quartermaster",
      "restartPolicy":"Never","containers":[{"name":"main","image":"x",
        "resources":{"requests":{"nvidia.com/gpu":")" +
                           std::to_string(gpus) + R"("},"limits":{"nvidia.com/gpu":")" + std::to_string(gpus) +
                           R"("}}}]}}}})";
  return *Json::parse(text);
}

/// A queue of eight GPUs, whose pods get a node selector and a toleration.
inline const std::string kQueues =
    qm::testing::yaml_of({.flavor = "h100",
                          .flavor_spec = "  nodeLabels: {model: h100}\n  tolerations: [{key: gpu, operator: Exists}]\n",
                          .quota = {{"nvidia.com/gpu", 8}}});

/// kQueues as a watch delivers them: one object each, as JSON.
inline std::vector<std::string> queue_objects() {
  std::vector<std::string> out;
  for (const auto& object : config::load_text(kQueues, "queues.yaml").objects)
    out.push_back(object.document.content.dump());
  return out;
}

}  // namespace qm::admission::testing
