// Random series through a real kube-controller-manager that reads our metrics API: at each of its syncs the library
// decides too, from what it sees, and both must agree.
//
//   QM_REPLICA_SERIES=1000 QM_REPLICA_SYNCS=60   more series, for longer
//
// More than a hundred series need a controller manager that is configured for their number, and whose syncs are closer:
//   QM_KUBE_ARGS_CONTROLLERS="--horizontal-pod-autoscaler-sync-period=4s --kube-api-qps=500 --kube-api-burst=1000
//     --concurrent-horizontal-pod-autoscaler-syncs=20" tools/peers/kubernetes.sh start
#include "qm/autoscaler/metrics_api.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"
#include "qm/http/certificate.hpp"
#include "qm/model/scalers.hpp"
#include "qm/testing/testing.hpp"
#include "test/shell/replica_rig.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <mutex>
#include <random>
#include <unistd.h>

namespace qm::autoscaler {
namespace replicas_k8s_test {

using std::chrono::seconds;

const kube::Resource kNamespaces{"", "v1", "namespaces", false}, kServices{"", "v1", "services", true},
    kApiServices{"apiregistration.k8s.io", "v1", "apiservices", false},
    kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false},
    kLoads{"test.quartermaster.dev", "v1", "loads", true}, kHpas{"autoscaling", "v2", "horizontalpodautoscalers", true};
constexpr const char* kApiService = "v1beta1.external.metrics.k8s.io";

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}
int number(const char* name, int otherwise) {
  const auto text = setting(name);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

using namespace autoscaler::testing;

/// A kind with a scale subresource and no controller: its status is what the test sets.
const char* const kDefinition = R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
  "metadata":{"name":"loads.test.quartermaster.dev"},"spec":{"group":"test.quartermaster.dev","scope":"Namespaced",
  "names":{"plural":"loads","singular":"load","kind":"Load","listKind":"LoadList"},
  "versions":[{"name":"v1","served":true,"storage":true,
    "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}},
    "subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas",
                    "labelSelectorPath":".status.selector"}}}]}})";

/// Policies and windows whose edges lie between syncs, which are 4 or 15 seconds apart.
std::string random_behavior(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random));
  };
  const auto direction = [&](bool up) {
    std::string policies;
    for (int i = one_of({1, 2}); i > 0; --i) {
      if (!policies.empty()) policies += ",";
      policies += one_of({0, 1}) == 0 ? fmt::format(R"({{"type":"Pods","value":{},"periodSeconds":{}}})",
                                                    one_of({1, 2, 4}), one_of({2, 6, 10}))
                                      : fmt::format(R"({{"type":"Percent","value":{},"periodSeconds":{}}})",
                                                    one_of({10, 50, 100}), one_of({2, 6, 10}));
    }
    return fmt::format(R"({{"stabilizationWindowSeconds":{},"selectPolicy":"{}","policies":[{}]}})",
                       up ? one_of({0, 2, 6}) : one_of({0, 6, 10}), one_of({0, 1}) == 0 ? "Max" : "Min", policies);
  };
  return one_of({0, 1, 1}) == 0
             ? std::string()
             : fmt::format(R"(,"behavior":{{"scaleUp":{},"scaleDown":{}}})", direction(true), direction(false));
}

/// One target with an autoscaler, and what the library decides for it.
struct Series {
  std::string name;
  Json manifest;
  replicas::HpaSpec spec;
  replicas::HpaState state;
  std::mt19937 random;
  double value = 0, unit = 1;            ///< of the metric; of one replica
  std::optional<std::int32_t> expected;  ///< spec.replicas after the last sync
  int syncs = 0, changes = 0;
};

class ReplicasOnKubernetes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_KUBE_URL").empty()) GTEST_SKIP() << "QM_KUBE_URL is not set: run ./qm peers kubernetes";
    kube::ClientOptions options;
    options.server = setting("QM_KUBE_URL");
    options.ca_file = setting("QM_KUBE_CA");
    options.token = setting("QM_KUBE_TOKEN");
    options.timeout_ms = 30'000;
    client_ = std::make_unique<kube::Client>(options);
    static int counter = 0;
    ns_ = fmt::format("replicas-{}-{}", ::getpid(), ++counter);
    made(client_->create(kNamespaces, "", json(R"({"metadata":{"name":")" + ns_ + "\"}}")));
    made(client_->create(kDefinitions, "", json(kDefinition)));
    ASSERT_TRUE(qm::testing::wait_until([&] { return client_->list(kLoads, ns_).has_value(); }, seconds(60)));
    serve();
  }
  void TearDown() override {
    if (!client_) return;
    (void)client_->remove(kApiServices, "", kApiService, {});
    (void)client_->remove(kNamespaces, "", ns_, {});
    if (api_) api_->stop();
    if (prometheus_) prometheus_->stop();
  }
  static void made(const Result<Json>& done) {
    ASSERT_TRUE(done || done.error().code == Code::kAlreadyExists) << done.error().to_string();
  }

  /// The metrics API with TLS, and its registration with the API server.
  void serve() {
    prometheus_ =
        std::make_unique<http::Server>(http::ServerOptions{}, [this](const http::Request& r) { return answer(r); });
    ASSERT_TRUE(prometheus_->start());
    http::CertificateTerms terms;
    terms.common_name = "localhost";
    terms.names = {"localhost"};
    const auto now = std::chrono::floor<seconds>(std::chrono::system_clock::now());
    terms.from = now - std::chrono::hours(1);
    terms.until = now + std::chrono::hours(24);
    auto authority_terms = terms;
    authority_terms.names.clear();
    const auto authority = http::make_authority(authority_terms);
    ASSERT_TRUE(authority);
    const auto identity = http::make_certificate(terms, *authority);
    ASSERT_TRUE(identity);
    MetricsApi::Options options;
    options.prometheus = "http://127.0.0.1:" + std::to_string(prometheus_->port());
    options.identity = *identity;
    options.timeout = seconds(20);
    api_ = std::make_unique<MetricsApi>(*client_, clock_, options);
    ASSERT_TRUE(api_->start());
    made(client_->create(
        kServices, ns_,
        json(R"({"metadata":{"name":"metrics"},"spec":{"type":"ExternalName","externalName":"localhost"}})")));
    (void)client_->remove(kApiServices, "", kApiService, {});
    made(client_->create(
        kApiServices, "",
        json(fmt::format(
            R"({{"metadata":{{"name":"{}"}},"spec":{{"group":"external.metrics.k8s.io","version":"v1beta1","groupPriorityMinimum":100,
             "versionPriority":100,"insecureSkipTLSVerify":true,"service":{{"name":"metrics","namespace":"{}","port":{}}}}}}})",
            kApiService, ns_, api_->port()))));
    ASSERT_TRUE(qm::testing::wait_until(
        [&] {
          const auto found = client_->get(kApiServices, "", kApiService);
          if (!found) return false;
          for (const auto& condition : (*found)["status"]["conditions"].items()) {
            if (condition["type"].string() == "Available" && condition["status"].string() == "True") return true;
            why_ = condition["message"].string();
          }
          return false;
        },
        seconds(60)))
        << "the API server does not reach the metrics API: " << why_;
  }

  void add(int index) {
    Series one;
    one.name = fmt::format("m{}", index);
    one.random.seed(static_cast<unsigned>(4711 + index));
    const int least = std::uniform_int_distribution<int>(1, 3)(one.random);
    const int most = std::uniform_int_distribution<int>(6, 30)(one.random);
    const int target = std::uniform_int_distribution<int>(500, 9000)(one.random);
    const int replicas = std::uniform_int_distribution<int>(least, most)(one.random);
    one.manifest = json(fmt::format(
        R"({{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{{"name":"{0}"}},"spec":{{
             "scaleTargetRef":{{"apiVersion":"test.quartermaster.dev/v1","kind":"Load","name":"{0}"}},"minReplicas":{1},"maxReplicas":{2},
             "metrics":[{{"type":"External","external":{{"metric":{{"name":"{0}"}},"target":{{"type":"AverageValue","averageValue":"{3}m"}}}}}}]{4}}}}})",
        one.name, least, most, target, random_behavior(one.random)));
    const auto read = replicas::read_hpa(one.manifest);
    ASSERT_TRUE(read) << read.error().to_string();
    one.spec = read->spec;
    one.unit = target / 1000.0;
    one.value = one.unit * replicas;
    made(client_->create(
        kLoads, ns_,
        json(fmt::format(
            R"({{"apiVersion":"test.quartermaster.dev/v1","kind":"Load","metadata":{{"name":"{}"}},"spec":{{"replicas":{}}}}})",
            one.name, replicas))));
    made(client_->merge_patch(kLoads, ns_, one.name, status(replicas), "status"));
    const std::scoped_lock lock(mutex_);
    series_.emplace(one.name, std::move(one));
  }
  static Json status(int replicas) {
    return json(fmt::format(R"({{"status":{{"replicas":{},"selector":"app=none"}}}})", replicas));
  }

  /// A query of Prometheus: one sync of the autoscaler that has this metric.
  http::Answer answer(const http::Request& r) {
    const auto expression = r.query()["query"];
    const auto metric = expression.substr(0, expression.find('{'));
    const std::scoped_lock lock(mutex_);
    ++asked_[metric];
    if (const auto value = fixed_.find(metric); value != fixed_.end()) return vector_of(value->second);
    const auto found = series_.find(metric);
    if (found == series_.end()) {
      return http::json(200, R"({"status":"success","data":{"resultType":"vector","result":[]}})");
    }
    sync(found->second);
    return vector_of(found->second.value);
  }
  static http::Response vector_of(double value) {
    return http::json(
        200,
        fmt::format(
            R"({{"status":"success","data":{{"resultType":"vector","result":[{{"metric":{{}},"value":[1,"{}"]}}]}}}})",
            value));
  }
  int asked(const std::string& metric) {
    const std::scoped_lock lock(mutex_);
    return asked_[metric];
  }
  void sync(Series& one) {
    // The controller manager has read the scale just before, and writes it afterwards.
    const auto load = client_->get(kLoads, ns_, one.name);
    if (!load) {
      failures_.push_back(load.error().to_string());
      return;
    }
    const auto replicas = static_cast<std::int32_t>((*load)["spec"]["replicas"].integer());
    if (one.expected && *one.expected != replicas) {
      failures_.push_back(fmt::format("{} at sync {}: {} replicas, {} were expected; {}", one.name, one.syncs, replicas,
                                      *one.expected, one.manifest["spec"].dump()));
    }
    // The next value of the series: it stays, drifts or jumps.
    const double share = std::uniform_real_distribution<double>(0, 1)(one.random);
    if (share > 0.25) one.value *= std::uniform_real_distribution<double>(0.8, 1.3)(one.random);
    if (share > 0.6) one.value = one.unit * std::uniform_real_distribution<double>(0.2, one.spec.max + 2.0)(one.random);
    one.value = std::max(std::round(one.value * 1000) / 1000, 0.001);
    replicas::Observation seen;
    seen.now = clock_.now();
    seen.replicas = replicas;
    seen.status_replicas = static_cast<std::int32_t>((*load)["status"]["replicas"].integer());
    const auto milli = static_cast<std::int64_t>(std::llround(one.value * 1000));
    seen.readings.external[one.name] = {milli};
    one.expected = replicas::sync(one.spec, {}, seen, one.state).desired;
    one.changes += *one.expected != replicas ? 1 : 0;
    ++one.syncs;
  }

  std::unique_ptr<kube::Client> client_;
  std::string ns_, why_;
  SystemClock clock_;
  std::unique_ptr<http::Server> prometheus_;
  std::unique_ptr<MetricsApi> api_;
  std::mutex mutex_;
  std::map<std::string, Series> series_;
  std::map<std::string, double> fixed_;  ///< values of other metrics
  std::map<std::string, int> asked_;
  std::vector<std::string> failures_;
};

// S-221
TEST_F(ReplicasOnKubernetes, RandomSeriesAreDecidedAsByTheControllerManager) {
  const int count = number("QM_REPLICA_SERIES", 40), length = number("QM_REPLICA_SYNCS", 4);
  for (int i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(add(i));
  // The status follows between two syncs: in one, it would be a conflict for the controller manager.
  kube::Informer loads(*client_, kLoads, ns_,
                       {[this](const Json& object, bool deleted) {
                          const auto has = static_cast<std::int32_t>(object["spec"]["replicas"].integer());
                          if (deleted || object["status"]["replicas"].integer() == has) return;
                          (void)client_->merge_patch(kLoads, ns_, kube::name_of(object), status(has), "status");
                        },
                        [] {}});
  loads.start();
  for (auto& [name, one] : series_) ASSERT_NO_FATAL_FAILURE(made(client_->create(kHpas, ns_, one.manifest)));
  const auto least_syncs = [&] {
    const std::scoped_lock lock(mutex_);
    int least = length;
    for (const auto& [name, one] : series_) least = std::min(least, one.syncs);
    return least;
  };
  EXPECT_TRUE(qm::testing::wait_until([&] { return least_syncs() >= length; }, seconds(60 + 20 * length)))
      << "a series has " << least_syncs() << " syncs";
  loads.stop();
  const std::scoped_lock lock(mutex_);
  int syncs = 0, changes = 0;
  for (const auto& [name, one] : series_) {
    syncs += one.syncs;
    changes += one.changes;
  }
  for (const auto& failure : failures_) ADD_FAILURE() << failure;
  EXPECT_GT(changes, count / 2);
  std::printf("%d series, %d syncs of kube-controller-manager, %d changes, %zu differences\n", count, syncs, changes,
              failures_.size());
}

// kube-controller-manager leaves a suspended autoscaler alone, and acts on it again once it is given back.
TEST_F(ReplicasOnKubernetes, AnAnnotatedDeploymentIsTakenOverAndGivenBack) {
  const kube::Resource deployments{"apps", "v1", "deployments", true};
  made(client_->create(deployments, ns_, json(R"({"metadata":{"name":"web"},"spec":{"replicas":4,
      "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
      "spec":{"containers":[{"name":"app","image":"example.org/app"}]}}}})")));
  {
    const std::scoped_lock lock(mutex_);
    fixed_["queue"] = 8;  // with a target of 2: 4 replicas
  }
  made(client_->create(
      kHpas, ns_, json(R"({"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"web"},
      "spec":{"minReplicas":1,"maxReplicas":20,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
      "metrics":[{"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"2"}}}]}})")));
  const auto spec = [&] {
    const auto found = client_->get(kHpas, ns_, "web");
    return found ? (*found)["spec"].dump() : std::string();
  };
  const auto replicas = [&] {
    const auto found = client_->get(deployments, ns_, "web");
    return found ? (*found)["spec"]["replicas"].integer() : -1;
  };
  const auto original = spec();
  const auto annotate = [&](const Json& value) {
    made(client_->merge_patch(
        deployments, ns_, "web",
        Json::object({{"metadata",
                       Json::object({{"annotations", Json::object({{std::string(kReplicasAnnotation), value}})}})}})));
  };
  ReplicaService service(*client_, "http://127.0.0.1:" + std::to_string(prometheus_->port()));
  service.start();
  annotate("quartermaster");
  const auto suspended = [&] {
    const auto found = client_->get(kHpas, ns_, "web");
    return found && is_suspended(*found);
  };
  ASSERT_TRUE(qm::testing::wait_until(suspended, seconds(30)));
  {
    const std::scoped_lock lock(mutex_);
    fixed_["queue"] = 12;
  }
  ASSERT_TRUE(qm::testing::wait_until([&] { return replicas() == 6; }, seconds(30))) << "set here";
  service.watch->stop();
  {
    const std::scoped_lock lock(mutex_);
    fixed_["queue"] = 20;
  }
  // Two syncs of the controller manager read the metric and change nothing.
  const int before = asked("queue");
  ASSERT_TRUE(qm::testing::wait_until([&] { return asked("queue") >= before + 3; }, seconds(90)));
  EXPECT_EQ(replicas(), 6);
  annotate(Json());
  service.watch = std::make_unique<ReplicaWatch>(*client_, *service.host, service.clock, ReplicaWatch::Options{});
  service.watch->start();
  ASSERT_TRUE(qm::testing::wait_until([&] { return spec() == original; }, seconds(60))) << spec() << original;
  ASSERT_TRUE(qm::testing::wait_until([&] { return replicas() == 10; }, seconds(60))) << "set by its own controller";
}

}  // namespace replicas_k8s_test
}  // namespace qm::autoscaler
