#pragma once
#include "qm/http/http.hpp"
#include "qm/kube/client.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace qm::placement::testing {

/// The part of the Kubernetes API that placement uses: nodes and pods with list and watch, binding,
/// deletion with a uid precondition, merge patches with an optional resourceVersion. A bound pod runs at
/// once. A deleted pod is removed at once, unless `linger` is set: then it stays with a deletionTimestamp.
class LittleKube {
 public:
  LittleKube() : server_({}, [this](const http::Request& r) { return answer(r); }) { EXPECT_TRUE(server_.start()); }
  ~LittleKube() {
    cut_watches();
    server_.stop();
  }
  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }

  void put(const std::string& path, Json object) {
    const std::scoped_lock lock(mutex_);
    store(path, std::move(object));
  }
  void erase(const std::string& path, bool silently = false) {
    const std::scoped_lock lock(mutex_);
    erase_locked(path, silently);
  }
  Json get(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    const auto it = objects_.find(path);
    return it == objects_.end() ? Json() : it->second;
  }
  void cut_watches() {
    const std::scoped_lock lock(mutex_);
    for (auto& watch : watches_) watch.stream->close();
    watches_.clear();
  }
  /// The next call with this method gets this status instead; with `done` the call is executed first.
  void fail_next(const std::string& method, int status, const std::string& reason, bool done = false) {
    const std::scoped_lock lock(mutex_);
    failures_[method] = {status, reason, done};
  }
  /// The same with a given message.
  void refuse_next(const std::string& method, int status, const std::string& reason, const std::string& message) {
    const std::scoped_lock lock(mutex_);
    failures_[method] = {status, reason, false, message};
  }
  [[nodiscard]] int calls(const std::string& method) {
    const std::scoped_lock lock(mutex_);
    return calls_[method];
  }
  /// The number of open watches; each was requested after its list was sent.
  [[nodiscard]] std::size_t watches() {
    const std::scoped_lock lock(mutex_);
    return watches_.size();
  }
  bool linger = false;
  bool budget = false;   ///< a disruption budget forbids every eviction
  bool storage = false;  ///< claims, volumes, classes and CSINodes can be listed too

 private:
  struct Watch {
    std::string under;
    std::shared_ptr<http::Stream> stream;
  };
  struct Sent {
    long long version = 0;
    std::string under, line;
  };
  struct Failure {
    int status = 0;
    std::string reason;
    bool done = false;
    std::string message = {};
  };

  static http::Response refuse(int code, const std::string& reason, const std::string& message = {}) {
    return http::json(
        code,
        Json::object(
            {{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message.empty() ? reason : message}})
            .dump());
  }
  static std::string under_of(const std::string& path) {
    const auto name = path.rfind('/');
    const auto under = path.rfind('/', name - 1) + 1;
    return path.substr(under, name - under);
  }
  [[nodiscard]] bool lists(const std::string& path) const {
    if (path == "/api/v1/pods" || path == "/api/v1/nodes" || path == "/api/v1/namespaces") return true;
    return storage && (path == "/api/v1/persistentvolumeclaims" || path == "/api/v1/persistentvolumes" ||
                       path == "/apis/storage.k8s.io/v1/storageclasses" || path == "/apis/storage.k8s.io/v1/csinodes");
  }
  void tell(const std::string& type, const std::string& path, const Json& object) {
    const std::string line = Json::object({{"type", type}, {"object", object}}).dump() + "\n";
    sent_.push_back({version_, under_of(path), line});
    for (auto& watch : watches_) {
      if (watch.under == under_of(path)) watch.stream->write(line);
    }
  }
  void store(const std::string& path, Json object) {
    const bool fresh = !objects_.contains(path);
    object.set("metadata").set("resourceVersion", std::to_string(++version_));
    objects_[path] = object;
    tell(fresh ? "ADDED" : "MODIFIED", path, object);
  }
  void erase_locked(const std::string& path, bool silently) {
    const auto it = objects_.find(path);
    if (it == objects_.end()) return;
    Json last = it->second;
    last.set("metadata").set("resourceVersion", std::to_string(++version_));
    objects_.erase(it);
    if (!silently) tell("DELETED", path, last);
  }

  http::Answer answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    ++calls_[request.method];
    const auto failure = failures_.find(request.method);
    if (failure == failures_.end()) return serve(request);
    const Failure how = failure->second;
    failures_.erase(failure);
    if (how.done) (void)serve(request);
    return refuse(how.status, how.reason, how.message);
  }

  http::Answer serve(const http::Request& request) {
    std::string path = request.path();
    const auto query = request.query();
    if (lists(path)) {
      const std::string under = path.substr(path.rfind('/') + 1);
      if (!query.contains("watch")) {
        Json items = Json::array();
        for (const auto& [key, object] : objects_) {
          if (under_of(key) == under) items.push_back(object);
        }
        return http::json(200,
                          Json::object({{"kind", "List"},
                                        {"metadata", Json::object({{"resourceVersion", std::to_string(version_)}})},
                                        {"items", items}})
                              .dump());
      }
      const auto from = std::stoll(query.at("resourceVersion"));
      return http::Answer(http::json(200, ""), [this, under, from](std::shared_ptr<http::Stream> stream) {
        const std::scoped_lock inner(mutex_);
        for (const Sent& sent : sent_) {
          if (sent.under == under && sent.version > from) stream->write(sent.line);
        }
        watches_.push_back({under, std::move(stream)});
      });
    }
    const bool binding = path.ends_with("/binding"), eviction = path.ends_with("/eviction");
    if (binding) path.resize(path.size() - 8);
    if (eviction) path.resize(path.size() - 9);
    if (path.ends_with("/status")) path.resize(path.size() - 7);
    const auto it = objects_.find(path);
    if (it == objects_.end()) return refuse(404, "NotFound");
    if (request.method == "GET") return http::json(200, it->second.dump());
    const Json body = request.body.empty() ? Json() : Json::parse(request.body).value();
    Json object = it->second;
    if (binding) {
      const std::string uid = body.path("metadata.uid").string();
      if (!object.path("spec.nodeName").string().empty() || (!uid.empty() && uid != kube::uid_of(object))) {
        return refuse(409, "Conflict");
      }
      object.set("spec").set("nodeName", body.path("target.name"));
      for (const auto& [key, value] : body.path("metadata.annotations").members()) {
        object.set("metadata").set("annotations").set(key, value);
      }
      object.set("status").set("phase", "Running");
      store(path, std::move(object));
      return http::json(201, Json::object({{"kind", "Status"}, {"status", "Success"}}).dump());
    }
    if (eviction) {
      const std::string uid = body.path("deleteOptions.preconditions.uid").string();
      if (!uid.empty() && uid != kube::uid_of(object)) return refuse(409, "Conflict");
      if (budget) return refuse(429, "TooManyRequests");
      erase_locked(path, false);
      return http::json(201, Json::object({{"kind", "Status"}, {"status", "Success"}}).dump());
    }
    if (request.method == "PATCH") {
      const std::string version = body.path("metadata.resourceVersion").string();
      if (!version.empty() && version != kube::resource_version_of(object)) return refuse(409, "Conflict");
      object.merge_patch(body);
      store(path, object);
      return http::json(200, objects_.at(path).dump());
    }
    if (request.method == "DELETE") {
      const std::string uid = body.path("preconditions.uid").string();
      if (!uid.empty() && uid != kube::uid_of(object)) return refuse(409, "Conflict");
      if (linger) {
        object.set("metadata").set("deletionTimestamp", "2026-11-21T09:14:29Z");
        object.set("metadata").set("deletionGracePeriodSeconds", body["gracePeriodSeconds"]);
        store(path, std::move(object));
      } else {
        erase_locked(path, false);
      }
      return http::json(200, Json::object({{"kind", "Status"}, {"status", "Success"}}).dump());
    }
    return refuse(405, "MethodNotAllowed");
  }

  std::mutex mutex_;
  std::map<std::string, Json> objects_;
  std::vector<Watch> watches_;
  std::vector<Sent> sent_;  ///< all changes, for watches that begin later
  std::map<std::string, Failure> failures_;
  std::map<std::string, int> calls_;
  long long version_ = 100;
  http::Server server_;
};

inline std::string node_path(const std::string& name) { return "/api/v1/nodes/" + name; }
inline std::string pod_path(const std::string& name) { return "/api/v1/namespaces/team/pods/" + name; }

inline Json make_node(const std::string& name, int gpus) {
  return Json::parse(fmt::format(R"({{"kind":"Node","apiVersion":"v1",
    "metadata":{{"name":"{0}","uid":"node-{0}","labels":{{"node.kubernetes.io/instance-type":"p5.48xlarge",
      "topology.kubernetes.io/zone":"us-east-1a","karpenter.sh/capacity-type":"spot",
      "nvidia.com/gpu.product":"NVIDIA-H100-80GB-HBM3","nvidia.com/gpu.count":"8"}}}},
    "spec":{{"providerID":"aws:///us-east-1a/i-0{0}","taints":[{{"key":"nvidia.com/gpu","value":"true","effect":"NoSchedule"}}]}},
    "status":{{"allocatable":{{"cpu":"190","memory":"2000Gi","nvidia.com/gpu":"{1}","pods":"110","ephemeral-storage":"100Gi"}},
      "conditions":[{{"type":"MemoryPressure","status":"False"}},{{"type":"Ready","status":"True"}}]}}}})",
                                 name, gpus))
      .value();
}

inline Json make_pod(const std::string& name, const std::string& owner, int attempt, int index, int gpus) {
  return Json::parse(fmt::format(R"({{"kind":"Pod","apiVersion":"v1",
    "metadata":{{"name":"{0}","namespace":"team","uid":"uid-{0}",
      "ownerReferences":[{{"apiVersion":"batch/v1","kind":"Job","name":"j","uid":"{1}","controller":true}}],
      "annotations":{{"quartermaster.dev/attempt":"{2}","batch.kubernetes.io/job-completion-index":"{3}"}}}},
    "spec":{{"schedulerName":"quartermaster","containers":[{{"name":"main","image":"busybox",
      "resources":{{"requests":{{"cpu":"2","memory":"4Gi"}},"limits":{{"nvidia.com/gpu":"{4}"}}}}}}]}},
    "status":{{"phase":"Pending"}}}})",
                                 name, owner, attempt, index, gpus))
      .value();
}

}  // namespace qm::placement::testing
