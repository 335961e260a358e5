// Changes one setting of an existing topic: the maximum message size.
//
// AlterConfigs replaces all settings of a topic with the given ones, so the request includes all existing ones. Two
// processes that change the same topic at the same time write the same values.
#include "kafka_client.hpp"
#include "qm/base/log.hpp"

#include <fmt/ranges.h>
#include <librdkafka/rdkafka.h>

#include <map>

namespace qm::bus {
namespace {

using std::chrono::steady_clock;

constexpr const char* kName = "max.message.bytes";
constexpr auto kTimeout = std::chrono::seconds(20);

/// The settings of a topic; or the error of reading them.
struct TopicSettings {
  std::int64_t limit = 0;
  std::map<std::string, std::string> own;  ///< set for this topic, not the broker's defaults
  std::string refused;
};
using ByTopic = std::map<std::string, TopicSettings>;

/// The resources of a request, freed with it.
class Resources {
 public:
  void add(const std::string& topic, const std::map<std::string, std::string>& settings = {}) {
    auto* made = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.c_str());
    for (const auto& [name, value] : settings) rd_kafka_ConfigResource_set_config(made, name.c_str(), value.c_str());
    all_.push_back(made);
  }
  ~Resources() { rd_kafka_ConfigResource_destroy_array(all_.data(), all_.size()); }
  Resources() = default;
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;
  rd_kafka_ConfigResource_t** data() { return all_.data(); }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  std::vector<rd_kafka_ConfigResource_t*> all_;
};

using Event = Handle<rd_kafka_event_t, &rd_kafka_event_destroy>;
using Queue = Handle<rd_kafka_queue_t, &rd_kafka_queue_destroy>;

template <class Request>
Result<Event> ask(rd_kafka_t* client, Request request, Resources& resources, std::string_view what) {
  const Queue queue(rd_kafka_queue_new(client));
  request(client, resources.data(), resources.size(), nullptr, queue.get());
  Event event(rd_kafka_queue_poll(queue.get(), ms(kTimeout)));
  if (!event) return fail(Code::kUnavailable, "{} had no answer in time", what);
  if (const auto code = rd_kafka_event_error(event.get()); code != RD_KAFKA_RESP_ERR_NO_ERROR)
    return fail(error_of(code, what));
  return event;
}

std::string refusal(const rd_kafka_ConfigResource_t* resource) {
  const auto code = rd_kafka_ConfigResource_error(resource);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return "";
  const char* text = rd_kafka_ConfigResource_error_string(resource);
  return text == nullptr ? rd_kafka_err2str(code) : text;
}

Result<ByTopic> read(rd_kafka_t* client, const std::vector<std::string>& topics) {
  Resources wanted;
  for (const auto& topic : topics) wanted.add(topic);
  QM_ASSIGN(const auto event, ask(client, &rd_kafka_DescribeConfigs, wanted, "reading the settings of topics"));
  ByTopic out;
  std::size_t count = 0;
  const auto* found =
      rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event.get()), &count);
  for (std::size_t i = 0; i < count; ++i) {
    auto& topic = out[rd_kafka_ConfigResource_name(found[i])];
    topic.refused = refusal(found[i]);
    std::size_t settings = 0;
    const auto* entries = rd_kafka_ConfigResource_configs(found[i], &settings);
    for (std::size_t k = 0; k < settings; ++k) {
      const char* value = rd_kafka_ConfigEntry_value(entries[k]);
      if (value == nullptr) continue;
      const std::string name = rd_kafka_ConfigEntry_name(entries[k]);
      if (name == kName) topic.limit = std::stoll(value);
      if (rd_kafka_ConfigEntry_source(entries[k]) == RD_KAFKA_CONFIG_SOURCE_DYNAMIC_TOPIC_CONFIG)
        topic.own[name] = value;
    }
  }
  return out;
}

void log_refused(const std::string& topic, const std::string& limit, const std::string& why) {
  log::warn("max.message.bytes of a topic may be too small for an event, and this process may not change it",
            {{"topic", topic},
             {kName, limit},
             {"wanted", kMaxMessage},
             {"error", why},
             {"remedy", fmt::format("set {} of the topic to {}, or allow DescribeConfigs and AlterConfigs on it; "
                                    "until then larger events go to the dead-letter topic",
                                    kName, kMaxMessage)}});
}

Status raise(rd_kafka_t* client, const std::vector<std::string>& topics) {
  constexpr auto kWanted = static_cast<std::int64_t>(kMaxMessage);
  QM_ASSIGN(auto found, read(client, topics));
  Resources changed;
  std::vector<std::string> raised;
  for (auto& [topic, settings] : found) {
    if (!settings.refused.empty()) log_refused(topic, "unknown", settings.refused);
    if (!settings.refused.empty() || settings.limit >= kWanted) continue;
    settings.own[kName] = std::to_string(kWanted);
    changed.add(topic, settings.own);
  }
  if (changed.size() == 0) return {};
  QM_ASSIGN(const auto event, ask(client, &rd_kafka_AlterConfigs, changed, "changing the settings of topics"));
  std::size_t count = 0;
  const auto* answers = rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(event.get()), &count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string topic = rd_kafka_ConfigResource_name(answers[i]);
    const auto before = std::to_string(found[topic].limit);
    if (const auto why = refusal(answers[i]); !why.empty()) {
      log_refused(topic, before, why);
      continue;
    }
    log::info("max.message.bytes of a topic was raised", {{"topic", topic}, {"before", before}, {kName, kWanted}});
    raised.push_back(topic);
  }
  // The response is from the controller; the brokers apply the change a little later.
  const auto until = steady_clock::now() + kTimeout;
  while (!raised.empty()) {
    QM_ASSIGN(found, read(client, raised));
    if (std::ranges::all_of(raised, [&](const auto& topic) { return found[topic].limit >= kWanted; })) break;
    if (steady_clock::now() > until)
      return fail(Code::kUnavailable, "{} of topic {} was raised but is not in force yet", kName, raised.front());
    rd_kafka_poll(client, 50);
  }
  return {};
}

}  // namespace

Status raise_limits(rd_kafka_t* client, const std::vector<std::string>& topics) {
  if (topics.empty()) return {};
  auto done = raise(client, topics);
  if (done || done.error().code == Code::kUnavailable) return done;
  log_refused(fmt::format("{}", fmt::join(topics, ", ")), "unknown", done.error().to_string());
  return {};
}

}  // namespace qm::bus
