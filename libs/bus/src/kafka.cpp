// The bus on Kafka, by librdkafka's C interface.
//
// Producing: idempotent, acks=all. A publish that is not acknowledged in time discards the whole producer, with all
// queued records: so none of them is sent later, between or after the retry, and the versions of a key stay without
// gaps. Consuming: the start position is never a commit of the broker; the owner's cursor determines it at every
// assignment.
#include "assignment.hpp"
#include "carriers.hpp"
#include "kafka_client.hpp"
#include "kafka_log_reader.hpp"
#include "kafka_security.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/crash_point.hpp"
#include "qm/base/digest.hpp"
#include "qm/base/log.hpp"

#include <librdkafka/rdkafka.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

namespace qm::bus {

namespace {

using std::chrono::steady_clock;

constexpr auto kMetadataTimeout = std::chrono::seconds(5);
constexpr auto kCreateTimeout = std::chrono::seconds(20);
constexpr auto kReportEvery = std::chrono::seconds(1);
constexpr int kFirstVersionWithScram = 0x02060100;

using Client = KafkaClient;
using Config = KafkaConfig;
using Partitions = Handle<rd_kafka_topic_partition_list_t, &rd_kafka_topic_partition_list_destroy>;

using Settings = KafkaSettings;

/// Returns the partition counts of those requested topics that exist.
Result<std::map<std::string, int>> read_partitions(rd_kafka_t* client, const std::string* only,
                                                   SteadyDuration timeout) {
  Handle<rd_kafka_topic_t, &rd_kafka_topic_destroy> topic(
      only == nullptr ? nullptr : rd_kafka_topic_new(client, only->c_str(), nullptr));
  const rd_kafka_metadata_t* found = nullptr;
  const auto code = rd_kafka_metadata(client, topic ? 0 : 1, topic.get(), &found, ms(timeout));
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) return fail(error_of(code, "the topics cannot be listed"));
  const Handle<const rd_kafka_metadata_t, &rd_kafka_metadata_destroy> owner(found);
  std::map<std::string, int> out;
  for (int i = 0; i < found->topic_cnt; ++i) {
    const auto& entry = found->topics[i];
    if (only != nullptr && entry.err == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
      return fail(error_of(entry.err, fmt::format("topic {} is not visible", *only)));
    bool led = entry.err == RD_KAFKA_RESP_ERR_NO_ERROR && entry.partition_cnt > 0;
    for (int p = 0; p < entry.partition_cnt; ++p) led = led && entry.partitions[p].leader >= 0;
    if (led) out[entry.topic] = entry.partition_cnt;
  }
  return out;
}

class KafkaProducer final : public Producer {
 public:
  KafkaProducer(Settings settings, std::string client_id)
      : settings_(std::move(settings)), client_id_(std::move(client_id)) {}

  Status publish(std::span<const Record> records, SteadyDuration timeout) override {
    if (records.empty()) return {};
    QM_TRY(check_sizes(records));
    QM_CRASH_POINT("bus.before_publish");
    const auto until = steady_clock::now() + timeout;
    if (!client_) QM_TRY(connect());
    std::vector<std::pair<rd_kafka_topic_t*, int>> places;
    for (const auto& record : records) {
      QM_ASSIGN(const auto topic, find(record.topic, until - steady_clock::now()));
      places.emplace_back(topic.first, partition_of(record.key, topic.second));
    }
    waiting_ = 0;
    failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (std::size_t i = 0; i < records.size() && failed_ == RD_KAFKA_RESP_ERR_NO_ERROR; ++i)
      enqueue(records[i], places[i], until);
    QM_CRASH_POINT("kafka.in_publish");
    if (failed_ == RD_KAFKA_RESP_ERR_NO_ERROR) rd_kafka_flush(client_.get(), ms(until - steady_clock::now()));
    if (failed_ != RD_KAFKA_RESP_ERR_NO_ERROR || waiting_ > 0) return give_up();
    QM_CRASH_POINT("bus.after_publish");
    return {};
  }

 private:
  Status connect() {
    Config config;
    auto settings = settings_;
    settings["client.id"] = client_id_;
    settings["enable.idempotence"] = "true";
    settings["acks"] = "all";
    // Longer than the timeout of any publish: a message never expires alone, between its neighbors.
    settings["message.timeout.ms"] = "600000";
    settings["linger.ms"] = "1";
    settings["message.max.bytes"] = std::to_string(kMaxMessage);
    settings["queue.buffering.max.messages"] = "1000000";
    settings["topic.metadata.refresh.interval.ms"] = "30000";
    QM_TRY(config.set(settings));
    rd_kafka_conf_set_dr_msg_cb(config.get(), &delivered);
    rd_kafka_conf_set_opaque(config.get(), this);
    QM_ASSIGN(client_, config.make_producer());
    return {};
  }

  static void delivered(rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
    auto& producer = *static_cast<KafkaProducer*>(self);
    --producer.waiting_;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) producer.fail_with(message->err, message->rkt);
  }

  using Place = std::pair<rd_kafka_topic_t*, int>;
  Result<Place> find(const std::string& name, SteadyDuration timeout) {
    auto known = topics_.find(name);
    if (known == topics_.end()) {
      const auto found = read_partitions(client_.get(), &name, timeout);
      if (!found) return fail(explain_denial(found.error(), settings_, {name, {}, true}));
      const auto count = found->find(name);
      if (count == found->end()) return fail(no_topic(name));
      known =
          topics_.emplace(name, Known{Topic(rd_kafka_topic_new(client_.get(), name.c_str(), nullptr)), count->second})
              .first;
    }
    return Place(known->second.topic.get(), known->second.partitions);
  }

  void enqueue(const Record& record, const Place& place, steady_clock::time_point until) {
    ++waiting_;
    while (rd_kafka_produce(place.first, place.second, RD_KAFKA_MSG_F_COPY,
                            const_cast<char*>(record.value.data()),  // copied, not written: required by the C interface
                            record.value.size(), record.key.data(), record.key.size(), nullptr) != 0) {
      const auto code = rd_kafka_last_error();
      if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL || steady_clock::now() >= until) {
        --waiting_;
        fail_with(code, place.first);
        return;
      }
      rd_kafka_poll(client_.get(), 10);
    }
  }

  void fail_with(rd_kafka_resp_err_t code, const rd_kafka_topic_t* topic) {
    if (failed_ == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) return;  // a retry does not solve this error
    failed_ = code;
    failed_topic_ = rd_kafka_topic_name(topic);
  }

  Status give_up() {
    char why[512] = "";
    auto error = failed_ == RD_KAFKA_RESP_ERR_NO_ERROR
                     ? Error{Code::kUnknown, fmt::format("{} records are not acknowledged in time", waiting_), "", ""}
                     : error_of(failed_, "topic " + failed_topic_ + " did not accept a record");
    if (const auto fatal = rd_kafka_fatal_error(client_.get(), why, sizeof why); fatal != RD_KAFKA_RESP_ERR_NO_ERROR)
      error = error_of(fatal, why);
    // A producer without an id fails as a whole; other errors concern one topic.
    const bool whole =
        rd_kafka_fatal_error(client_.get(), why, sizeof why) == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    error = explain_denial(std::move(error), settings_, {whole ? std::string() : failed_topic_, {}, true});
    if (error.code == Code::kUnavailable) error.code = Code::kUnknown;
    if (error.code == Code::kOutOfRange)
      error.remedy = fmt::format("set max.message.bytes of topic {} to {}", failed_topic_, kMaxMessage);
    log::warn("the Kafka producer is discarded", {{"client", client_id_}, {"error", error.message}});
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_flush(client_.get(), 1000);
    topics_.clear();
    client_.reset();
    return fail(error.with_context("publishing as " + client_id_));
  }

  using Topic = Handle<rd_kafka_topic_t, &rd_kafka_topic_destroy>;
  struct Known {
    Topic topic;
    int partitions;
  };
  Settings settings_;
  std::string client_id_;
  Client client_;
  std::map<std::string, Known> topics_;  // after client_: freed before it
  std::int64_t waiting_ = 0;
  rd_kafka_resp_err_t failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;
  std::string failed_topic_;
};

/// The broker assigns the previous partitions to a rejoining instance without comparing its topics: a program that
/// reads one more topic than before would never receive it. So the topics are part of the name.
std::string place_name(const ConsumerOptions& options) {
  std::set<std::string> topics(options.topics.begin(), options.topics.end());
  std::string all;
  for (const auto& topic : topics) all += topic + "\n";
  std::string out = fmt::format("{}.{:016x}", options.instance, stable_hash(all));
  const auto legal = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-'; };
  std::ranges::replace_if(
      out, [&](unsigned char c) { return !legal(c); }, '-');
  return out;
}

class KafkaConsumer final : public Consumer {
 public:
  explicit KafkaConsumer(ConsumerOptions options) : options_(std::move(options)) {}

  Status open(Settings settings) {
    settings_ = settings;
    reader_.emplace(settings);
    const auto session = std::chrono::duration_cast<std::chrono::milliseconds>(options_.session_timeout).count();
    settings["group.id"] = options_.group;
    if (!options_.instance.empty()) settings["group.instance.id"] = place_name(options_);
    settings["enable.auto.commit"] = "false";
    settings["enable.auto.offset.store"] = "false";
    settings["auto.offset.reset"] = "earliest";
    // Not cooperative-sticky: librdkafka 2.0 aborts the process in that assignor when a static member is fenced
    // during a rebalance, as happens when a broker dies before it sends a response.
    settings["partition.assignment.strategy"] = "roundrobin";
    settings["session.timeout.ms"] = std::to_string(session);
    settings["heartbeat.interval.ms"] = std::to_string(std::max<std::int64_t>(session / 6, 100));
    settings["allow.auto.create.topics"] = "false";
    settings["topic.metadata.refresh.interval.ms"] = "10000";
    Config config;
    QM_TRY(config.set(settings));
    rd_kafka_conf_set_rebalance_cb(config.get(), &rebalance);
    rd_kafka_conf_set_opaque(config.get(), this);
    QM_ASSIGN(client_, config.make_consumer());
    rd_kafka_poll_set_consumer(client_.get());
    const Partitions topics(rd_kafka_topic_partition_list_new(static_cast<int>(options_.topics.size())));
    for (const auto& topic : options_.topics)
      rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
    if (const auto code = rd_kafka_subscribe(client_.get(), topics.get()); code != RD_KAFKA_RESP_ERR_NO_ERROR)
      return fail(error_of(code, "subscribing as " + options_.group));
    QM_CRASH_POINT("bus.after_join");
    return {};
  }

  ~KafkaConsumer() override {
    if (!client_) return;
    flush_reports();
    rd_kafka_consumer_close(client_.get());
  }

  Result<std::vector<Message>> poll(std::size_t max, SteadyDuration timeout) override {
    if (options_.wake != nullptr) timeout = std::min<SteadyDuration>(timeout, kPollSlice);
    const auto until = steady_clock::now() + timeout;
    if (steady_clock::now() >= next_report_) flush_reports();
    std::vector<Message> out;
    for (std::size_t bytes = 0; out.size() < max && bytes < kPollBytes;) {
      const auto wait = out.empty() ? until - steady_clock::now() : SteadyDuration(0);
      const Handle<rd_kafka_message_t, &rd_kafka_message_destroy> message(
          rd_kafka_consumer_poll(client_.get(), ms(wait)));
      if (!message) {
        if (out.empty() && steady_clock::now() < until) continue;
        break;
      }
      if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        QM_TRY(judge(*message));
        continue;
      }
      bytes += message->len;
      take(*message, out);
    }
    QM_CRASH_POINT("bus.after_poll");
    return out;
  }

  void report(const TopicPartition& at, std::int64_t next_offset) override { reports_[at] = next_offset; }

  [[nodiscard]] std::vector<TopicPartition> assignment() const override {
    std::vector<TopicPartition> out;
    for (const auto& [at, next] : positions_) out.push_back(at);
    return out;
  }

  [[nodiscard]] std::int64_t lag() const override {
    std::int64_t out = 0;
    for (const auto& [at, next] : positions_) {
      const auto [low, high] = kept(at);
      if (high < 0) return -1;
      out += std::max<std::int64_t>(0, high - std::max(low, next));
    }
    return out;
  }
  [[nodiscard]] std::map<TopicPartition, std::int64_t> ends() const override {
    std::map<TopicPartition, std::int64_t> out;
    for (const auto& [at, next] : positions_) {
      if (const auto high = kept(at).second; high >= 0) out[at] = high;
    }
    return out;
  }
  Result<std::optional<std::string>> value_at(const TopicPartition& at, std::int64_t offset,
                                              SteadyDuration timeout) override {
    return reader_->value_at(at, offset, timeout);
  }

 private:
  /// First offset and end of the retained log, as of the last fetch; -1 while unknown.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> kept(const TopicPartition& at) const {
    std::int64_t low = -1, high = -1;
    const auto code = rd_kafka_get_watermark_offsets(client_.get(), at.topic.c_str(), at.partition, &low, &high);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR ? std::pair(low, high) : std::pair<std::int64_t, std::int64_t>(-1, -1);
  }
  static TopicPartition place(const rd_kafka_topic_partition_t& p) { return {p.topic, p.partition}; }

  static void rebalance(rd_kafka_t* client, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t* list,
                        void* self) {
    auto& me = *static_cast<KafkaConsumer*>(self);
    // Every rebalance revokes all partitions and assigns the new ones from their cursors.
    me.positions_.clear();
    me.reports_.clear();
    const bool given = code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    for (int i = 0; given && i < list->cnt; ++i) {
      auto& entry = list->elems[i];
      const auto cursor = me.options_.cursor ? me.options_.cursor(place(entry)) : -1;
      entry.offset = cursor < 0 ? static_cast<std::int64_t>(RD_KAFKA_OFFSET_BEGINNING) : cursor;
      me.positions_[place(entry)] = cursor;
    }
    const auto refused = rd_kafka_assign(client, given ? list : nullptr);
    if (given) QM_CRASH_POINT("bus.after_assign");
    if (refused != RD_KAFKA_RESP_ERR_NO_ERROR)
      log::error("an assignment of partitions was refused",
                 {{"group", me.options_.group}, {"error", rd_kafka_err2str(refused)}});
  }

  /// Errors that librdkafka recovers from are not returned.
  Status judge(const rd_kafka_message_t& message) const {
    char why[512] = "";
    const auto fatal = rd_kafka_fatal_error(client_.get(), why, sizeof why);
    if (fatal == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID) return fail(displaced(options_.group, options_.instance));
    if (fatal != RD_KAFKA_RESP_ERR_NO_ERROR)
      return fail(error_of(fatal, why).with_context("reading as " + options_.group));
    switch (message.err) {
      case RD_KAFKA_RESP_ERR__TRANSPORT:
      case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
      case RD_KAFKA_RESP_ERR__RESOLVE:
      case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
      case RD_KAFKA_RESP_ERR__PARTITION_EOF:
        return {};
      case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
        log::warn("the cursor is outside the log, reading from its oldest message", {{"group", options_.group}});
        return {};
      default: {
        const char* text = rd_kafka_message_errstr(&message);
        const bool of_group = message.err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
        auto error =
            error_of(message.err, text == nullptr ? "reading" : text).with_context("reading as " + options_.group);
        return fail(explain_denial(std::move(error), settings_,
                                   {message.rkt == nullptr ? std::string() : rd_kafka_topic_name(message.rkt),
                                    of_group ? options_.group : std::string()}));
      }
    }
  }

  void take(const rd_kafka_message_t& message, std::vector<Message>& out) {
    const TopicPartition at{rd_kafka_topic_name(message.rkt), message.partition};
    const auto position = positions_.find(at);
    if (position == positions_.end()) return;  // of a previous assignment
    position->second = message.offset + 1;
    out.push_back({at, message.offset, std::string(static_cast<const char*>(message.key), message.key_len),
                   std::string(static_cast<const char*>(message.payload), message.len)});
  }

  void flush_reports() {
    next_report_ = steady_clock::now() + kReportEvery;
    if (reports_.empty()) return;
    const Partitions list(rd_kafka_topic_partition_list_new(static_cast<int>(reports_.size())));
    for (const auto& [at, next] : reports_)
      rd_kafka_topic_partition_list_add(list.get(), at.topic.c_str(), at.partition)->offset = next;
    reports_.clear();
    rd_kafka_commit(client_.get(), list.get(), 1);
  }

  ConsumerOptions options_;
  Settings settings_;
  Client client_;
  std::optional<KafkaLogReader> reader_;
  std::map<TopicPartition, std::int64_t> positions_;
  std::map<TopicPartition, std::int64_t> reports_;
  steady_clock::time_point next_report_{};
};

class KafkaBus final : public Bus {
 public:
  explicit KafkaBus(Settings settings) : settings_(std::move(settings)) {}

  Status open() {
    Config config;
    QM_TRY(config.set(settings_));
    QM_ASSIGN(admin_, config.make_producer());
    return {};
  }

  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    QM_ASSIGN(const auto before, read_partitions(admin_.get(), nullptr, kMetadataTimeout));
    std::vector<std::string> missing, standing;
    for (const auto& topic : topics) {
      const auto found = before.find(topic);
      if (found == before.end()) {
        missing.push_back(topic);
      } else if (found->second != partitions) {
        return fail(other_partitions(topic, found->second, partitions));
      } else {
        standing.push_back(topic);
      }
    }
    QM_TRY(raise_limits(admin_.get(), standing));
    if (missing.empty()) return {};
    QM_TRY(create(missing, partitions));
    // The client that creates a topic sees it before every broker knows its leaders.
    const auto until = steady_clock::now() + kCreateTimeout;
    while (true) {
      QM_ASSIGN(const auto now, read_partitions(admin_.get(), nullptr, kMetadataTimeout));
      const auto here = [&](const std::string& topic) { return now.contains(topic); };
      if (std::ranges::all_of(missing, here)) return {};
      if (steady_clock::now() > until)
        return fail(Code::kDeadlineExceeded, "topic {} was created but has no leader yet", missing.front());
      rd_kafka_poll(admin_.get(), 50);
    }
  }

  Result<std::unique_ptr<Producer>> producer(const std::string& client_id) override {
    return std::make_unique<KafkaProducer>(settings_, client_id);
  }
  Result<std::unique_ptr<Consumer>> consumer(ConsumerOptions options) override {
    auto out = std::make_unique<KafkaConsumer>(std::move(options));
    QM_TRY(out->open(settings_));
    return out;
  }
  [[nodiscard]] std::string name() const override { return "kafka"; }

 private:
  Status create(const std::vector<std::string>& missing, int partitions) {
    std::vector<rd_kafka_NewTopic_t*> wanted;
    char why[512];
    for (const auto& topic : missing) {
      auto* made = rd_kafka_NewTopic_new(topic.c_str(), partitions, -1, why, sizeof why);  // -1: the broker's default
      if (made == nullptr) {
        rd_kafka_NewTopic_destroy_array(wanted.data(), wanted.size());
        return fail(Error{Code::kInvalid, fmt::format("topic {} cannot be created: {}", topic, why), "topics", ""});
      }
      using std::chrono::milliseconds;
      const std::pair<const char*, std::int64_t> settings[] = {
          {"retention.ms", milliseconds(kRetention).count()},
          {"segment.ms", milliseconds(std::chrono::hours(24)).count()},
          {"max.message.bytes", static_cast<std::int64_t>(kMaxMessage)}};
      for (const auto& [name, value] : settings)
        rd_kafka_NewTopic_set_config(made, name, std::to_string(value).c_str());
      wanted.push_back(made);
    }
    const Handle<rd_kafka_queue_t, &rd_kafka_queue_destroy> queue(rd_kafka_queue_new(admin_.get()));
    rd_kafka_CreateTopics(admin_.get(), wanted.data(), wanted.size(), nullptr, queue.get());
    rd_kafka_NewTopic_destroy_array(wanted.data(), wanted.size());
    const Handle<rd_kafka_event_t, &rd_kafka_event_destroy> event(rd_kafka_queue_poll(queue.get(), ms(kCreateTimeout)));
    if (!event) return fail(Code::kUnavailable, "creating topics had no answer in time");
    if (const auto code = rd_kafka_event_error(event.get()); code != RD_KAFKA_RESP_ERR_NO_ERROR)
      return fail(error_of(code, "creating topics"));
    std::size_t count = 0;
    const auto* results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto code = rd_kafka_topic_result_error(results[i]);
      if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
        return fail(
            explain_denial(error_of(code, fmt::format("creating topic {}", rd_kafka_topic_result_name(results[i]))),
                           settings_, {rd_kafka_topic_result_name(results[i]), {}, true}));
    }
    return {};
  }

  Settings settings_;
  Client admin_;
};

/// "host:port,host:port?name=value&name=value"; the names are librdkafka's, for TLS and SASL.
Result<Settings> parse(const std::string& text) {
  const auto mark = text.find('?');
  Settings out{{"bootstrap.servers", text.substr(0, mark)}};
  for (auto at = mark; at != std::string::npos;) {
    const auto end = text.find('&', at + 1);
    const auto pair = text.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const auto equals = pair.find('=');
    if (equals == std::string::npos)  // not shown: it may be the rest of a password
      return fail(
          Error{Code::kInvalid, "a setting after '?' has no value", "bus", "write kafka:host:port?name=value&..."});
    out[pair.substr(0, equals)] = pair.substr(equals + 1);
    at = end;
  }
  QM_TRY(expand_tls(out));
  const auto mechanism = out.find("sasl.mechanisms");
  if (mechanism != out.end() && mechanism->second.starts_with("SCRAM") && rd_kafka_version() < kFirstVersionWithScram)
    return fail(
        Error{Code::kFailedPrecondition,
              fmt::format("librdkafka {} cannot log in to Kafka 4 by SCRAM: it would be answered that the password "
                          "is wrong",
                          rd_kafka_version_str()),
              "bus", "use TLS client certificates or PLAIN over TLS, or librdkafka 2.6.1"});
  return out;
}

}  // namespace

Result<std::shared_ptr<Bus>> kafka_bus(const std::string& setting) {
  QM_ASSIGN(auto settings, parse(setting));
  auto bus = std::make_shared<KafkaBus>(std::move(settings));
  QM_TRY(bus->open());
  return bus;
}

}  // namespace qm::bus
