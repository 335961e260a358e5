#include "hosts.hpp"

#include "qm/base/digest.hpp"
#include "qm/base/table.hpp"
#include "qm/clock/clock.hpp"
#include "qm/service/host.hpp"

#include <atomic>
#include <fstream>
#include <future>
#include <iostream>
#include <mutex>

namespace qm::torture {
namespace {

using namespace std::chrono_literals;
using service::Source;

constexpr const char* kApplied = "create table {schema}.applied (key text not null, version bigint not null)";

/// Keys that go through versions 1, 2, 3, ...; an input is "key=version".
class Steps final : public service::Shell {
 public:
  explicit Steps(const Settings& settings, bool speaks) : settings_(settings), sends_(speaks) {}

  Status load(std::span<const store::StateRow> rows) override {
    table_.clear();
    for (const auto& row : rows) table_.restore(row.key, std::stoll(*row.value));
    return {};
  }

  void step(std::span<const service::Input> batch, Instant, service::Effects& out,
            std::vector<std::pair<std::size_t, Error>>&) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto& in = batch[i];
      if (in.source != Source::kBus && in.source != Source::kRequest) continue;
      const auto equals = in.bytes.find('=');
      const auto key = in.bytes.substr(0, equals);
      const auto version = std::stoll(in.bytes.substr(equals + 1));
      auto& last = table_.edit(key);
      if (version != last + 1) {
        std::cerr << key << " goes from version " << last << " to " << version << '\n';
        skipped = true;
      }
      last = version;
      out.appends.push_back({"applied", {"key", "version"}, {key, std::to_string(version)}});
      out.intents.push_back({in.bytes, "note", key, 0, in.bytes});
      if (sends_) out.events.push_back({settings_.topic, key, in.bytes, false});
      if (in.source == Source::kRequest) out.answers.push_back({i, in.bytes});
    }
    table_.changed([&](const std::string& key, const std::int64_t* version) {
      out.state.push_back({"step", key, version == nullptr ? std::nullopt : std::optional(std::to_string(*version))});
    });
  }
  void undo() override { table_.rollback(); }
  void commit() override { table_.commit(); }
  [[nodiscard]] std::uint64_t digest() const override {
    Digest digest;
    for (const auto& [key, version] : table_) digest.add(key).add(version);
    return digest.value();
  }
  void debug_state(service::StateDump& out) const override {
    out.map("versions", table_.rows(),
            [](const auto& key, const auto& version) { return std::pair(key, Json(version)); });
  }
  [[nodiscard]] std::int64_t done() const {
    std::int64_t done = 0;
    for (const auto& [key, version] : table_) done += version == settings_.versions ? 1 : 0;
    return done;
  }
  [[nodiscard]] std::int64_t version(const std::string& key) const {
    const auto* row = table_.find(key);
    return row == nullptr ? 0 : *row;
  }

  std::atomic<bool> skipped{false};

 private:
  const Settings& settings_;
  bool sends_;
  Table<std::string, std::int64_t> table_;
};

class Notes final : public service::Executor {
 public:
  explicit Notes(std::string path) : path_(std::move(path)) {}
  Result<service::Outcome> execute(const store::IntentRow& intent) override {
    const std::lock_guard lock(mutex_);
    std::ofstream(path_, std::ios::app) << intent.payload << std::endl;
    return service::Outcome{};
  }
  service::Outcome failed(const store::IntentRow&, const Error& error) override { return {error.message}; }

 private:
  std::mutex mutex_;
  std::string path_;
};

struct Service {
  Service(const std::string& name, std::shared_ptr<bus::Bus> bus, const Settings& settings) : notes(settings.state) {
    auto place = store::open_postgres({.conninfo = settings.conninfo,
                                       .service = name,
                                       .shard = settings.shard,
                                       .migrations = {{1, "applied", kApplied}}});
    if (!place) {
      error = place.error().to_string();
      return;
    }
    service::HostOptions options;
    options.service = name;
    options.shard = settings.shard;
    (name == "serve" ? options.produces : options.consumes) = {settings.topic};
    auto shell = std::make_unique<Steps>(settings, name == "serve");
    steps = shell.get();
    host = std::make_unique<service::Host>(options, std::move(shell), std::move(*place), std::move(bus), clock, &notes);
    if (auto opened = host->open(); !opened) error = opened.error().to_string();
  }

  /// True if every key is at its last version and no work is open: work that the last step created is counted after
  /// that step.
  [[nodiscard]] bool over(const Settings& settings) {
    std::int64_t done = 0;
    host->read([&](const service::Shell& shell) { done = static_cast<const Steps&>(shell).done(); });
    const auto counters = host->counters();
    return done == settings.keys && counters.open_intents == 0 && counters.mailbox == 0 && counters.outbox_backlog == 0;
  }

  SystemClock clock;
  Notes notes;
  Steps* steps = nullptr;
  std::unique_ptr<service::Host> host;
  std::string error;
};

int refuse(const std::string& error) {
  std::cerr << error << '\n';
  return 3;
}

/// Lets the other threads run.
void pause() {
  std::promise<void> never;
  never.get_future().wait_for(5ms);
}

}  // namespace

int serve(std::shared_ptr<bus::Bus> bus, const Settings& settings) {
  Service service("serve", std::move(bus), settings);
  if (!service.error.empty()) return refuse(service.error);
  service.host->start();
  for (int version = 1; version <= settings.versions; ++version) {
    for (int key = 0; key < settings.keys; ++key) {
      std::int64_t at = 0;
      service.host->read([&](const service::Shell&) { at = service.steps->version(key_name(key)); });
      while (at < version) {
        service::Input input;
        input.source = Source::kRequest;
        input.name = "step";
        input.bytes = key_name(key) + "=" + std::to_string(version);
        input.id = input.bytes;
        std::promise<Result<std::string>> answer;
        auto future = answer.get_future();
        const auto taken =
            service.host->submit(std::move(input), [&](Result<std::string> r) { answer.set_value(std::move(r)); });
        if (!taken) return refuse(taken.error().to_string());
        if (const auto reply = future.get()) break;
        if (!service.host->alive()) return refuse("the shard is lost");
      }
    }
  }
  while (!service.over(settings)) pause();
  service.host->stop();
  return service.steps->skipped ? 4 : 0;
}

int apply(std::shared_ptr<bus::Bus> bus, const Settings& settings) {
  Service service("apply", std::move(bus), settings);
  if (!service.error.empty()) return refuse(service.error);
  service.host->start();
  while (!service.over(settings) && !service.steps->skipped) pause();
  service.host->stop();
  const auto counters = service.host->counters();
  std::cout << "duplicates " << counters.duplicates << " gaps " << counters.gaps << '\n';
  return service.steps->skipped || counters.gaps > 0 ? 4 : 0;
}

}  // namespace qm::torture
