#include "qm/autoscaler/metrics_api.hpp"

#include "qm/model/quantity.hpp"
#include "replicas/prometheus.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr const char* kExternal = "external.metrics.k8s.io";
constexpr const char* kCustom = "custom.metrics.k8s.io";

http::Response status_of(int code, const char* reason, const std::string& message) {
  return http::json(code, Json::object({{"kind", "Status"},
                                        {"apiVersion", "v1"},
                                        {"status", "Failure"},
                                        {"reason", reason},
                                        {"message", message},
                                        {"code", code}})
                              .dump());
}

http::Response refusal(const Error& error) {
  return error.code == Code::kInvalid ? status_of(400, "BadRequest", error.message)
                                      : status_of(503, "ServiceUnavailable", error.to_string());
}

Json list_of(const char* kind, const std::string& api_version, Json items) {
  return Json::object(
      {{"kind", kind}, {"apiVersion", api_version}, {"metadata", Json::object()}, {"items", std::move(items)}});
}

std::string quantity(double value) { return Quantity::of_milli(milli_from(value)).to_string(); }

Json group_of(const std::string& name, const std::string& version) {
  const Json served = Json::object({{"groupVersion", name + "/" + version}, {"version", version}});
  return Json::object({{"kind", "APIGroup"},
                       {"apiVersion", "v1"},
                       {"name", name},
                       {"versions", Json::array({served})},
                       {"preferredVersion", served}});
}

/// The names of metrics are those of Prometheus, which this server does not list.
Json resources_of(const std::string& group_version) {
  return Json::object({{"kind", "APIResourceList"},
                       {"apiVersion", "v1"},
                       {"groupVersion", group_version},
                       {"resources", Json::array()}});
}

/// "pods", "deployments.apps" -> Pod, Deployment: what the label of its kind is named after.
std::string kind_label(std::string resource) {
  resource = resource.substr(0, resource.find('.'));
  if (resource.ends_with("ies")) return resource.substr(0, resource.size() - 3) + "y";
  if (resource.ends_with('s')) resource.pop_back();
  return resource;
}

}  // namespace

struct MetricsApi::Impl {
  Impl(kube::Client& client, const DomainClock& domain_clock, Options chosen)
      : clock(domain_clock), options(std::move(chosen)), pods(client), prometheus(options.prometheus, options.timeout) {
    const std::string external = std::string("/apis/") + kExternal, custom = std::string("/apis/") + kCustom;
    const auto fixed = [&](const std::string& path, const Json& body) {
      router.add("GET", path, [text = body.dump()](const auto&, const auto&) { return http::json(200, text); });
    };
    fixed("/apis",
          Json::object({{"kind", "APIGroupList"},
                        {"apiVersion", "v1"},
                        {"groups", Json::array({group_of(kExternal, "v1beta1"), group_of(kCustom, "v1beta2")})}}));
    fixed(external, group_of(kExternal, "v1beta1"));
    fixed(custom, group_of(kCustom, "v1beta2"));
    fixed(external + "/v1beta1", resources_of(std::string(kExternal) + "/v1beta1"));
    fixed(custom + "/v1beta2", resources_of(std::string(kCustom) + "/v1beta2"));
    router.add("GET", external + "/v1beta1/namespaces/{ns}/{metric}",
               [this](const http::Request& r, const http::Router::Params& p) { return external_metric(r, p); });
    router.add("GET", custom + "/v1beta2/namespaces/{ns}/{resource}/{name}/{metric}",
               [this](const http::Request& r, const http::Router::Params& p) {
                 return p.at("name") == "*" ? pod_metric(r, p) : object_metric(r, p);
               });
  }

  Result<std::vector<PrometheusElement>> query(const std::string& expression) { return prometheus.query(expression); }

  http::Response external_metric(const http::Request& request, const http::Router::Params& params) {
    const auto& metric = params.at("metric");
    const auto read = query(external_expression(metric, params.at("ns"), request.query()["labelSelector"]));
    if (!read) return refusal(read.error());
    if (read->empty()) return status_of(404, "NotFound", "no series of " + metric + " matches");
    auto items = Json::array();
    for (const auto& element : *read) {
      auto labels = Json::object();
      for (const auto& [key, value] : element.labels) {
        if (key != "__name__") labels.set(key, value);
      }
      items.push_back(Json::object({{"metricName", metric},
                                    {"metricLabels", std::move(labels)},
                                    {"timestamp", to_rfc3339(now())},
                                    {"value", quantity(element.value)}}));
    }
    return http::json(200,
                      list_of("ExternalMetricValueList", std::string(kExternal) + "/v1beta1", std::move(items)).dump());
  }

  http::Response pod_metric(const http::Request& request, const http::Router::Params& params) {
    const auto &metric = params.at("metric"), &ns = params.at("ns");
    auto query_of = request.query();
    const auto found = pods.matching(ns, query_of["labelSelector"]);
    if (!found) return status_of(503, "ServiceUnavailable", "the pods are not listed yet");
    std::vector<std::string> names;
    for (const auto& pod : *found) names.push_back(pod.name);
    const auto read = query(pods_expression(metric, ns, names, query_of["metricLabelSelector"]));
    if (!read) return refusal(read.error());
    auto items = Json::array();
    for (const auto& element : *read) {
      const auto pod = element.labels.find("pod");
      if (pod != element.labels.end()) items.push_back(value_of("Pod", "v1", ns, pod->second, metric, element.value));
    }
    if (items.size() == 0) return status_of(404, "NotFound", "no pod has the metric " + metric);
    return http::json(200, list_of("MetricValueList", std::string(kCustom) + "/v1beta2", std::move(items)).dump());
  }

  http::Response object_metric(const http::Request& request, const http::Router::Params& params) {
    const auto &metric = params.at("metric"), &ns = params.at("ns"), &name = params.at("name");
    auto query_of = request.query();
    const auto label = kind_label(params.at("resource"));
    const auto read = query(object_expression(metric, ns, label, name, query_of["metricLabelSelector"]));
    if (!read) return refusal(read.error());
    if (read->size() != 1) return status_of(404, "NotFound", "no series of " + metric + " matches");
    auto items = Json::array({value_of(label, "", ns, name, metric, read->front().value)});
    return http::json(200, list_of("MetricValueList", std::string(kCustom) + "/v1beta2", std::move(items)).dump());
  }

  [[nodiscard]] Json value_of(const std::string& kind, const std::string& version, const std::string& ns,
                              const std::string& name, const std::string& metric, double value) const {
    return Json::object({{"describedObject",
                          Json::object({{"kind", kind}, {"apiVersion", version}, {"namespace", ns}, {"name", name}})},
                         {"metric", Json::object({{"name", metric}})},
                         {"timestamp", to_rfc3339(now())},
                         {"value", quantity(value)}});
  }
  /// In whole seconds, as the API has it.
  [[nodiscard]] Instant now() const { return std::chrono::floor<std::chrono::seconds>(clock.now()); }

  const DomainClock& clock;
  const Options options;
  ReplicaPods pods;
  Prometheus prometheus;
  http::Router router;
  std::unique_ptr<http::Server> server;
};

MetricsApi::MetricsApi(kube::Client& client, const DomainClock& clock, Options options)
    : impl_(std::make_unique<Impl>(client, clock, std::move(options))) {}
MetricsApi::~MetricsApi() { stop(); }

Status MetricsApi::start() {
  http::ServerOptions chosen;
  chosen.address = impl_->options.address;
  chosen.port = impl_->options.port;
  chosen.tls = impl_->options.tls;
  chosen.identity = impl_->options.identity;
  impl_->server = std::make_unique<http::Server>(chosen, [this](const http::Request& r) { return impl_->router(r); });
  return impl_->server->start();
}

void MetricsApi::stop() {
  if (impl_->server) impl_->server->stop();
  impl_->pods.stop();
}

std::uint16_t MetricsApi::port() const { return impl_->server ? impl_->server->port() : 0; }

}  // namespace qm::autoscaler
