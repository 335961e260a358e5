// The metadata of triggers: texts, with the names, defaults and checks of KEDA's scalers. Fields about connections and
// credentials are known and not read.
#include "trigger_fields.hpp"

#include "arithmetic.hpp"
#include "qm/base/parse.hpp"
#include "qm/model/quantity.hpp"

#include <cmath>
#include <limits>

namespace qm::autoscaler::replicas {
namespace {

std::int64_t milli_target(double value) { return to_int64(std::round(value * 1000)); }

std::optional<Trigger> read_resource(Fields& meta, std::string type, std::optional<std::size_t> metric_type) {
  Trigger out;
  ResourceTrigger source;
  source.metric.name = std::move(type);
  source.metric.container = meta.text("containerName", false);
  source.metric.source = source.metric.container.empty() ? MetricSource::kResource : MetricSource::kContainerResource;
  if (metric_type == 1U) meta.wrong("value", "cannot be a target of type Value", "use Utilization or AverageValue");
  const auto value = meta.text("value", true);
  if (metric_type == 0U) {
    source.metric.type = TargetType::kAverageValue;
    source.metric.milli = meta.quantity_milli("value").value_or(1);
  } else {
    const auto percent = whole_number<std::int32_t>(value);
    if (!percent || *percent < 1) meta.wrong("value", "must be a whole number above 0");
    source.metric.utilization = percent.value_or(1);
  }
  out.source = std::move(source);
  return out;
}

std::optional<Trigger> read_cron(Fields& meta, Fault& fault) {
  const auto zone = calendar::Zone::load(meta.text("timezone", true));
  if (!zone) meta.wrong("timezone", "is not a time zone", zone.error().remedy);
  const auto line = [&](const char* name) {
    const auto text = meta.text(name, true);
    auto cron = calendar::Cron::parse(text, calendar::CronDialect::kRobfig);
    if (!cron || text.starts_with('@')) {
      meta.wrong(name, cron ? "must have five fields" : cron.error().message, "write it as 0 8 * * MON-FRI");
    }
    return cron;
  };
  const auto start = line("start"), end = line("end");
  if (meta.text("start", true) == meta.text("end", true)) meta.wrong("end", "is equal to start");
  const auto desired = meta.whole_text("desiredReplicas", -1, 0);
  if (desired < 0) meta.wrong("desiredReplicas", "is missing");
  if (fault) return {};
  Trigger out;
  out.source = CronTrigger{*start, *end, *zone, desired};
  out.target_milli = 1000;
  return out;
}

std::optional<Trigger> read_sqs(Fields& meta) {
  Trigger out;
  SqsTrigger source;
  source.activation = meta.whole_text("activationQueueLength", 0, std::numeric_limits<std::int64_t>::min());
  source.in_flight = meta.boolean_text("scaleOnInFlight", true);
  source.delayed = meta.boolean_text("scaleOnDelayed", false);
  out.target_milli = wrapped_product(meta.whole_text("queueLength", 5, 1), 1000);
  meta.known({"queueURL", "queueURLFromEnv", "awsRegion", "awsEndpoint", "identityOwner"});
  out.source = source;
  return out;
}

/// "0,2-5": partitions and ranges of them.
std::set<std::int32_t> read_partitions(Fields& meta) {
  std::set<std::int32_t> out;
  const auto text = meta.text("partitionLimitation", false);
  if (text.empty()) return out;
  for (auto item : split(text, ',')) {
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    const auto ends = split(item, '-');
    const auto low = whole_number<std::int32_t>(ends.front()), high = whole_number<std::int32_t>(ends.back());
    if (ends.size() > 2 || !low || !high || *low > *high || *high - *low > 100'000) {
      meta.wrong("partitionLimitation", "is not a list of partitions", "write it as 0,2-5");
      return out;
    }
    for (auto n = *low; n <= *high; ++n) out.insert(n);
  }
  return out;
}

std::optional<Trigger> read_kafka(Fields& meta) {
  Trigger out;
  KafkaTrigger source;
  source.lag_threshold = meta.whole_text("lagThreshold", 10, 1);
  source.activation = meta.whole_text("activationLagThreshold", 0, 0);
  source.earliest = meta.word("offsetResetPolicy", {"latest", "earliest"}) == 1U;
  source.allow_idle_consumers = meta.boolean_text("allowIdleConsumers", false);
  source.zero_on_invalid_offset = meta.boolean_text("scaleToZeroOnInvalidOffset", false);
  source.exclude_persistent_lag = meta.boolean_text("excludePersistentLag", false);
  source.limit_to_partitions_with_lag = meta.boolean_text("limitToPartitionsWithLag", false);
  source.even_distribution = meta.boolean_text("ensureEvenDistributionOfPartitions", false);
  source.partitions = read_partitions(meta);
  if (source.allow_idle_consumers && source.limit_to_partitions_with_lag) {
    meta.wrong("limitToPartitionsWithLag", "excludes allowIdleConsumers", "set one of them");
  }
  if (meta.text("topic", false).empty()) {
    if (source.limit_to_partitions_with_lag) meta.wrong("topic", "is missing, and limitToPartitionsWithLag needs it");
    source.partitions.clear();
  }
  meta.known({"bootstrapServers", "bootstrapServersFromEnv", "consumerGroup", "consumerGroupFromEnv", "topicFromEnv",
              "version", "sasl", "tls", "saslTokenProvider", "scopes", "oauthTokenEndpointUri", "awsRegion",
              "unsafeSsl"});
  out.target_milli = wrapped_product(source.lag_threshold, 1000);
  out.source = std::move(source);
  return out;
}

std::optional<Trigger> read_prometheus(Fields& meta) {
  Trigger out;
  PrometheusTrigger source;
  const auto threshold = meta.number_text("threshold");
  if (!threshold || *threshold <= 0) meta.wrong("threshold", "must be a number above 0");
  source.activation = meta.number_text("activationThreshold").value_or(0);
  source.ignore_null_values = meta.boolean_text("ignoreNullValues", true);
  meta.known({"serverAddress", "query", "queryParameters", "namespace", "customHeaders", "cortexOrgID", "unsafeSsl",
              "timeout", "authModes", "awsRegion"});
  out.target_milli = milli_target(threshold.value_or(1));
  out.source = source;
  return out;
}

}  // namespace

std::optional<Trigger> read_trigger(Fields& in, std::size_t index) {
  const auto type = in.text("type", true);
  const auto metric_type = in.word("metricType", {"AverageValue", "Value", "Utilization"});
  if (in.any("useCachedMetrics").boolean()) in.wrong("useCachedMetrics", "is not supported", "remove it");
  in.known({"authenticationRef"});
  const auto name = in.text("name", false);
  Fault& fault = in.fault();
  auto meta = in.object("metadata");
  std::optional<Trigger> out;
  const bool resource = type == "cpu" || type == "memory";
  if (resource) {
    out = read_resource(meta, type, metric_type);
  } else if (type == "cron") {
    out = read_cron(meta, fault);
  } else if (type == "aws-sqs-queue") {
    out = read_sqs(meta);
  } else if (type == "kafka" || type == "apache-kafka") {
    out = read_kafka(meta);
  } else if (type == "prometheus") {
    out = read_prometheus(meta);
  } else {
    in.wrong("type", "is not a supported trigger", "use cpu, memory, cron, aws-sqs-queue, kafka or prometheus");
    return {};
  }
  if (!resource && metric_type == 2U)
    in.wrong("metricType", "is for cpu and memory alone", "use AverageValue or Value");
  meta.end();
  if (!out || fault) return {};
  out->name = name.empty() ? fmt::format("s{}-{}", index, type) : name;
  out->value_target = metric_type == 1U;
  return out;
}

}  // namespace qm::autoscaler::replicas
