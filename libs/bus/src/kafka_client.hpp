#pragma once
#include "kafka_security.hpp"
#include "qm/bus/bus.hpp"

#include <algorithm>
#include <memory>
#include <vector>

struct rd_kafka_s;
struct rd_kafka_conf_s;

namespace qm::bus {

// Shared by the files of the Kafka carrier.

inline constexpr std::size_t kMaxMessage = kMaxValue + (64 << 10);  ///< with key and headers

inline int ms(SteadyDuration d) {
  return static_cast<int>(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(d).count()));
}

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
template <class T, auto Free>
using Handle = std::unique_ptr<T, Deleter<Free>>;

struct KafkaClientDeleter {
  void operator()(rd_kafka_s* client) const;
};
struct KafkaConfigDeleter {
  void operator()(rd_kafka_conf_s* conf) const;
};
using KafkaClient = std::unique_ptr<rd_kafka_s, KafkaClientDeleter>;

/// The configuration of one client. The settings of the service override the operator's, which follow '?' in the bus
/// setting.
class KafkaConfig {
 public:
  KafkaConfig();
  Status set(const KafkaSettings& settings);  ///< kInvalid: librdkafka does not know a setting
  rd_kafka_conf_s* get() { return conf_.get(); }
  /// May be called once. kInvalid: the settings contradict each other.
  Result<KafkaClient> make_producer();
  Result<KafkaClient> make_consumer();

 private:
  Result<KafkaClient> make(int type);
  std::unique_ptr<rd_kafka_conf_s, KafkaConfigDeleter> conf_;
};

/// The Error for an rd_kafka_resp_err_t.
Error error_of(int code, std::string_view what);

/// Raises the message size limit of each of these existing topics to kMaxMessage, and returns when the broker
/// reports it. A topic that may not be changed is not an error: a warning has the topic, its limit and the remedy.
///
/// Fails    kUnavailable: no answer in time.
Status raise_limits(rd_kafka_s* client, const std::vector<std::string>& topics);

}  // namespace qm::bus
