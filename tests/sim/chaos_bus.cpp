#include "chaos_bus.hpp"

#include "quartermaster/v1/envelope.pb.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

namespace qm::sim {
namespace {

template <class Map>
std::uint64_t of(const Map& counts, const typename Map::key_type& key) {
  const auto it = counts.find(key);
  return it == counts.end() ? 0 : it->second;
}

class ChaosConsumer final : public bus::Consumer {
 public:
  struct Around {
    Random& random;
    const BusFaults& faults;
    const std::function<void(const std::string&)>& broken;
    const std::function<bool(const bus::Message&)>& lose;
  };
  ChaosConsumer(bus::Bus& inner, bus::ConsumerOptions options, Around around)
      : around_(around), cursor_(options.cursor), recreations_(around.faults.recreations) {
    auto made = inner.consumer(std::move(options));
    if (made) {
      inner_ = std::move(*made);
    } else {
      failed_ = made.error();
    }
  }
  [[nodiscard]] const std::optional<Error>& failed() const { return failed_; }

  Result<std::vector<bus::Message>> poll(std::size_t max, SteadyDuration) override {
    if (recreations_ != around_.faults.recreations) {
      recreations_ = around_.faults.recreations;
      if (around_.random.chance(500)) return fail(Code::kUnavailable, "a topic was deleted");
    }
    if (around_.random.chance(around_.faults.cut_per_mille)) return fail(Code::kUnavailable, "the reader is cut off");
    QM_ASSIGN(auto fresh, inner_->poll(max, SteadyDuration::zero()));
    for (auto& message : fresh) {
      check(message);
      if (around_.faults.hide_terms) hide_term(message);
      auto& partition = partitions_[message.at];
      if ((around_.lose && around_.lose(message)) || around_.random.chance(around_.faults.skip_per_mille)) continue;
      partition.waiting.push_back(std::move(message));
    }
    std::vector<bus::Message> out;
    for (auto& [at, partition] : partitions_) {
      if (around_.random.chance(around_.faults.rewind_per_mille)) rewind(at, partition);
      auto n = static_cast<std::int64_t>(partition.waiting.size());
      if (around_.random.chance(around_.faults.hold_per_mille)) n = around_.random.between(0, n);
      for (; n > 0; --n) {
        out.push_back(partition.waiting.front());
        if (around_.faults.hide_gaps) hide(out.back(), partition);
        partition.given.push_back(std::move(partition.waiting.front()));
        partition.waiting.pop_front();
      }
    }
    return out;
  }
  void report(const bus::TopicPartition& at, std::int64_t next) override { inner_->report(at, next); }
  [[nodiscard]] std::vector<bus::TopicPartition> assignment() const override { return inner_->assignment(); }
  [[nodiscard]] std::int64_t lag() const override {
    std::int64_t out = inner_->lag();
    for (const auto& [at, partition] : partitions_) out += static_cast<std::int64_t>(partition.waiting.size());
    return out;
  }
  [[nodiscard]] std::map<bus::TopicPartition, std::int64_t> ends() const override { return inner_->ends(); }
  Result<std::optional<std::string>> value_at(const bus::TopicPartition& at, std::int64_t offset,
                                              SteadyDuration timeout) override {
    if (around_.faults.hide_gaps)
      return fail(Code::kUnavailable, "the offsets that are shown are not those of the log");
    return inner_->value_at(at, offset, timeout);
  }

 private:
  struct Partition {
    std::deque<bus::Message> waiting, given;
    std::int64_t shown = -1;  ///< planted bug: the last offset that the reader has seen
  };

  // As after a rebalance: the reader's cursor is requested again, and delivery continues from it.
  void rewind(const bus::TopicPartition& at, Partition& partition) {
    if (partition.given.empty() || around_.faults.hide_gaps) return;
    const auto next = std::max<std::int64_t>(cursor_(at), 0);
    while (!partition.given.empty() && partition.given.back().offset >= next) {
      partition.waiting.push_front(std::move(partition.given.back()));
      partition.given.pop_back();
    }
    partition.given.clear();
  }

  void hide(bus::Message& message, Partition& partition) {
    if (partition.shown < 0) partition.shown = std::max<std::int64_t>(cursor_(message.at), 0) - 1;
    message.offset = ++partition.shown;
  }

  static void hide_term(bus::Message& message) {
    quartermaster::v1::Envelope e;
    if (!e.ParseFromString(message.value)) return;
    e.clear_term();
    e.clear_ancestors();
    message.value = e.SerializeAsString();
  }

  // Versions of a key have no gap in the log; a duplicate by the relay is allowed.
  void check(const bus::Message& message) {
    quartermaster::v1::Envelope e;
    if (!e.ParseFromString(message.value)) return around_.broken("a message is not an envelope");
    auto& newest = versions_[{e.topic(), e.key()}];
    if (newest != 0 && e.key_version() > newest + 1 && of(around_.faults.losses, message.at.topic) == 0) {
      around_.broken(fmt::format("{} {} jumps from version {} to {}", e.topic(), e.key(), newest, e.key_version()));
    }
    newest = std::max(newest, e.key_version());
  }

  Around around_;
  bus::CursorLookup cursor_;
  std::uint64_t recreations_;
  std::unique_ptr<bus::Consumer> inner_;
  std::optional<Error> failed_;
  std::map<bus::TopicPartition, Partition> partitions_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> versions_;
};

class ChaosBus final : public bus::Bus {
 public:
  ChaosBus(std::shared_ptr<bus::Bus> inner, Random& random, const BusFaults& faults,
           std::function<void(const std::string&)> broken, std::function<bool(const bus::Message&)> lose)
      : inner_(std::move(inner)),
        random_(random),
        faults_(faults),
        broken_(std::move(broken)),
        lose_(std::move(lose)) {}
  Status ensure_topics(std::span<const std::string> topics, int partitions) override {
    return inner_->ensure_topics(topics, partitions);
  }
  Result<std::unique_ptr<bus::Producer>> producer(const std::string& id) override { return inner_->producer(id); }
  Result<std::unique_ptr<bus::Consumer>> consumer(bus::ConsumerOptions options) override {
    auto made = std::make_unique<ChaosConsumer>(*inner_, std::move(options),
                                                ChaosConsumer::Around{random_, faults_, broken_, lose_});
    if (made->failed()) return fail(*made->failed());
    return std::unique_ptr<bus::Consumer>(std::move(made));
  }
  [[nodiscard]] std::string name() const override { return inner_->name(); }

 private:
  std::shared_ptr<bus::Bus> inner_;
  Random& random_;
  const BusFaults& faults_;
  std::function<void(const std::string&)> broken_;
  std::function<bool(const bus::Message&)> lose_;
};

}  // namespace

std::shared_ptr<bus::Bus> chaos_bus(std::shared_ptr<bus::Bus> inner, Random& random, const BusFaults& faults,
                                    std::function<void(const std::string&)> broken,
                                    std::function<bool(const bus::Message&)> lose) {
  return std::make_shared<ChaosBus>(std::move(inner), random, faults, std::move(broken), std::move(lose));
}

}  // namespace qm::sim
