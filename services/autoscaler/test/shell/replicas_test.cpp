// Replicas in the shell: intents, sources of metrics, the metrics APIs, rows, and the whole way from a watch to a scale.
#include "qm/autoscaler/metrics_api.hpp"
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/scalers.hpp"
#include "qm/testing/manifests.hpp"
#include "qm/testing/testing.hpp"
#include "test/shell/replica_rig.hpp"

namespace qm::autoscaler {
namespace replicas_test {

using namespace autoscaler::testing;

constexpr const char* kHpaPath = "/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers/web";

/// The object without its version.
Json written(Json object) {
  object.set("metadata").erase("resourceVersion");
  return object;
}

store::IntentRow scale_intent(int from, int to, const std::string& uid = "uid-1") {
  return {"replicas/team/Deployment.apps/web/uid-1/7", "replicas.scale", "replicas/team/Deployment.apps/web", 0,
          Json::object({{"namespace", "team"},
                        {"group", "apps"},
                        {"kind", "Deployment"},
                        {"name", "web"},
                        {"api_version", "apps/v1"},
                        {"uid", uid},
                        {"from", from},
                        {"to", to},
                        {"number", 7}})
              .dump()};
}

struct ScaleRig {
  ScaleApi api;
  kube::Client client{{api.origin(), {}, {}, {}, {}}};
  ReplicaExecutor executor{client};

  std::string error_of(const store::IntentRow& intent) {
    const auto done = executor.execute(intent);
    EXPECT_TRUE(done) << done.error().to_string();
    return done ? json(done->bytes)["error"].string() : std::string();
  }
};

TEST(ReplicaExecution, SetsTheNumberOnceHoweverOftenItIsRepeated) {
  ScaleRig rig;
  rig.api.deployment(4);
  EXPECT_EQ(rig.error_of(scale_intent(4, 8)), "");
  EXPECT_EQ(rig.error_of(scale_intent(4, 8)), "");
  EXPECT_EQ(rig.api.replicas(), 8);
  EXPECT_EQ(rig.api.writes, 1);
}

TEST(ReplicaExecution, SurvivesACrashBeforeItsWrite) {
  struct Death {};
  ScaleRig rig;
  rig.api.deployment(4);
  arm_crash_point("autoscaler.before_scale", 1, [](std::string_view) { throw Death{}; });
  EXPECT_THROW((void)rig.executor.execute(scale_intent(4, 8)), Death);
  disarm_crash_points();
  EXPECT_EQ(rig.api.replicas(), 4);
  EXPECT_EQ(rig.error_of(scale_intent(4, 8)), "");
  EXPECT_EQ(rig.api.replicas(), 8);
}

TEST(ReplicaExecution, DoesNotOverwriteTheNumberOfAnotherClient) {
  ScaleRig rig;
  rig.api.deployment(5);
  EXPECT_EQ(rig.error_of(scale_intent(4, 8)), "the target has 5 replicas and not 4: another client changed them");
  EXPECT_EQ(rig.error_of(scale_intent(5, 8, "uid-0")), "the target was created again");
  EXPECT_EQ(rig.api.replicas(), 5);
  ScaleRig empty;
  EXPECT_NE(empty.error_of(scale_intent(4, 8)), "") << "there is no such Deployment";
}

TEST(ReplicaExecution, ReadsAgainAfterAConflict) {
  ScaleRig rig;
  rig.api.deployment(4);
  rig.api.conflicts = 2;
  EXPECT_EQ(rig.error_of(scale_intent(4, 8)), "");
  EXPECT_EQ(rig.api.replicas(), 8);
  rig.api.conflicts = 99;
  const auto again = rig.executor.execute(scale_intent(8, 9));
  ASSERT_FALSE(again);
  EXPECT_TRUE(again.error().retryable());
}

TEST(ReplicaExecution, SuspendsAScalerAndGivesItBack) {
  ScaleRig rig;
  const Json original = hpa_object("web", kQueueMetric);
  rig.api.set(kHpaPath, original);
  const auto intent = [](bool suspend, const char* uid) {
    return store::IntentRow{"s", "replicas.switch", "s", 0,
                            Json::object({{"namespace", "team"},
                                          {"kind", "HorizontalPodAutoscaler"},
                                          {"name", "web"},
                                          {"uid", uid},
                                          {"suspend", suspend}})
                                .dump()};
  };
  ASSERT_TRUE(rig.executor.execute(intent(true, "another")));
  EXPECT_FALSE(is_suspended(rig.api.get(kHpaPath))) << "an object of the same name";
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(rig.executor.execute(intent(true, "uid-web")));
  EXPECT_TRUE(is_suspended(rig.api.get(kHpaPath)));
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(rig.executor.execute(intent(false, "uid-web")));
  EXPECT_EQ(written(rig.api.get(kHpaPath)), written(original));
}

TEST(ReplicaScalers, ARowHasWhatItsUserWroteAndNoStatus) {
  const ScalerId id{ScalerKind::kHpa, "team", "web"};
  Json object = hpa_object("web", kQueueMetric);
  const auto plain = watched_scaler(id, object);
  EXPECT_EQ(plain.row.target, (TargetId{"team", "apps", "Deployment", "web"}));
  EXPECT_FALSE(plain.pods);
  object.set("status").set("currentReplicas", 4);
  EXPECT_EQ(watched_scaler(id, object).row, plain.row);
  const auto off = watched_scaler(id, suspended(object));
  EXPECT_TRUE(off.row.suspended);
  EXPECT_EQ(off.row.manifest, plain.row.manifest);
  const auto by_pods = watched_scaler(
      id,
      hpa_object(
          "web",
          R"({"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}})"));
  EXPECT_TRUE(by_pods.pods);
}

// S-224
TEST(ReplicaScalers, ATargetIsSampledAtTheShorterPollingInterval) {
  const auto period = [](const char* interval) {
    const Json object = json(fmt::format(
        R"({{"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","metadata":{{"name":"q","namespace":"team","uid":"u"}},
        "spec":{{"scaleTargetRef":{{"name":"web"}},{}"triggers":[{{"type":"aws-sqs-queue","metadata":{{
        "queueURL":"https://sqs/1/work","awsRegion":"us-west-2","queueLength":"10"}}}}]}}}})",
        interval));
    return watched_scaler({ScalerKind::kScaledObject, "team", "q"}, object).period;
  };
  EXPECT_EQ(period(R"("pollingInterval":1,)"), std::chrono::seconds(1));
  EXPECT_EQ(period(R"("pollingInterval":60,)"), std::chrono::seconds(15));
}

TEST(ReplicaScalers, PodsHaveReadinessAndRequests) {
  const auto pod = replica_pod(json(R"({"metadata":{"name":"p","deletionTimestamp":"2026-11-01T00:00:00Z"},
    "spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"250m","memory":"1Gi"}}}],
            "initContainers":[{"name":"proxy","restartPolicy":"Always","resources":{"requests":{"cpu":"1"}}},{"name":"once"}]},
    "status":{"phase":"Running","startTime":"2026-11-01T00:00:00Z",
              "conditions":[{"type":"Ready","status":"False","lastTransitionTime":"2026-11-01T00:01:00Z"}]}})"));
  EXPECT_EQ(pod.phase, replicas::Pod::Phase::kRunning);
  EXPECT_EQ(pod.ready, false);
  EXPECT_TRUE(pod.deleted);
  EXPECT_EQ(pod.ready_since - *pod.start, std::chrono::minutes(1));
  EXPECT_EQ(pod.containers.at("app").at("cpu"), 250);
  EXPECT_EQ(pod.containers.at("app").at("memory"), (std::int64_t{1} << 30) * 1000);
  EXPECT_EQ(pod.sidecars.at("proxy").at("cpu"), 1000);
  EXPECT_FALSE(pod.sidecars.contains("once"));
}

ReadingsRow read_with(MetricSources& sources, const Json& object, const std::vector<std::string>& pods = {}) {
  const bool hpa = object["kind"].string() == "HorizontalPodAutoscaler";
  const ScalerId id{hpa ? ScalerKind::kHpa : ScalerKind::kScaledObject, "team", "web"};
  return sources.read(watched_scaler(id, object), {"team", "deployments.apps", "web", "app=web", pods});
}

// Queue length, KV cache and latency of LLM servers.
TEST(ReplicaMetrics, OfPrometheusAreReadByTheirNames) {
  ScaleApi api;
  FakePrometheus prometheus;
  kube::Client client({api.origin(), {}, {}, {}, {}});
  MetricSources sources(client, {prometheus.url(), {}});
  prometheus.answers(kQueueExpression, {{R"({"pod":"p0"})", "7"}, {R"({"pod":"p1"})", "12.5"}});
  const auto external = read_with(sources, hpa_object("web", kQueueMetric));
  EXPECT_EQ(external.metrics.external.at("vllm:num_requests_waiting"), (std::vector<std::int64_t>{7000, 12500}));
  prometheus.answers(R"(sum by (pod) (vllm:kv_cache_usage_perc{namespace="team",pod=~"p0|p1"}))",
                     {{R"({"pod":"p1"})", "0.91"}, {R"({"pod":"p0"})", "0.5"}});
  const auto cache = read_with(
      sources,
      hpa_object(
          "web",
          R"({"type":"Pods","pods":{"metric":{"name":"vllm:kv_cache_usage_perc"},"target":{"type":"AverageValue","averageValue":"800m"}}})"),
      {"p0", "p1"});
  ASSERT_EQ(cache.metrics.pods.at("vllm:kv_cache_usage_perc").size(), 2U);
  EXPECT_EQ(cache.metrics.pods.at("vllm:kv_cache_usage_perc")[0].pod, "p0");
  EXPECT_EQ(cache.metrics.pods.at("vllm:kv_cache_usage_perc")[1].milli, 910);
  prometheus.answers(R"(sum(vllm:time_to_first_token_seconds:p99{namespace="team",service="web"}))", {{"{}", "1.75"}});
  const auto latency = read_with(
      sources,
      hpa_object(
          "web",
          R"({"type":"Object","object":{"metric":{"name":"vllm:time_to_first_token_seconds:p99"},"describedObject":{"apiVersion":"v1","kind":"Service","name":"web"},"target":{"type":"Value","value":"2"}}})"));
  EXPECT_EQ(latency.metrics.object.at("vllm:time_to_first_token_seconds:p99"), 1750);
}

TEST(ReplicaMetrics, OfTheMetricsApisAreReadWithoutPrometheus) {
  ScaleApi api;
  kube::Client client({api.origin(), {}, {}, {}, {}});
  MetricSources sources(client, {"", {}});
  api.set("/apis/external.metrics.k8s.io/v1beta1/namespaces/team/vllm:num_requests_waiting",
          json(R"({"items":[{"metricName":"x","value":"1500m"},{"metricName":"x","value":"3"}]})"));
  const auto external = read_with(sources, hpa_object("web", kQueueMetric));
  EXPECT_EQ(external.metrics.external.at("vllm:num_requests_waiting"), (std::vector<std::int64_t>{1500, 3000}));
  api.set("/apis/metrics.k8s.io/v1beta1/namespaces/team/pods",
          json(R"({"items":[{"metadata":{"name":"p0"},"timestamp":"2026-11-01T00:00:30Z","window":"1m0.5s",
                   "containers":[{"name":"app","usage":{"cpu":"300m","memory":"2Ki"}}]}]})"));
  const auto resource = read_with(sources, hpa_object("web", ""));
  ASSERT_TRUE(resource.metrics.resource) << "without metrics the default is cpu";
  ASSERT_EQ(resource.metrics.resource->size(), 1U);
  EXPECT_EQ(resource.metrics.resource->at(0).usage.at("app").at("cpu"), 300);
  EXPECT_EQ(resource.metrics.resource->at(0).window, std::chrono::milliseconds(60'500));
  api.set("/apis/custom.metrics.k8s.io/v1beta2/namespaces/team/pods/*/gpu_utilization",
          json(R"({"items":[{"describedObject":{"name":"p0"},"value":"90"}]})"));
  const auto pods = read_with(
      sources,
      hpa_object(
          "web",
          R"({"type":"Pods","pods":{"metric":{"name":"gpu_utilization"},"target":{"type":"AverageValue","averageValue":"70"}}})"));
  EXPECT_EQ(pods.metrics.pods.at("gpu_utilization").at(0).milli, 90'000);
  const auto missing = read_with(
      sources,
      hpa_object("web",
                 R"({"type":"External","external":{"metric":{"name":"none"},"target":{"type":"Value","value":"1"}}})"));
  EXPECT_TRUE(missing.metrics.external.empty()) << "a failed metric is absent";
}

TEST(ReplicaMetrics, TriggersHaveTheirSourcesAndTheReasonOfAFailure) {
  ScaleApi api;
  FakePrometheus prometheus;
  kube::Client client({api.origin(), {}, {}, {}, {}});
  const auto object = [](const std::string& triggers) {
    return json(R"({"apiVersion":"keda.sh/v1alpha1","kind":"ScaledObject","metadata":{"name":"q","namespace":"team"},
      "spec":{"scaleTargetRef":{"name":"web"},"triggers":[)" +
                triggers + "]}}");
  };
  cloud::AwsOptions aws;
  aws.endpoint = "http://cloud:1";
  aws.access_key = aws.secret_key = "k";
  aws.outside.send = [](const std::string&, const http::Request&, std::chrono::milliseconds) -> Result<http::Response> {
    return http::Response{
        200,
        {},
        R"({"Attributes":{"ApproximateNumberOfMessages":"95","ApproximateNumberOfMessagesNotVisible":"3","ApproximateNumberOfMessagesDelayed":"0"}})"};
  };
  MetricSources sources(client, {"", aws});
  const std::string server = prometheus.url();
  prometheus.answers("sum(rate(x[1m]))", {{"{}", "4.5"}});
  const auto by_query = [&] {
    return R"x({"type":"prometheus","name":"p","metadata":{"serverAddress":")x" + server +
           R"x(","query":"sum(rate(x[1m]))","threshold":"2"}})x";
  };
  const auto read = read_with(
      sources,
      object(
          R"x({"type":"aws-sqs-queue","name":"q","metadata":{"queueURL":"https://sqs/1/q","awsRegion":"us-east-1","queueLength":"10"}},)x" +
          by_query()));
  const auto* queue = std::get_if<replicas::QueueReading>(&read.triggers.at("q"));
  ASSERT_NE(queue, nullptr);
  EXPECT_EQ(queue->visible, 95);
  EXPECT_EQ(queue->in_flight, 3);
  const auto* query = std::get_if<replicas::QueryReading>(&read.triggers.at("p"));
  ASSERT_NE(query, nullptr);
  EXPECT_EQ(query->value, 4.5);
  prometheus.status = 503;
  const auto failing = object(by_query());
  for (int i = 0; i < 3; ++i) {
    const auto failed = read_with(sources, failing);
    const auto* reason = std::get_if<replicas::FailedReading>(&failed.triggers.at("p"));
    ASSERT_NE(reason, nullptr);
    EXPECT_NE(reason->message.find("503"), std::string::npos) << reason->message;
  }
  EXPECT_EQ(prometheus.asked().size(), 2U) << "a server that failed is not asked again at once";
}

/// The name of an adapter, or the series of the exporter.
const std::string kGpuExpression = R"(sum by (pod) (gpu_utilization{namespace="team",pod=~"p0"}) or )"
                                   R"(avg by (pod) (dcgm_gpu_utilization{namespace="team",pod=~"p0"}) or )"
                                   R"(avg by (pod) (DCGM_FI_DEV_GPU_UTIL{namespace="team",pod=~"p0"}))";

// S-218: the answer for gpu_utilization, from the series that the agents and the exporter have, in the form of the API.
TEST(ReplicaMetricsApi, GpuUtilizationIsServedWithoutAnAdapter) {
  ScaleApi api;
  api.set(
      "/api/v1/pods",
      json(
          R"({"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"p0","namespace":"team","labels":{"app":"web"}},"status":{"phase":"Running"}}]})"));
  FakePrometheus prometheus;
  prometheus.answers(kGpuExpression, {{R"({"pod":"p0"})", "62.5"}});
  kube::Client client({api.origin(), {}, {}, {}, {}});
  SystemClock clock;
  MetricsApi served(client, clock, {"127.0.0.1", 0, prometheus.url(), {}});
  ASSERT_TRUE(served.start());
  http::Client caller("http://127.0.0.1:" + std::to_string(served.port()));
  http::Request request;
  request.target =
      "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team/pods/%2A/gpu_utilization?labelSelector=app%3Dweb";
  Result<http::Response> response = fail(Code::kUnavailable, "not asked yet");
  ASSERT_TRUE(qm::testing::wait_until([&] {
    response = caller.send(request);
    return response && response->status == 200;
  }));
  const auto list = json(response->body);
  EXPECT_EQ(list["kind"].string(), "MetricValueList");
  EXPECT_EQ(list["apiVersion"].string(), "custom.metrics.k8s.io/v1beta2");
  ASSERT_EQ(list["items"].size(), 1U);
  const auto& item = list["items"].at(0);
  EXPECT_EQ(item.path("describedObject.kind").string(), "Pod");
  EXPECT_EQ(item.path("describedObject.namespace").string(), "team");
  EXPECT_EQ(item.path("describedObject.name").string(), "p0");
  EXPECT_EQ(item.path("metric.name").string(), "gpu_utilization");
  EXPECT_EQ(item["value"].string(), "62500m");
  EXPECT_TRUE(from_rfc3339(item["timestamp"].string())) << response->body;
  // The rule that the adapter of the reference has gives the same series the same name.
  for (const auto& manifests : qm::testing::manifest_folders()) {
    if (manifests.own) continue;
    const auto loaded = config::load_path(manifests.dir + "001-prometheus-adapter-values.yaml");
    ASSERT_EQ(loaded.objects.size(), 1U);
    const auto& rule = loaded.objects[0].document.content.path("rules.custom").at(0);
    EXPECT_EQ(rule["name"]["as"].string(), "gpu_utilization");
    EXPECT_NE(kGpuExpression.find(rule["seriesQuery"].string()), std::string::npos);
  }
}

TEST(ReplicaMetricsApi, ServesExternalAndCustomMetrics) {
  ScaleApi api;
  api.set(
      "/api/v1/pods",
      json(
          R"({"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"p0","namespace":"team","labels":{"app":"web"}},"status":{"phase":"Running"}}]})"));
  FakePrometheus prometheus;
  kube::Client client({api.origin(), {}, {}, {}, {}});
  SystemClock clock;
  MetricsApi served(client, clock, {"127.0.0.1", 0, prometheus.url(), {}});
  ASSERT_TRUE(served.start());
  http::Client caller("http://127.0.0.1:" + std::to_string(served.port()));
  const auto get = [&](const std::string& target) {
    http::Request request;
    request.target = target;
    const auto response = caller.send(request);
    EXPECT_TRUE(response);
    return response ? std::pair(response->status, json(response->body)) : std::pair(0, Json());
  };
  prometheus.answers(kQueueExpression, {{R"({"__name__":"n","pod":"p0"})", "7.25"}});
  const auto [status, list] =
      get("/apis/external.metrics.k8s.io/v1beta1/namespaces/team/vllm:num_requests_waiting?labelSelector=model%3Da");
  EXPECT_EQ(status, 200);
  EXPECT_EQ(list["kind"].string(), "ExternalMetricValueList");
  EXPECT_EQ(list["items"].at(0)["value"].string(), "7250m");
  EXPECT_EQ(list["items"].at(0)["metricLabels"].dump(), R"({"pod":"p0"})");
  prometheus.answers(kGpuExpression, {{R"({"pod":"p0"})", "90"}});
  const std::string custom = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team/";
  ASSERT_TRUE(qm::testing::wait_until(
      [&] { return get(custom + "pods/%2A/gpu_utilization?labelSelector=app%3Dweb").first == 200; }));
  const auto pods = get(custom + "pods/%2A/gpu_utilization?labelSelector=app%3Dweb").second;
  EXPECT_EQ(pods["items"].at(0)["value"].string(), "90");
  EXPECT_EQ(pods["items"].at(0)["describedObject"]["name"].string(), "p0");
  prometheus.answers(R"(sum(depth{namespace="team",service="web"}))", {{"{}", "3"}});
  EXPECT_EQ(get(custom + "services/web/depth").second["items"].at(0)["value"].string(), "3");
  EXPECT_EQ(get(custom + "services/web/none").first, 404);
  EXPECT_EQ(get("/apis/external.metrics.k8s.io/v1beta1").second["groupVersion"].string(),
            "external.metrics.k8s.io/v1beta1");
  prometheus.status = 503;
  EXPECT_EQ(get(custom + "services/web/depth").first, 503);
}

struct WholeWay {
  ScaleApi api;
  FakePrometheus prometheus;
  kube::Client client{{api.origin(), {}, {}, {}, {}}};
  ReplicaService service{client, prometheus.url()};

  explicit WholeWay(const Json& hpa) {
    api.set(kHpaPath, hpa);
    api.set(ScaleApi::kHpas,
            Json::object({{"metadata", Json::object({{"resourceVersion", "5"}})}, {"items", Json::array({hpa})}}));
    prometheus.answers(kQueueExpression, {{"{}", "40"}});
    api.deployment(4);
    service.start();
  }
  [[nodiscard]] bool is_evaluated() {
    return qm::testing::wait_until(
        [&] {
          const auto seen = service.evaluation();
          return seen.targets_size() == 1 && seen.targets(0).scalers(0).at_us() > 0;
        },
        std::chrono::seconds(30));
  }
};

TEST(ReplicaService, TakesAnAnnotatedWorkloadOverScalesItAndGivesItBack) {
  const Json original = hpa_object("web", kQueueMetric);
  WholeWay way(original);
  ASSERT_TRUE(way.is_evaluated());
  const auto observed = way.service.evaluation().targets(0);
  EXPECT_EQ(observed.scaled_by(), "kube-controller-manager");
  EXPECT_EQ(observed.scalers(0).wanted(), 8);
  EXPECT_EQ(observed.scalers(0).metrics(0).ratio(), 2);
  EXPECT_EQ(way.api.replicas(), 4) << "only evaluated";

  way.api.deployment(4, "quartermaster");
  ASSERT_TRUE(qm::testing::wait_until([&] { return way.api.replicas() == 8; }, std::chrono::seconds(30)));
  EXPECT_TRUE(is_suspended(way.api.get(kHpaPath)));
  EXPECT_EQ(way.service.evaluation().targets(0).scaled_by(), "quartermaster");
  EXPECT_EQ(way.service.evaluation().targets(0).decided_by(), "HorizontalPodAutoscaler team/web");
  rpc::Caller tenant;
  tenant.user = true;
  EXPECT_EQ(way.service.evaluation(tenant).targets_size(), 0) << "of another tenant";

  way.api.deployment(8);
  ASSERT_TRUE(qm::testing::wait_until([&] { return written(way.api.get(kHpaPath)) == written(original); },
                                      std::chrono::seconds(30)));
}

TEST(ReplicaService, ARestartKeepsAllRows) {
  WholeWay way(hpa_object("web", kQueueMetric));
  ASSERT_TRUE(way.is_evaluated());
  way.service.watch->stop();
  const auto before = way.service.digest();
  way.service.host->stop();
  way.service.open();
  EXPECT_EQ(way.service.digest(), before);
}

}  // namespace replicas_test
}  // namespace qm::autoscaler
