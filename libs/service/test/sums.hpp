#pragma once
// A service for tests of the loop. Its engine stores a sum per key: enough to see whether an input was lost, applied
// twice, or applied in a batch that was not committed.
#include "qm/base/digest.hpp"
#include "qm/base/table.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/journal.pb.h"

#include <gtest/gtest.h>

#include <charconv>
#include <map>

namespace qm::service {

/// Requests "add" with bytes "key=n" add; each publishes the key's sum and requests one intent. "key=n pad=m" makes
/// the event m bytes longer; so does an outcome "pad=m", and each timer for the key "clock" while `timer_pad` is set.
class Sums final : public Shell {
 public:
  Status load(std::span<const store::StateRow> rows) override {
    table_.clear();
    open_ = 0;
    for (const auto& row : rows) table_.restore(row.key, std::stoll(*row.value));
    return {};
  }

  void step(std::span<const Input> batch, Instant now, Effects& out,
            std::vector<std::pair<std::size_t, Error>>& poison) override {
    nows.push_back(now);
    if (open_++ > 0) table_.seal();
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Input& in = batch[i];
      if (in.source == Source::kTimer) {
        ++timers;
        if (!own_key.empty()) table_.edit(own_key) += 1;
        if (timer_pad > 0)
          out.events.push_back({"qm.test", "clock", fmt::format("{}{}", ++table_.edit("clock"), padding(timer_pad))});
        continue;
      }
      if (in.source == Source::kOutcome) {
        table_.edit("outcomes") += 1;
        if (const auto pad = pad_of(in.bytes); pad > 0) out.events.push_back({"qm.test", "outcomes", padding(pad)});
        continue;
      }
      const auto eq = in.bytes.find('=');
      std::int64_t amount = 0;
      const char* end = in.bytes.data() + in.bytes.size();
      if (eq == std::string::npos || std::from_chars(in.bytes.data() + eq + 1, end, amount).ec != std::errc()) {
        const Error error{Code::kInvalid, "no key=n in \"" + in.bytes + "\"", "bytes", "write key=n"};
        if (in.source == Source::kRequest) {
          out.answers.push_back({i, tl::unexpected<Error>(error)});
        } else {
          poison.emplace_back(i, error);
        }
        continue;
      }
      const std::string key = in.bytes.substr(0, eq);
      const auto sum = table_.edit(key) += amount;
      out.events.push_back(
          {"qm.test", key, std::to_string(sum) + padding(pad_of(in.bytes)), sum == 0});  // zero deletes the key
      if (in.source == Source::kRequest) {
        out.answers.push_back({i, std::to_string(sum)});
        out.intents.push_back({"intent/" + in.id + in.bytes + std::to_string(sum), "do", key, 0, in.bytes});
      }
    }
    table_.changed([&](const std::string& key, const std::int64_t* sum) {
      out.state.push_back({"sum", key, sum == nullptr ? std::nullopt : std::optional(std::to_string(*sum))});
    });
    out.wake_at = wake_at;
    out.pending = pending;
  }
  [[nodiscard]] std::size_t most_open() const override { return 2; }
  void undo() override {
    --open_;
    table_.rollback();
  }
  void commit() override {
    --open_ > 0 ? table_.commit_sealed() : table_.commit();
  }
  [[nodiscard]] std::uint64_t digest() const override {
    Digest d;
    for (const auto& [key, sum] : table_) d.add(key).add(sum);
    return d.value();
  }
  void debug_state(StateDump& out) const override {
    out.set("keys", std::uint64_t{table_.size()});
    out.map("sums", table_.rows(), [](const auto& key, const auto& sum) { return std::pair(key, Json(sum)); });
    turns.push_back(out.used());
  }
  [[nodiscard]] std::int64_t sum(const std::string& key) const {
    const auto* row = table_.find(key);
    return row == nullptr ? 0 : *row;
  }

  static std::string padding(std::size_t n) { return std::string(n, ' '); }
  static std::size_t pad_of(const std::string& bytes) {
    const auto at = bytes.find("pad=");
    return at == std::string::npos ? 0 : std::stoull(bytes.substr(at + 4));
  }

  std::vector<Instant> nows;
  std::size_t timer_pad = 0;
  std::string own_key;  ///< counts the timers, if set
  std::optional<Instant> wake_at;
  bool pending = true;  ///< of the next steps
  int timers = 0;
  mutable std::vector<std::size_t> turns;  ///< number of objects read in each turn of a dump

 private:
  Table<std::string, std::int64_t> table_;
  int open_ = 0;  ///< steps that are neither durable nor undone
};

class Doer final : public Executor {
 public:
  Result<Outcome> execute(const store::IntentRow& intent) override {
    done.push_back(intent.payload);
    if (failures > 0) {
      --failures;
      return fail(Code::kUnavailable, "away");
    }
    return Outcome{outcome};
  }
  Outcome failed(const store::IntentRow&, const Error& error) override { return {error.message}; }
  std::vector<std::string> done;
  std::string outcome = "ok";
  int failures = 0;
};

struct World {
  std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
  std::shared_ptr<bus::Bus> bus;
  ManualClock clock{from_micros(1'000'000)};
  Doer doer;
  Sums* sums = nullptr;
  std::unique_ptr<Host> host;

  explicit World(const std::string& name) : bus(*bus::make_bus("memory:" + name)) {}

  Host& make(HostOptions options) {
    host.reset();
    options.service = "test";
    options.produces = {"qm.test"};
    options.digest_each_batch = true;
    auto shell = std::make_unique<Sums>();
    sums = shell.get();
    host = std::make_unique<Host>(options, std::move(shell), store::open_memory(disk), bus, clock, &doer);
    return *host;
  }
  void boot(HostOptions options = {}) {
    const auto opened = make(std::move(options)).open();
    ASSERT_TRUE(opened) << opened.error().to_string();
  }

  Status add(const std::string& bytes, const std::string& id, Host::ReplyFn done = {}) {
    Input in;
    in.source = Source::kRequest;
    in.name = "add";
    in.id = id;
    in.bytes = bytes;
    return host->submit(std::move(in), std::move(done));
  }
  void settle() {
    while (host->pump() || host->execute_once() || host->relay_once() || host->consume_once()) {
    }
  }
};

/// The events among messages: without announcements of terms, which have version 0.
inline std::vector<quartermaster::v1::Envelope> events_of(const std::vector<bus::Message>& messages) {
  std::vector<quartermaster::v1::Envelope> out;
  for (const auto& message : messages) {
    quartermaster::v1::Envelope e;
    if (e.ParseFromString(message.value) && e.key_version() != 0) out.push_back(std::move(e));
  }
  return out;
}

inline std::string reply_of(const Result<std::string>& r) { return r ? *r : r.error().to_string(); }

inline std::string envelope(const std::string& key, std::uint64_t version, const std::string& payload,
                            const std::string& shard = "default") {
  quartermaster::v1::Envelope e;
  e.set_shard(shard);
  e.set_topic("qm.in");
  e.set_key(key);
  e.set_key_version(version);
  e.set_payload(payload);
  return e.SerializeAsString();
}

/// A replay of the journal must lead to its digests: refused inputs are not in it.
inline void expect_replays(World& w) {
  const auto rows = *store::open_memory(w.disk)->read_journal(0, 10'000);
  Sums again;
  for (const auto& row : rows) {
    quartermaster::v1::JournalBatch batch;
    ASSERT_TRUE(batch.ParseFromString(row.bytes));
    std::vector<Input> inputs;
    for (const auto& in : batch.inputs())
      inputs.push_back({static_cast<Source>(in.source()), in.name(), in.bytes(), in.id(), in.key(), in.version(),
                        in.tombstone(), in.trace_parent()});
    Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    again.step(inputs, row.now, effects, poison);
    again.commit();
    EXPECT_EQ(again.digest(), row.digest) << "batch " << row.sequence;
  }
}

}  // namespace qm::service
