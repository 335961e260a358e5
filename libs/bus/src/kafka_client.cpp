#include "kafka_client.hpp"

#include "qm/base/log.hpp"

#include <librdkafka/rdkafka.h>

namespace qm::bus {
namespace {

/// Syslog levels. librdkafka logs a lost connection at 3; here it is a warning, because the client reconnects.
void log_line(const rd_kafka_t*, int level, const char* facility, const char* text) {
  const auto ours = level <= 2 ? log::Level::kError : level <= 5 ? log::Level::kWarn : log::Level::kInfo;
  log::write(ours, "librdkafka", {{"facility", facility}, {"text", text}});
}

}  // namespace

Error error_of(int code, std::string_view what) {
  Code ours = Code::kUnavailable;
  switch (static_cast<rd_kafka_resp_err_t>(code)) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
      ours = Code::kPermissionDenied;
      break;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
      ours = Code::kUnauthenticated;
      break;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
      ours = Code::kNotFound;
      break;
    case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
      ours = Code::kUnimplemented;
      break;
    case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
      ours = Code::kAborted;
      break;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
      ours = Code::kOutOfRange;
      break;
    case RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT:
    case RD_KAFKA_RESP_ERR_INVALID_CONFIG:
      ours = Code::kInvalid;
      break;
    default:
      break;
  }
  return {ours, fmt::format("{}: {}", what, rd_kafka_err2str(static_cast<rd_kafka_resp_err_t>(code))), "", ""};
}

void KafkaClientDeleter::operator()(rd_kafka_s* client) const { rd_kafka_destroy(client); }
void KafkaConfigDeleter::operator()(rd_kafka_conf_s* conf) const { rd_kafka_conf_destroy(conf); }

KafkaConfig::KafkaConfig() : conf_(rd_kafka_conf_new()) {
  rd_kafka_conf_set_log_cb(conf_.get(), &log_line);
  // The library waits up to 10 s between attempts to reach a broker that was unavailable; here at most a second.
  char why[512];
  rd_kafka_conf_set(conf_.get(), "reconnect.backoff.max.ms", "1000", why, sizeof why);
}

Status KafkaConfig::set(const KafkaSettings& settings) {
  char why[512];
  for (const auto& [key, value] : settings)
    if (rd_kafka_conf_set(conf_.get(), key.c_str(), value.c_str(), why, sizeof why) != RD_KAFKA_CONF_OK)
      return fail(Error{Code::kInvalid, why, "bus", "the configuration page of librdkafka lists the names"});
  return {};
}

Result<KafkaClient> KafkaConfig::make(int type) {
  char why[512];
  KafkaClient client(rd_kafka_new(static_cast<rd_kafka_type_t>(type), conf_.get(), why, sizeof why));
  if (!client) return fail(Code::kInvalid, "a Kafka client cannot be created: {}", why);
  (void)conf_.release();  // the client owns it now
  return client;
}

Result<KafkaClient> KafkaConfig::make_producer() { return make(RD_KAFKA_PRODUCER); }
Result<KafkaClient> KafkaConfig::make_consumer() { return make(RD_KAFKA_CONSUMER); }

}  // namespace qm::bus
