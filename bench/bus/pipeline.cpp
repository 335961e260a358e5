#include "pipeline.hpp"

#include "qm/clock/clock.hpp"
#include "qm/service/host.hpp"
#include "report.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace qm::bench {
namespace {

using namespace std::chrono_literals;
using service::Source;

/// An engine without decisions: every input writes its key's state, and a request is also published on the topic.
/// Payloads begin with the number of the input.
class Pass final : public service::Shell {
 public:
  Pass(std::string topic, std::function<void(int)> committed)
      : topic_(std::move(topic)), committed_(std::move(committed)) {}
  Status load(std::span<const store::StateRow>) override { return {}; }
  void step(std::span<const service::Input> batch, Instant, service::Effects& out,
            std::vector<std::pair<std::size_t, Error>>&) override {
    for (const auto& in : batch) {
      if (in.source != Source::kRequest && in.source != Source::kBus) continue;
      out.state.push_back({"pass", in.key, in.bytes});
      if (in.source == Source::kRequest) out.events.push_back({topic_, in.key, in.bytes, false});
      step_.push_back(std::atoi(in.bytes.c_str()));
    }
  }
  void undo() override { step_.clear(); }
  void commit() override {
    for (const int number : step_) committed_(number);
    step_.clear();
  }
  [[nodiscard]] std::uint64_t digest() const override { return 0; }
  void debug_state(service::StateDump&) const override {}

 private:
  std::string topic_;
  std::function<void(int)> committed_;
  std::vector<int> step_;
};

/// Two hosts and a topic between them; reports the commits on either side.
class Line {
 public:
  Line(const std::string& setting, const std::string& conninfo, const std::string& name,
       std::function<void(int)> reported, std::function<void(int)> received)
      : topic_("bench." + name), bus_(must(bus::make_bus(setting))) {
    speaker_ = host("speaker", conninfo, name, std::move(reported));
    listener_ = host("listener", conninfo, name, std::move(received));
  }
  ~Line() {
    speaker_->stop();
    listener_->stop();
  }
  /// Waits while the mailbox is full.
  void say(int number) {
    service::Input input;
    input.source = Source::kRequest;
    input.name = "pass";
    input.key = "key" + std::to_string(number % kKeys);
    input.bytes = std::to_string(number) + std::string(kBytes, ' ');
    while (!speaker_->submit(input)) std::this_thread::sleep_for(1ms);
  }
  [[nodiscard]] std::string carrier() const { return bus_->name(); }

 private:
  std::unique_ptr<service::Host> host(const std::string& service, const std::string& conninfo, const std::string& name,
                                      std::function<void(int)> committed) {
    service::HostOptions options;
    options.service = service;
    options.shard = name;
    (service == "speaker" ? options.produces : options.consumes) = {topic_};
    auto place = must(store::open_postgres({.conninfo = conninfo, .service = service, .shard = name}));
    auto out = std::make_unique<service::Host>(options, std::make_unique<Pass>(topic_, std::move(committed)),
                                               std::move(place), bus_, clock_, nullptr);
    must(out->open());
    out->start();
    return out;
  }

  std::string topic_;
  SystemClock clock_;
  std::shared_ptr<bus::Bus> bus_;
  std::unique_ptr<service::Host> speaker_, listener_;
};

/// A counter that a thread waits for.
class Target {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  void wait(int count) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 120s, [&] { return count_ >= count; })) {
      std::cerr << "only " << count_ << " of " << count << " events had their effect within 120 s\n";
      std::exit(1);
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

std::string fresh_name() {
  static int number = 0;
  return std::to_string(::getpid()) + "-" + std::to_string(++number);
}

}  // namespace

void pipeline(const std::string& setting, const std::string& conninfo) {
  constexpr int kWarm = 2000;
  constexpr int kEvents = 60'000;
  std::string carrier;
  std::vector<double> rates;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    Target reported, received;
    Line line(
        setting, conninfo, fresh_name(), [&](int) { reported.add(); }, [&](int) { received.add(); });
    carrier = line.carrier();
    for (int i = 0; i < kWarm; ++i) line.say(i);
    received.wait(kWarm);
    const auto start = Clock::now();
    for (int i = kWarm; i < kWarm + kEvents; ++i) line.say(i);
    reported.wait(kWarm + kEvents);
    const double committed = since(start);
    received.wait(kWarm + kEvents);
    rates.push_back(kEvents / since(start));
    std::cerr << "pipeline " << carrier << ": committed at " << kEvents / committed << "/s, effect at " << rates.back()
              << "/s\n";
  }
  Report report("bus.pipeline", {{"carrier", carrier}, {"events", kEvents}});
  for (const double rate : rates) report.add("events_per_s", rate);
  report.print();
}

void effect(const std::string& setting, int rate, const std::string& conninfo) {
  const int warm = rate * 2, events = rate * 10;
  std::vector<std::pair<std::string, double>> figures;
  std::string carrier;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    std::vector<Clock::time_point> due(static_cast<std::size_t>(warm + events)), reported = due, received = due;
    Target all;
    Line line(
        setting, conninfo, fresh_name(), [&](int i) { reported[static_cast<std::size_t>(i)] = Clock::now(); },
        [&](int i) {
          received[static_cast<std::size_t>(i)] = Clock::now();
          all.add();
        });
    carrier = line.carrier();
    const auto start = Clock::now() + 100ms;
    for (int i = 0; i < warm + events; ++i) {
      auto& at = due[static_cast<std::size_t>(i)];
      at = start + std::chrono::nanoseconds(std::int64_t{1'000'000'000} * i / rate);
      std::this_thread::sleep_until(at);
      line.say(i);
    }
    all.wait(warm + events);
    std::vector<double> from_commit, from_due;
    for (std::size_t i = static_cast<std::size_t>(warm); i < received.size(); ++i) {
      from_commit.push_back(std::chrono::duration<double, std::milli>(received[i] - reported[i]).count());
      from_due.push_back(std::chrono::duration<double, std::milli>(received[i] - due[i]).count());
    }
    for (const double share : {0.5, 0.99}) {
      const auto p = share < 0.9 ? "p50" : "p99";
      figures.emplace_back(std::string(p) + "_publish_to_effect_ms", at_share(from_commit, share));
      figures.emplace_back(std::string(p) + "_due_to_effect_ms", at_share(from_due, share));
    }
  }
  Report report("bus.effect", {{"carrier", carrier}, {"per_s", rate}});
  for (const auto& [name, value] : figures) report.add(name, value);
  report.print();
}

}  // namespace qm::bench
