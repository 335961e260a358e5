#pragma once
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"
#include "qm/base/wake.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::bus {

/// One message on the bus. `value` is a serialized quartermaster.v1.Envelope; the bus does not parse it.
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

/// Returns the start position of the consumer in a partition. It is called at every assignment, so that the owner's
/// stored cursor determines the position and never the broker's commit. The result is the next offset to read; -1 =
/// the oldest retained one. An offset that the log does not have (trimmed, or lost with the log) also means the
/// oldest: receivers drop duplicates.
using CursorLookup = std::function<std::int64_t(const TopicPartition&)>;

/// Publishes records; records with the same key keep their order.
///
/// Threads  one at a time.
/// Fails    kUnavailable: the carrier is unavailable, no record can be assumed sent; kUnknown: some may have been
///          sent. After both the caller sends the same records again: receivers drop duplicates by key version.
///          kOutOfRange: a record is longer than the carrier accepts, permanently; others may have been sent. Send
///          fewer records at once: a record that is refused on its own is the oversized one.
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
/// Fails    kAborted: another consumer has joined with the same `instance`. Create a new consumer only after
///          verifying that this process still owns the instance name; otherwise the two fence each other for ever.
class Consumer {
 public:
  virtual ~Consumer() = default;
  /// Returns up to `max` messages and about kPollBytes of values, at least one; waits at most `timeout` for the
  /// first, and less if ConsumerOptions::wake is notified. An empty result is not an error.
  virtual Result<std::vector<Message>> poll(std::size_t max, SteadyDuration timeout) = 0;
  /// Reports the committed position of the owner, for lag tools only.
  virtual void report(const TopicPartition& at, std::int64_t next_offset) = 0;
  [[nodiscard]] virtual std::vector<TopicPartition> assignment() const = 0;
  /// The number of messages between the position and the end, over the assignment; -1 while unknown.
  [[nodiscard]] virtual std::int64_t lag() const = 0;
  /// The offset of the next message to be written, by partition of the assignment, where it is known.
  [[nodiscard]] virtual std::map<TopicPartition, std::int64_t> ends() const = 0;
  /// Reads the value at the offset again, to verify that the log is still the one that was polled.
  /// nullopt: the log retains only newer messages. Waits at most `timeout` for a broker. Positions do not change.
  ///
  /// Fails    kOutOfRange: the log ends at or before the offset. kNotFound: no such topic or partition.
  ///          kUnavailable: not known now, as Kafka answers for half a minute for an unknown topic.
  /// Cost     one request for one message.
  virtual Result<std::optional<std::string>> value_at(const TopicPartition& at, std::int64_t offset,
                                                      SteadyDuration timeout) = 0;
};

struct ConsumerOptions {
  std::string group;  ///< "admission/default"
  std::vector<std::string> topics;
  CursorLookup cursor;
  SteadyDuration session_timeout = std::chrono::seconds(6);
  /// A member name in the group that is valid across restarts: a consumer that joins with the same name gets its
  /// partitions at once, and the previous consumer gets kAborted. Empty: an unnamed member, which the group removes
  /// when its session ends (PostgreSQL:
  /// within about a second of its death) or after `session_timeout`.
  std::string instance = {};
  /// On PostgreSQL: between two reads while messages follow one another closely, so that several are read together. A
  /// message after a pause is read at once.
  SteadyDuration gather = std::chrono::milliseconds(25);
  /// Ends a poll early; must outlive the consumer. A carrier that cannot wait for it ends each poll after kPollSlice.
  const Wake* wake = nullptr;
};

/// A durable, partitioned log of topics. Carriers: Kafka, PostgreSQL, memory. One contract test suite applies to
/// all.
class Bus {
 public:
  virtual ~Bus() = default;
  /// Creates missing topics. The partition count of an existing topic must be `partitions`. Existing topics do not
  /// change, except for one setting: the size limit of a Kafka topic is raised to kMaxValue if it is lower. Where the
  /// broker denies that, a warning has the topic, its limit and the remedy.
  virtual Status ensure_topics(std::span<const std::string> topics, int partitions) = 0;
  virtual Result<std::unique_ptr<Producer>> producer(const std::string& client_id) = 0;
  virtual Result<std::unique_ptr<Consumer>> consumer(ConsumerOptions options) = 0;
  [[nodiscard]] virtual std::string name() const = 0;  ///< "kafka", "postgres", "memory"
};

/// Creates a carrier from its setting: "memory", "postgres:<conninfo>", "kafka:host:port[,host:port]".
/// "memory" is process-wide per name: "memory:test1" gives the same bus to every caller. ensure_topics is the first
/// call that connects to a broker; here an unavailable broker is not an error.
Result<std::shared_ptr<Bus>> make_bus(const std::string& setting);

/// The dead-letter topic of a topic.
[[nodiscard]] inline std::string dead_letter(const std::string& topic) { return topic + ".dlq"; }
/// The partition of a key; the same for all carriers.
[[nodiscard]] std::int32_t partition_of(std::string_view key, int partitions);

/// Deletes messages older than `keep` from the PostgreSQL bus now; without this call its producers trim by
/// kRetention. kUnimplemented for the other carriers: Kafka applies its own retention, memory retains everything.
Status trim(Bus& bus, std::chrono::seconds keep);

/// Injects a failure into a memory bus: the next publish returns `code`, and has sent all records or none.
void plant_publish(Bus& memory, Code code, bool really_sent);

inline constexpr int kDefaultPartitions = 4;
inline constexpr auto kPollSlice = std::chrono::milliseconds(100);

/// The retention time of messages: the PostgreSQL bus trims by it, and new Kafka topics are created with it (Kafka
/// deletes whole closed segments, up to a day later). Versions that detect duplicates must be retained for longer
/// than this.
inline constexpr auto kRetention = std::chrono::hours(24 * 7);
/// A poll ends with the message that reaches this many bytes of values.
inline constexpr std::size_t kPollBytes = 16 << 20;
/// The longest value that every carrier accepts, and the limit that producers enforce. A Kafka topic with a lower
/// limit that may not be raised accepts less.
inline constexpr std::size_t kMaxValue = 16 << 20;

}  // namespace qm::bus
