// The bus in memory: topics, partitions and groups behind one mutex, shared by all users of its name in the process.
#include "qm/bus/memory.hpp"

#include "assignment.hpp"
#include "carriers.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/crash_point.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>

namespace qm::bus {
namespace {

struct Entry {
  std::string key;
  std::string value;
};

struct Partition {
  std::int64_t first = 0;  ///< offset of the oldest entry
  std::deque<Entry> entries;
  [[nodiscard]] std::int64_t next() const { return first + static_cast<std::int64_t>(entries.size()); }
};

struct Group {
  std::uint64_t generation = 0;
  std::map<std::string, std::vector<std::string>> members;  ///< id -> topics
  std::map<std::string, std::string> places;                ///< instance -> id of the member that holds it
};

struct Log {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::vector<Partition>> topics;
  std::map<std::string, Group> groups;
  std::uint64_t next_member = 0;
  struct Planted {
    Code code;
    bool really_sent;
  };
  std::deque<Planted> planted;

  [[nodiscard]] std::map<std::string, int> partitions() const {
    std::map<std::string, int> out;
    for (const auto& [topic, parts] : topics) out.emplace(topic, static_cast<int>(parts.size()));
    return out;
  }
};

class MemoryProducer final : public Producer {
 public:
  explicit MemoryProducer(std::shared_ptr<Log> log) : log_(std::move(log)) {}

  Status publish(std::span<const Record> records, SteadyDuration) override {
    QM_CRASH_POINT("bus.before_publish");
    QM_TRY(append(records));
    QM_CRASH_POINT("bus.after_publish");
    return {};
  }

 private:
  Status append(std::span<const Record> records) {
    const std::lock_guard lock(log_->mutex);
    for (const auto& record : records)
      if (!log_->topics.contains(record.topic)) return fail(no_topic(record.topic));
    QM_TRY(check_sizes(records));
    std::optional<Log::Planted> planted;
    if (!log_->planted.empty()) {
      planted = log_->planted.front();
      log_->planted.pop_front();
      if (!planted->really_sent) return fail(planted->code, "planted failure");
    }
    for (const auto& record : records) {
      auto& parts = log_->topics.at(record.topic);
      parts[static_cast<std::size_t>(partition_of(record.key, static_cast<int>(parts.size())))].entries.push_back(
          {record.key, record.value});
    }
    log_->changed.notify_all();
    if (planted) return fail(planted->code, "planted failure");
    return {};
  }

  std::shared_ptr<Log> log_;
};

class MemoryConsumer final : public Consumer {
 public:
  MemoryConsumer(std::shared_ptr<Log> log, ConsumerOptions options)
      : log_(std::move(log)), options_(std::move(options)) {
    const std::lock_guard lock(log_->mutex);
    id_ = member_id(log_->next_member++);
    auto& group = log_->groups[options_.group];
    if (!options_.instance.empty()) {
      auto& place = group.places[options_.instance];
      group.members.erase(place);
      place = id_;
    }
    group.members.emplace(id_, options_.topics);
    ++group.generation;
    log_->changed.notify_all();
    QM_CRASH_POINT("bus.after_join");
  }

  ~MemoryConsumer() override {
    const std::lock_guard lock(log_->mutex);
    auto& group = log_->groups[options_.group];
    group.members.erase(id_);
    ++group.generation;
    log_->changed.notify_all();
  }

  Result<std::vector<Message>> poll(std::size_t max, SteadyDuration timeout) override {
    if (options_.wake != nullptr) timeout = std::min<SteadyDuration>(timeout, kPollSlice);
    const auto until = std::chrono::steady_clock::now() + timeout;
    std::vector<Message> out;
    while (true) {
      join();
      std::unique_lock lock(log_->mutex);
      if (!log_->groups[options_.group].members.contains(id_))
        return fail(displaced(options_.group, options_.instance));
      if (log_->groups[options_.group].generation != generation_) continue;
      bool over = read(max, out);
      if (!over && log_->changed.wait_until(lock, until) == std::cv_status::timeout) {
        read(max, out);
        over = true;
      }
      lock.unlock();
      if (over) {
        QM_CRASH_POINT("bus.after_poll");
        return out;
      }
    }
  }

  void report(const TopicPartition&, std::int64_t) override {}

  [[nodiscard]] std::vector<TopicPartition> assignment() const override {
    std::vector<TopicPartition> out;
    for (const auto& [at, next] : positions_) out.push_back(at);
    return out;
  }

  [[nodiscard]] std::int64_t lag() const override {
    const std::lock_guard lock(log_->mutex);
    std::int64_t out = 0;
    for (const auto& [at, next] : positions_) {
      const auto& part = log_->topics.at(at.topic)[static_cast<std::size_t>(at.partition)];
      out += part.next() - (next < part.first || next > part.next() ? part.first : next);
    }
    return out;
  }
  [[nodiscard]] std::map<TopicPartition, std::int64_t> ends() const override {
    const std::lock_guard lock(log_->mutex);
    std::map<TopicPartition, std::int64_t> out;
    for (const auto& [at, next] : positions_)
      out[at] = log_->topics.at(at.topic)[static_cast<std::size_t>(at.partition)].next();
    return out;
  }
  Result<std::optional<std::string>> value_at(const TopicPartition& at, std::int64_t offset, SteadyDuration) override {
    const std::lock_guard lock(log_->mutex);
    const auto topic = log_->topics.find(at.topic);
    if (topic == log_->topics.end() || at.partition < 0 || at.partition >= static_cast<int>(topic->second.size()))
      return fail(no_topic(at.topic));
    const auto& part = topic->second[static_cast<std::size_t>(at.partition)];
    if (offset >= part.next()) return fail(no_offset(at, offset, part.next()));
    if (offset < part.first) return std::optional<std::string>();
    return std::optional(part.entries[static_cast<std::size_t>(offset - part.first)].value);
  }

 private:
  /// Adopts the group's generation. The cursor lookup runs without the lock: its owner may use this bus.
  void join() {
    std::vector<TopicPartition> mine;
    {
      const std::lock_guard lock(log_->mutex);
      const auto& group = log_->groups[options_.group];
      const auto partitions = log_->partitions();
      if (group.generation == generation_ && partitions == partitions_) return;
      generation_ = group.generation;
      partitions_ = partitions;
      mine = assign(group.members, partitions, id_);
    }
    std::map<TopicPartition, std::int64_t> positions;
    for (const auto& at : mine) {
      const auto kept = positions_.find(at);
      positions[at] = kept != positions_.end() ? kept->second : (options_.cursor ? options_.cursor(at) : -1);
    }
    positions_ = std::move(positions);
    QM_CRASH_POINT("bus.after_assign");
  }

  /// Every read starts at another partition, so that a busy partition cannot starve the others.
  bool read(std::size_t max, std::vector<Message>& out) {
    std::size_t bytes = 0;
    auto it = positions_.begin();
    if (!positions_.empty()) std::advance(it, turn_++ % positions_.size());
    for (std::size_t i = 0; i < positions_.size(); ++i, ++it) {
      if (it == positions_.end()) it = positions_.begin();
      auto& [at, next] = *it;
      const auto& part = log_->topics.at(at.topic)[static_cast<std::size_t>(at.partition)];
      if (next < part.first || next > part.next()) next = part.first;
      for (; next < part.next() && out.size() < max && bytes < kPollBytes; ++next) {
        const auto& entry = part.entries[static_cast<std::size_t>(next - part.first)];
        bytes += entry.value.size();
        out.push_back({at, next, entry.key, entry.value});
      }
    }
    return !out.empty();
  }

  std::shared_ptr<Log> log_;
  ConsumerOptions options_;
  std::string id_;
  std::uint64_t generation_ = 0;
  std::size_t turn_ = 0;
  std::map<std::string, int> partitions_;
  std::map<TopicPartition, std::int64_t> positions_;
};

class MemoryBus final : public Bus {
 public:
  MemoryBus() : log_(std::make_shared<Log>()) {}

  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    const std::lock_guard lock(log_->mutex);
    for (const auto& topic : topics) {
      const auto [it, added] = log_->topics.try_emplace(topic, static_cast<std::size_t>(partitions));
      if (!added && static_cast<int>(it->second.size()) != partitions)
        return fail(other_partitions(topic, static_cast<int>(it->second.size()), partitions));
    }
    log_->changed.notify_all();
    return {};
  }
  Result<std::unique_ptr<Producer>> producer(const std::string&) override {
    return std::make_unique<MemoryProducer>(log_);
  }
  Result<std::unique_ptr<Consumer>> consumer(ConsumerOptions options) override {
    return std::make_unique<MemoryConsumer>(log_, std::move(options));
  }
  [[nodiscard]] std::string name() const override { return "memory"; }

  void plant(Code code, bool really_sent) {
    const std::lock_guard lock(log_->mutex);
    log_->planted.push_back({code, really_sent});
  }
  template <class Fn>
  void each_partition(const std::string& topic, Fn&& fn) {
    const std::lock_guard lock(log_->mutex);
    const auto it = log_->topics.find(topic);
    if (it == log_->topics.end()) return;
    for (auto& part : it->second) fn(part);
  }

 private:
  std::shared_ptr<Log> log_;
};

}  // namespace

std::shared_ptr<Bus> memory_bus(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Bus>> buses;
  const std::lock_guard lock(mutex);
  auto& bus = buses[name];
  if (!bus) bus = std::make_shared<MemoryBus>();
  return bus;
}

namespace {
MemoryBus& memory_of(Bus& bus) {
  auto* memory = dynamic_cast<MemoryBus*>(&bus);
  QM_ASSERT(memory != nullptr, "faults are planted in the memory bus, this one is {}", bus.name());
  return *memory;
}
}  // namespace

void plant_publish(Bus& bus, Code code, bool really_sent) { memory_of(bus).plant(code, really_sent); }

std::vector<LogBounds> log_bounds(Bus& bus, const std::string& topic) {
  std::vector<LogBounds> out;
  memory_of(bus).each_partition(topic, [&](const Partition& part) { out.push_back({part.first, part.next()}); });
  return out;
}

void plant_truncation(Bus& bus, const std::string& topic, std::size_t count) {
  memory_of(bus).each_partition(topic, [&](Partition& part) {
    const auto gone = std::min(count, part.entries.size());
    part.first += static_cast<std::int64_t>(gone);
    part.entries.erase(part.entries.begin(), part.entries.begin() + static_cast<std::ptrdiff_t>(gone));
  });
}

void plant_recreation(Bus& bus, const std::string& topic) {
  memory_of(bus).each_partition(topic, [](Partition& part) { part = {}; });
}

}  // namespace qm::bus
