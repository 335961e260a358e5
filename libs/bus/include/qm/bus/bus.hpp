#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::bus {

/// One message for the bus. `value` is a serialized quartermaster.v1.Envelope; the bus does not look inside.
struct Record {
  std::string topic;
  std::string key;
  std::string value;
};

struct TopicPartition {
  std::string topic;
  std::int32_t partition = 0;
  friend auto operator<=>(const TopicPartition&, const TopicPartition&) = default;
};

struct Message {
  TopicPartition at;
  std::int64_t offset = 0;
  std::string key;
  std::string value;
};

/// Where the consumer starts in a partition; asked at every assignment, so that the owner's stored cursor decides and
/// never the broker's own commit. Answers the next offset to read; -1 = the oldest that is still kept. An offset that the
/// log does not have (trimmed, or lost with the log) means the oldest too: receivers drop what they have seen.
using CursorLookup = std::function<std::int64_t(const TopicPartition&)>;

/// Sends records; those of one key keep their order.
///
/// Threads  one at a time.
/// Fails    kUnavailable: the carrier is away, nothing may be assumed sent; kUnknown: some may have been sent. Both
///          are answered by sending the same records again: receivers drop duplicates by key version.
///          kOutOfRange: a record is longer than the carrier takes, now and for ever; others may have been sent. Send
///          fewer at once: who is refused alone is the one.
class Producer {
 public:
  virtual ~Producer() = default;
  /// Returns once every record is durable on the carrier (acks=all, or committed).
  virtual Status publish(std::span<const Record> records, SteadyDuration timeout) = 0;
};

/// Reads partitions assigned to a member of a group.
///
/// Threads  one at a time.
/// Order    offsets grow within a partition.
/// Fails    kAborted: another reader has come with the same `instance`; make a new consumer only after making sure that
///          the place is still yours, or the two of you drive each other out for ever.
class Consumer {
 public:
  virtual ~Consumer() = default;
  /// Up to `max` messages and about kPollBytes of values, one at least; waits at most `timeout` for the first. Empty is not an
  /// error.
  virtual Result<std::vector<Message>> poll(std::size_t max, SteadyDuration timeout) = 0;
  /// Reports how far the owner has committed, for lag tools only.
  virtual void report(const TopicPartition& at, std::int64_t next_offset) = 0;
  [[nodiscard]] virtual std::vector<TopicPartition> assignment() const = 0;
  /// Messages between the position and the end, over the assignment; -1 while unknown.
  [[nodiscard]] virtual std::int64_t lag() const = 0;
  /// The offset that the next message gets, by partition of the assignment, where it is known.
  [[nodiscard]] virtual std::map<TopicPartition, std::int64_t> ends() const = 0;
  /// The value that the log has at the offset now, read once more: whether the log is still the one that was polled.
  /// nullopt: the log keeps only newer messages. Waits at most `timeout` for a broker. Positions do not change.
  ///
  /// Fails    kOutOfRange: the log ends at the offset or before. kNotFound: no such topic or partition. kUnavailable: not known now,
  ///          as Kafka says for half a minute of a topic that it does not know.
  /// Cost     one request for one message.
  virtual Result<std::optional<std::string>> value_at(const TopicPartition& at, std::int64_t offset,
                                                      SteadyDuration timeout) = 0;
};

struct ConsumerOptions {
  std::string group;  ///< "admission/default"
  std::vector<std::string> topics;
  CursorLookup cursor;
  SteadyDuration session_timeout = std::chrono::seconds(6);
  /// A place in the group that outlives the process: who comes with the same name takes the partitions at once, and who
  /// had them is told kAborted. Empty: a nameless member, which the others count out when its session ends (PostgreSQL:
  /// within about a second of its death) or after `session_timeout`.
  std::string instance = {};
};

/// A durable, partitioned log of topics. Carriers: Kafka, PostgreSQL, memory. One contract suite holds for all.
class Bus {
 public:
  virtual ~Bus() = default;
  /// Creates what is missing. `partitions` of an existing topic must match. What is there is not changed, but for one
  /// setting: a topic on Kafka that takes less than kMaxValue is told to take it, or, where that is not allowed, a
  /// warning names the topic, its limit and the way out.
  virtual Status ensure_topics(std::span<const std::string> topics, int partitions) = 0;
  virtual Result<std::unique_ptr<Producer>> producer(const std::string& client_id) = 0;
  virtual Result<std::unique_ptr<Consumer>> consumer(ConsumerOptions options) = 0;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "kafka", "postgres", "memory"
};

/// Makes a carrier from its setting: "memory", "postgres:<conninfo>", "kafka:host:port[,host:port]".
/// "memory" is process-wide per name: "memory:test1" gives the same bus to every caller. A broker is first spoken to by
/// ensure_topics; one that is away is no error here.
Result<std::shared_ptr<Bus>> make_bus(const std::string& setting);

/// The dead-letter topic of a topic.
[[nodiscard]] inline std::string dead_letter(const std::string& topic) { return topic + ".dlq"; }
/// The partition of a key; the same for every carrier.
[[nodiscard]] std::int32_t partition_of(std::string_view key, int partitions);

/// Deletes messages older than `keep` from the PostgreSQL bus now; its producers do so by themselves after kRetention.
/// kUnimplemented for the other carriers: Kafka keeps to its own retention, memory keeps everything.
Status trim(Bus& bus, std::chrono::seconds keep);

/// Plants a failure in a memory bus: the next publish answers `code`, having sent everything or nothing.
void plant_publish(Bus& memory, Code code, bool really_sent);

inline constexpr int kDefaultPartitions = 4;

/// How long a message can be had: what PostgreSQL trims by, and what new topics on Kafka are set to (there a closed segment
/// goes as a whole, up to a day later). Who keeps versions to know repeats by needs them for longer than this.
inline constexpr auto kRetention = std::chrono::hours(24 * 7);
/// A poll ends with the message that reaches this many bytes of values.
inline constexpr std::size_t kPollBytes = 16 << 20;
/// The longest value that every carrier takes, and the most that any lets through. A topic on Kafka that is set to less, and
/// may not be changed from here, takes less.
inline constexpr std::size_t kMaxValue = 16 << 20;

}  // namespace qm::bus
