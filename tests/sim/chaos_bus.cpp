#include "chaos_bus.hpp"

#include "quartermaster/v1/envelope.pb.h"

#include <deque>
#include <map>

namespace qm::sim {
namespace {

constexpr std::size_t kRemembered = 8;

class ChaosConsumer final : public bus::Consumer {
 public:
  ChaosConsumer(std::unique_ptr<bus::Consumer> inner, Random& random, const BusFaults& faults,
                const std::function<void(const std::string&)>& broken,
                const std::function<bool(const bus::Message&)>& lose)
      : inner_(std::move(inner)), random_(random), faults_(faults), broken_(broken), lose_(lose) {}

  Result<std::vector<bus::Message>> poll(std::size_t max, SteadyDuration) override {
    if (random_.chance(faults_.cut_per_mille)) return fail(Code::kUnavailable, "the reader is cut off");
    QM_ASSIGN(auto fresh, inner_->poll(max, SteadyDuration::zero()));
    for (auto& message : fresh) {
      check(message);
      auto& partition = partitions_[message.at];
      if ((lose_ && lose_(message)) || random_.chance(faults_.skip_per_mille)) continue;
      partition.waiting.push_back(std::move(message));
    }
    std::vector<bus::Message> out;
    for (auto& [at, partition] : partitions_) {
      if (random_.chance(faults_.rewind_per_mille)) {
        for (; !partition.given.empty(); partition.given.pop_back())
          partition.waiting.push_front(partition.given.back());
      }
      auto n = static_cast<std::int64_t>(partition.waiting.size());
      if (random_.chance(faults_.hold_per_mille)) n = random_.between(0, n);
      for (; n > 0; --n) {
        out.push_back(partition.waiting.front());
        partition.given.push_back(std::move(partition.waiting.front()));
        partition.waiting.pop_front();
        if (partition.given.size() > kRemembered) partition.given.pop_front();
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

 private:
  struct Partition {
    std::deque<bus::Message> waiting, given;
  };

  // Versions of a key stand in the log without a jump; a repeat by the relay is allowed.
  void check(const bus::Message& message) {
    quartermaster::v1::Envelope e;
    if (!e.ParseFromString(message.value)) return broken_("a message is no envelope");
    auto& newest = versions_[{e.topic(), e.key()}];
    if (newest != 0 && e.key_version() > newest + 1) {
      broken_(fmt::format("{} {} jumps from version {} to {}", e.topic(), e.key(), newest, e.key_version()));
    }
    newest = std::max(newest, e.key_version());
  }

  std::unique_ptr<bus::Consumer> inner_;
  Random& random_;
  const BusFaults& faults_;
  const std::function<void(const std::string&)>& broken_;
  const std::function<bool(const bus::Message&)>& lose_;
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
    QM_ASSIGN(auto made, inner_->consumer(std::move(options)));
    return std::make_unique<ChaosConsumer>(std::move(made), random_, faults_, broken_, lose_);
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
