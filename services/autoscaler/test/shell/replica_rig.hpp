#pragma once
// A scripted cluster with scale subresources, scalers, pods and metrics, and a scripted Prometheus.
#include "qm/autoscaler/api.hpp"
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/http/http.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace qm::autoscaler::testing {

inline Json json(const std::string& text) {
  auto out = Json::parse(text);
  EXPECT_TRUE(out) << text;
  return std::move(out).value_or(Json());
}

/// One Deployment team/web; objects of other paths are as set.
class ScaleApi {
 public:
  ScaleApi() : server_({}, [this](const http::Request& r) { return answer(r); }) { EXPECT_TRUE(server_.start()); }
  ~ScaleApi() { server_.stop(); }
  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }

  void set(const std::string& path, Json object) {
    const std::scoped_lock lock(mutex_);
    objects_[path] = std::move(object);
  }
  Json get(const std::string& path) {
    const std::scoped_lock lock(mutex_);
    return objects_[path];
  }
  void deployment(int replicas, const std::string& annotation = {}, const std::string& uid = "uid-1") {
    const std::scoped_lock lock(mutex_);
    auto metadata = Json::object({{"name", "web"}, {"namespace", "team"}, {"uid", uid}});
    if (!annotation.empty()) metadata.set("annotations", Json::object({{kReplicasAnnotation.data(), annotation}}));
    objects_[kDeployment] = Json::object({{"apiVersion", "apps/v1"}, {"kind", "Deployment"}, {"metadata", metadata}});
    scale_ = replicas;
    ++version_;
  }
  [[nodiscard]] int replicas() {
    const std::scoped_lock lock(mutex_);
    return scale_;
  }
  int conflicts = 0;  ///< writes that are refused with a conflict
  int writes = 0;

  static constexpr const char* kDeployment = "/apis/apps/v1/namespaces/team/deployments/web";
  static constexpr const char* kHpas = "/apis/autoscaling/v2/horizontalpodautoscalers";

 private:
  http::Answer answer(const http::Request& r) {
    const std::scoped_lock lock(mutex_);
    const auto refuse = [](int code, const char* reason) {
      return http::json(code, Json::object({{"kind", "Status"}, {"reason", reason}, {"message", reason}}).dump());
    };
    const auto path = r.path();
    if (path == "/apis") {
      return http::json(
          200, R"({"groups":[{"name":"apps","versions":[{"version":"v1"}],"preferredVersion":{"version":"v1"}}]})");
    }
    if (path == "/apis/apps/v1") {
      return http::json(200, R"({"resources":[{"name":"deployments","namespaced":true}]})");
    }
    if (path == std::string(kDeployment) + "/scale") {
      if (!objects_.contains(kDeployment)) return refuse(404, "NotFound");
      if (r.method == "PATCH") {
        const auto patch = *Json::parse(r.body);
        const bool stale = patch["metadata"]["resourceVersion"].string() != std::to_string(version_);
        if (stale || conflicts > 0) {
          --conflicts;
          return refuse(409, "Conflict");
        }
        scale_ = static_cast<int>(patch["spec"]["replicas"].integer());
        ++writes;
        ++version_;
      }
      return http::json(200, Json::object({{"metadata", Json::object({{"resourceVersion", std::to_string(version_)}})},
                                           {"spec", Json::object({{"replicas", scale_}})},
                                           {"status", Json::object({{"replicas", scale_}, {"selector", "app=web"}})}})
                                 .dump());
    }
    // A watch has each object once, as it is now.
    if (const auto watch = r.query()["watch"]; watch == "true" || watch == "1") {
      std::string lines;
      for (const auto& [at, object] : objects_) {
        if (path == kHpas && at.find("/horizontalpodautoscalers/") != std::string::npos) {
          lines += Json::object({{"type", "MODIFIED"}, {"object", object}}).dump() + "\n";
        }
      }
      return http::json(200, lines);
    }
    const auto found = objects_.find(path);
    if (found == objects_.end()) return refuse(404, "NotFound");
    if (r.method == "PUT") {
      found->second = *Json::parse(r.body);
      found->second.set("metadata").set("resourceVersion", std::to_string(100 + ++version_));
    }
    return http::json(200, found->second.dump());
  }
  std::mutex mutex_;
  std::map<std::string, Json> objects_;
  int scale_ = 0, version_ = 1;
  http::Server server_;
};

/// Answers instant queries.
class FakePrometheus {
 public:
  FakePrometheus() : server_({}, [this](const http::Request& r) { return answer(r); }) { EXPECT_TRUE(server_.start()); }
  ~FakePrometheus() { server_.stop(); }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()) + "/prom/"; }
  /// The elements of the vector: labels as JSON, and the value.
  void answers(const std::string& expression, const std::vector<std::pair<std::string, std::string>>& elements) {
    auto result = Json::array();
    for (const auto& [labels, value] : elements) {
      result.push_back(Json::object({{"metric", json(labels)}, {"value", Json::array({1.0, value})}}));
    }
    const std::scoped_lock lock(mutex_);
    results_[expression] = std::move(result);
  }
  int status = 200;
  std::vector<std::string> asked() {
    const std::scoped_lock lock(mutex_);
    return asked_;
  }

 private:
  http::Answer answer(const http::Request& r) {
    const std::scoped_lock lock(mutex_);
    const auto expression = r.query()["query"];
    asked_.push_back(expression);
    if (status != 200) return http::json(status, R"({"status":"error","error":"planted"})");
    const auto found = results_.find(expression);
    const auto result = found == results_.end() ? Json::array() : found->second;
    return http::json(200, Json::object({{"status", "success"},
                                         {"data", Json::object({{"resultType", "vector"}, {"result", result}})}})
                               .dump());
  }
  std::mutex mutex_;
  std::map<std::string, Json> results_;
  std::vector<std::string> asked_;
  http::Server server_;
};

/// The service on a memory host, with its executor and watches, at a second between syncs.
struct ReplicaService {
  kube::Client& client;
  std::string prometheus;
  cloud::Aws aws{{}};
  SystemClock clock;
  Executor executor{client, aws, Driver::kKarpenter, "east"};
  std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
  std::unique_ptr<service::Host> host;
  std::unique_ptr<ReplicaWatch> watch;

  ReplicaService(kube::Client& api, std::string url) : client(api), prometheus(std::move(url)) {}
  ~ReplicaService() {
    watch.reset();
    if (host) host->stop();
  }
  void open() {
    Options options;
    options.replicas.sync = std::chrono::seconds(1);
    static std::atomic<int> serial = 0;
    host = std::make_unique<service::Host>(
        host_options("east"), std::make_unique<Shell>(std::make_unique<Engine>(catalog_types(), options), Codec{}),
        store::open_memory(disk), *bus::make_bus(fmt::format("memory:replicas-{}", ++serial)), clock, &executor);
    ASSERT_TRUE(host->open());
  }
  void start() {
    open();
    host->start();
    ReplicaWatch::Options chosen;
    chosen.sources.prometheus = prometheus;
    chosen.period = std::chrono::seconds(1);
    watch = std::make_unique<ReplicaWatch>(client, *host, clock, chosen);
    watch->start();
  }
  quartermaster::v1::EvaluateScaleResponse evaluation(const rpc::Caller& caller = rpc::Caller::anyone()) {
    quartermaster::v1::EvaluateScaleResponse out;
    host->read([&](const service::Shell& shell) { out = scale_for(engine_of(shell), clock.now(), {}, caller); });
    return out;
  }
  std::uint64_t digest() {
    std::uint64_t out = 0;
    host->read([&](const service::Shell& shell) { out = shell.digest(); });
    return out;
  }
};

/// A HorizontalPodAutoscaler team/NAME of the Deployment web with these metrics.
inline Json hpa_object(const std::string& name, const std::string& metrics) {
  return json(fmt::format(
      R"({{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{{"name":"{}","namespace":"team","uid":"uid-{}","resourceVersion":"5","creationTimestamp":"2026-11-01T00:00:00Z"}},"spec":{{"minReplicas":1,"maxReplicas":20,"scaleTargetRef":{{"apiVersion":"apps/v1","kind":"Deployment","name":"web"}},"metrics":[{}]}}}})",
      name, name, metrics));
}
inline const std::string kQueueMetric =
    R"({"type":"External","external":{"metric":{"name":"vllm:num_requests_waiting","selector":{"matchLabels":{"model":"a"}}},"target":{"type":"AverageValue","averageValue":"5"}}})";
inline constexpr const char* kQueueExpression = R"(vllm:num_requests_waiting{namespace="team",model=~"a"})";

}  // namespace qm::autoscaler::testing
