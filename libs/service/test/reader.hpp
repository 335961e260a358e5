#pragma once
#include "qm/bus/memory.hpp"
#include "qm/testing/testing.hpp"
#include "sums.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>

namespace qm::service {

/// Stores the newest payload of each key; a tombstone deletes the key.
class Mirror final : public Shell {
 public:
  Status load(std::span<const store::StateRow> rows) override {
    keys_.clear();
    versions_.clear();
    for (const auto& row : rows) keys_.restore(row.key, *row.value);
    return {};
  }
  void step(std::span<const Input> batch, Instant, Effects& out, std::vector<std::pair<std::size_t, Error>>&) override {
    for (const auto& in : batch) {
      if (in.source != Source::kBus) continue;
      auto& version = versions_[in.key];
      if (in.version <= version) continue;  // as in engines that order facts by version
      version = in.version;
      if (in.tombstone) {
        keys_.erase(in.key);
      } else {
        keys_.edit(in.key) = in.bytes;
      }
    }
    keys_.changed([&](const std::string& key, const std::string* value) {
      out.state.push_back({"key", key, value == nullptr ? std::nullopt : std::optional(*value)});
    });
  }
  void undo() override { keys_.rollback(); }
  void commit() override { keys_.commit(); }
  [[nodiscard]] std::uint64_t digest() const override {
    Digest d;
    for (const auto& [key, value] : keys_) d.add(key).add(value);
    return d.value();
  }
  void debug_state(StateDump&) const override {}
  [[nodiscard]] std::string text() const {
    std::string out;
    for (const auto& [key, value] : keys_) out += fmt::format("{}{}={}", out.empty() ? "" : " ", key, value);
    return out;
  }

 private:
  Table<std::string, std::string> keys_;
  std::map<std::string, std::uint64_t> versions_;
};

/// A consumer of qm.test, whose disk survives restarts.
struct Reader {
  explicit Reader(World& from) : producer(from) { boot(); }

  void boot() {
    host.reset();
    HostOptions options;
    options.service = "reader";
    options.consumes = {"qm.test"};
    options.snapshot = [this](const std::string& topic, const auto&) -> Result<Snapshot> {
      ++snapshots;
      if (owner_away) return fail(Code::kUnavailable, "its owner is away");
      QM_ASSIGN(const auto rows, producer.host->snapshot(topic, "", 1000, "", true));
      Snapshot out{{}, producer.host->history()};
      for (const auto& row : rows) {
        if (!forgotten.contains(row.key)) out.entries.push_back(row.value);
      }
      return out;
    };
    options.confirm_after = confirm_after;
    if (keeps) {
      options.last_state = [](const auto&, const auto&, bool rolled_back) {
        return rolled_back ? std::nullopt : std::optional(std::string());
      };
    }
    auto shell = std::make_unique<Mirror>();
    mirror = shell.get();
    host = std::make_unique<Host>(options, std::move(shell), store::open_memory(disk), producer.bus, producer.clock,
                                  nullptr);
    const auto opened = host->open();
    ASSERT_TRUE(opened) << opened.error().to_string();
  }
  void settle() {
    while (host->pump() || host->consume_once()) {
    }
  }
  /// Polls until the text is `expected`, including snapshots that are fetched meanwhile.
  bool comes_to(const std::string& expected) {
    return testing::wait_until(
        [&] {
          settle();
          return mirror->text() == expected && host->counters().mailbox == 0;
        },
        std::chrono::seconds(10));
  }

  World& producer;
  std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
  Mirror* mirror = nullptr;
  std::unique_ptr<Host> host;
  int snapshots = 0;
  bool owner_away = false;
  std::set<std::string> forgotten;  ///< keys that snapshots omit
  bool keeps = false;               ///< whether keys that a snapshot of another history omits are kept
  SteadyDuration confirm_after = std::chrono::hours(1);
};

/// The producer restarts on a database that lost everything after the copy.
inline void restore(World& w, std::size_t copy) {
  w.host.reset();
  store::restore_disk(*w.disk, copy);
  w.boot();
}

/// The producer commits and publishes one input, and the reader applies the resulting event.
inline void publish(World& w, Reader& reader, const std::string& bytes, const std::string& id) {
  ASSERT_TRUE(w.add(bytes, id));
  w.settle();
  reader.settle();
}

}  // namespace qm::service
