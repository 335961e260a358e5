// Values of metrics, from the source that each of them names.
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/bus/lag.hpp"
#include "qm/model/quantity.hpp"
#include "replicas/prometheus.hpp"

#include <algorithm>
#include <cmath>

namespace qm::autoscaler {
namespace {

constexpr auto kSilence = std::chrono::seconds(10);

/// A list request of a metrics API, whose path has the name of the metric in the place of a plural.
kube::Resource metrics_api(const char* group, const char* version, std::string path) {
  return {group, version, std::move(path), true};
}

std::optional<std::int64_t> milli_of(const Json& value) {
  const auto quantity = Quantity::parse(value.is_string() ? value.string() : value.dump());
  return quantity ? std::optional(quantity->milli()) : std::nullopt;
}

/// A selector of the API in the form of a query.
std::string query_of(const Json& selector) {
  std::vector<std::string> out;
  for (const auto& [key, value] : selector["matchLabels"].members()) out.push_back(key + "=" + value.string());
  for (const auto& term : selector["matchExpressions"].items()) {
    const auto& key = term["key"].string();
    const auto& op = term["operator"].string();
    std::vector<std::string> values;
    for (const auto& value : term["values"].items()) values.push_back(value.string());
    if (op == "Exists") out.push_back(key);
    if (op == "DoesNotExist") out.push_back("!" + key);
    if (op == "In" || op == "NotIn") {
      out.push_back(fmt::format("{} {} ({})", key, op == "In" ? "in" : "notin", fmt::join(values, ",")));
    }
  }
  return fmt::format("{}", fmt::join(out, ","));
}

/// The metric that an entry of spec.metrics names, whatever its source.
struct Named {
  std::string type, name, selector;
  const Json* source = nullptr;
};
Named named(const Json& metric) {
  Named out;
  out.type = metric["type"].string();
  const char* field = out.type == "Pods" ? "pods" : out.type == "Object" ? "object" : "external";
  out.source = &metric[field];
  out.name = metric[field]["metric"]["name"].string();
  out.selector = query_of(metric[field]["metric"]["selector"]);
  return out;
}

}  // namespace

struct MetricSources::Impl {
  kube::Client& kube;
  const Options options;
  std::map<std::string, std::unique_ptr<Prometheus>> servers;  // by URL
  std::map<std::string, std::unique_ptr<cloud::Aws>> queues;   // by region
  bus::LagReader lag;
  std::map<std::string, std::pair<SteadyInstant, std::string>> silent;  // servers without an answer: until, why

  Impl(kube::Client& client, Options chosen) : kube(client), options(std::move(chosen)), lag(options.timeout) {}

  /// Calls the server, unless it did not answer a moment ago.
  template <class Call>
  auto answered(const std::string& server, Call call) -> decltype(call()) {
    const auto now = std::chrono::steady_clock::now();
    if (const auto at = silent.find(server); at != silent.end()) {
      if (now < at->second.first) return fail(Code::kUnavailable, "{}", at->second.second);
      silent.erase(at);
    }
    auto out = call();
    const bool none = !out && (out.error().code == Code::kUnavailable || out.error().code == Code::kDeadlineExceeded);
    if (none) silent[server] = {now + kSilence, out.error().message};
    return out;
  }

  Result<std::vector<PrometheusElement>> query(const std::string& url, const std::string& expression) {
    auto& server = servers[url];
    if (!server) server = std::make_unique<Prometheus>(url, options.timeout);
    return answered(url, [&] { return server->query(expression); });
  }

  Result<kube::List> list(const kube::Resource& resource, const std::string& ns, const std::string& selector) {
    kube::ListOptions chosen;
    chosen.label_selector = selector;
    return answered(resource.group, [&] { return kube.list(resource, ns, chosen); });
  }

  // ---- HorizontalPodAutoscalers ----

  void read_resource(const Target& target, replicas::Readings& out) {
    const auto read = list(metrics_api("metrics.k8s.io", "v1beta1", "pods"), target.ns, target.selector);
    if (!read) return;
    auto& samples = out.resource.emplace();
    for (const auto& item : read->items) {
      replicas::ResourceSample one;
      one.pod = kube::name_of(item);
      one.at = from_rfc3339(item["timestamp"].string()).value_or(Instant{});
      if (const auto window = duration_of(item["window"].string())) one.window = *window;
      for (const auto& container : item["containers"].items()) {
        auto& usage = one.usage[container["name"].string()];
        for (const auto& [name, value] : container["usage"].members()) {
          if (const auto milli = milli_of(value)) usage[name] = *milli;
        }
      }
      samples.push_back(std::move(one));
    }
  }

  /// A duration as Go prints it: "30s", "1m0.5s".
  static std::optional<Duration> duration_of(const std::string& text) {
    double total = 0, number = 0;
    const char* at = text.c_str();
    while (*at != 0) {
      char* end = nullptr;
      number = std::strtod(at, &end);
      if (end == at) return {};
      const std::string_view unit(end);
      const double scale = unit.starts_with("ms")  ? 1e3
                           : unit.starts_with("h") ? 3.6e9
                           : unit.starts_with("m") ? 6e7
                                                   : 1e6;
      total += number * scale;
      at = end + (unit.starts_with("ms") ? 2 : 1);
    }
    return Duration(static_cast<std::int64_t>(total));
  }

  void read_pods(const Named& metric, const Target& target, replicas::Readings& out) {
    if (!options.prometheus.empty()) {
      const auto read =
          query(options.prometheus, pods_expression(metric.name, target.ns, target.pods, metric.selector));
      if (!read) return;
      auto& values = out.pods[metric.name];
      for (const auto& element : *read) {
        const auto pod = element.labels.find("pod");
        if (pod != element.labels.end()) values.push_back({pod->second, milli_from(element.value)});
      }
      std::ranges::sort(values, {}, &replicas::PodValue::pod);
      return;
    }
    const auto read = list(metrics_api("custom.metrics.k8s.io", "v1beta2", "pods/*/" + http::url_encode(metric.name)),
                           target.ns, target.selector);
    if (!read) return;
    auto& values = out.pods[metric.name];
    for (const auto& item : read->items) {
      if (const auto milli = milli_of(item["value"])) {
        values.push_back({item["describedObject"]["name"].string(), *milli});
      }
    }
  }

  void read_object(const Named& metric, const Target& target, replicas::Readings& out) {
    const Json& object = (*metric.source)["describedObject"];
    const auto kind = object["kind"].string(), name = object["name"].string();
    if (!options.prometheus.empty()) {
      const auto read =
          query(options.prometheus, object_expression(metric.name, target.ns, kind, name, metric.selector));
      if (read && read->size() == 1) out.object[metric.name] = milli_from(read->front().value);
      return;
    }
    std::string word = kind;
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto& version = object["apiVersion"].string();
    const auto slash = version.find('/');
    const auto group = slash == std::string::npos ? std::string() : "." + version.substr(0, slash);
    const auto path = fmt::format("{}s{}/{}/{}", word, group, http::url_encode(name), http::url_encode(metric.name));
    const auto read = list(metrics_api("custom.metrics.k8s.io", "v1beta2", path), target.ns, metric.selector);
    if (!read || read->items.size() != 1) return;
    if (const auto milli = milli_of(read->items[0]["value"])) out.object[metric.name] = *milli;
  }

  void read_external(const Named& metric, const Target& target, replicas::Readings& out) {
    if (!options.prometheus.empty()) {
      const auto read = query(options.prometheus, external_expression(metric.name, target.ns, metric.selector));
      if (!read) return;
      auto& values = out.external[metric.name];
      for (const auto& element : *read) values.push_back(milli_from(element.value));
      return;
    }
    const auto read = list(metrics_api("external.metrics.k8s.io", "v1beta1", http::url_encode(metric.name)), target.ns,
                           metric.selector);
    if (!read) return;
    auto& values = out.external[metric.name];
    for (const auto& item : read->items) {
      if (const auto milli = milli_of(item["value"])) values.push_back(*milli);
    }
  }

  void read_autoscaler(const Json& spec, const Target& target, replicas::Readings& out) {
    // Without metrics the API has the default: cpu.
    bool resource = spec["metrics"].size() == 0;
    for (const auto& entry : spec["metrics"].items()) {
      const Named metric = named(entry);
      if (metric.type == "Resource" || metric.type == "ContainerResource") resource = true;
      if (metric.type == "Pods") read_pods(metric, target, out);
      if (metric.type == "Object") read_object(metric, target, out);
      if (metric.type == "External") read_external(metric, target, out);
    }
    if (resource) read_resource(target, out);
  }

  // ---- triggers ----

  replicas::Reading read_queue(const Json& meta) {
    if (!options.aws) return replicas::FailedReading{"there are no credentials for SQS: set AWS_ACCESS_KEY_ID"};
    const auto& region = meta["awsRegion"].string();
    auto& client = queues[region];
    if (!client) {
      cloud::AwsOptions own = *options.aws;
      if (!region.empty() && own.endpoint.empty()) own.region = region;
      own.timeout_ms = static_cast<int>(options.timeout.count());
      own.max_attempts = 1;  // the next sample is the next attempt
      client = std::make_unique<cloud::Aws>(std::move(own));
    }
    const auto read = answered("sqs/" + region, [&] { return client->queue_depth(meta["queueURL"].string()); });
    if (!read) return replicas::FailedReading{read.error().message};
    return replicas::QueueReading{read->visible, read->in_flight, read->delayed};
  }

  replicas::Reading read_topic(const Json& meta) {
    const auto& brokers = meta["bootstrapServers"].string();
    const auto& sasl = meta["sasl"].string();
    if (!sasl.empty() && sasl != "none") {
      return replicas::FailedReading{fmt::format("sasl {} is not supported: use brokers without it", sasl)};
    }
    const auto read = answered(
        "kafka/" + brokers, [&] { return lag.read(brokers, meta["consumerGroup"].string(), meta["topic"].string()); });
    if (!read) return replicas::FailedReading{read.error().message};
    replicas::TopicReading out;
    for (const auto& [partition, offsets] : *read) out[partition] = {offsets.latest, offsets.committed};
    return out;
  }

  replicas::Reading read_query(const Json& meta) {
    const auto& modes = meta["authModes"].string();
    if (!modes.empty()) {
      return replicas::FailedReading{fmt::format("authModes {} are not supported: use a server without them", modes)};
    }
    const auto read = query(meta["serverAddress"].string(), meta["query"].string());
    if (!read) return replicas::FailedReading{read.error().message};
    return replicas::QueryReading{read->size(), read->size() == 1 ? read->front().value : 0};
  }

  void read_triggers(const WatchedScaler& scaler, const Target& target, ReadingsRow& out) {
    const auto& triggers = scaler.manifest["spec"]["triggers"];
    bool resource = false;
    for (std::size_t i = 0; i < scaler.triggers.size(); ++i) {
      const Json& meta = triggers.at(i)["metadata"];
      const auto& type = triggers.at(i)["type"].string();
      const auto& name = scaler.triggers[i];
      if (type == "cpu" || type == "memory") resource = true;
      if (type == "aws-sqs-queue") out.triggers[name] = read_queue(meta);
      if (type == "kafka" || type == "apache-kafka") out.triggers[name] = read_topic(meta);
      if (type == "prometheus") out.triggers[name] = read_query(meta);
    }
    if (resource) read_resource(target, out.metrics);
  }
};

MetricSources::MetricSources(kube::Client& kube, Options options)
    : impl_(std::make_unique<Impl>(kube, std::move(options))) {}
MetricSources::~MetricSources() = default;

ReadingsRow MetricSources::read(const WatchedScaler& scaler, const Target& target) {
  ReadingsRow out;
  if (scaler.manifest["kind"].string() == name_of(ScalerKind::kHpa)) {
    impl_->read_autoscaler(scaler.manifest["spec"], target, out.metrics);
  } else {
    impl_->read_triggers(scaler, target, out);
  }
  return out;
}

}  // namespace qm::autoscaler
