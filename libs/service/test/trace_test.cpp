// The trace of an input is passed to the events about the same object, and is in the log.
#include "src/trace.hpp"

#include "qm/base/log.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/envelope.pb.h"

#include <gtest/gtest.h>

namespace qm::service {
namespace trace_test {

namespace pb = quartermaster::v1;

constexpr const char* kIdA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
constexpr const char* kIdB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
std::string parent(const std::string& id) { return "00-" + id + "-00f067aa0ba902b7-01"; }

Input about(const std::string& key, const std::string& trace) {
  Input in;
  in.source = Source::kWatch;
  in.name = "seen";
  in.key = key;
  in.trace_parent = trace;
  return in;
}

TEST(Traces, GoOnWithTheEventsAboutTheSameKey) {
  const std::vector<Input> inputs = {about("a", parent(kIdA)), about("b/1", parent(kIdB)), about("c", ""),
                                     about("", "")};
  const Traces traces(inputs);
  EXPECT_EQ(traces.of("a"), parent(kIdA));
  EXPECT_EQ(traces.of("a/2"), parent(kIdA)) << "below the input's key";
  EXPECT_EQ(traces.of("b"), parent(kIdB)) << "above it";
  EXPECT_EQ(traces.of("c"), "") << "not under the trace of another call";
  EXPECT_EQ(traces.of("c/1"), "");
  EXPECT_EQ(traces.of("demand"), "");
  EXPECT_EQ(traces.ids(), (std::vector<std::string_view>{kIdA, kIdB}));
}

TEST(Traces, DoNotExtendToOtherObjectsThatTheBatchDecides) {
  const std::vector<Input> inputs = {about("a", parent(kIdA)), about("c", ""), about("a/1", parent(kIdA))};
  const Traces traces(inputs);
  for (const char* other : {"b", "b/1", "promise/b", "evict/b/1", "c", "demand", ""})
    EXPECT_EQ(traces.of(other), "") << other;
  for (const char* same : {"a", "a/2", "promise/a", "evict/a/1", "evict/a/1/node"})
    EXPECT_EQ(traces.of(same), parent(kIdA)) << same;
  EXPECT_EQ(traces.ids().size(), 1U);
  const std::vector<Input> plain = {about("a", ""), about("", "")};
  EXPECT_EQ(Traces(plain).of("a"), "");
  EXPECT_TRUE(Traces(plain).ids().empty());
}

/// Publishes an event for each input's key.
class Echo final : public Shell {
 public:
  Status load(std::span<const store::StateRow>) override { return {}; }
  void step(std::span<const Input> batch, Instant, Effects& out, std::vector<std::pair<std::size_t, Error>>&) override {
    for (const auto& in : batch) {
      if (!in.key.empty()) out.events.push_back({"qm.test", in.key, "seen", false});
    }
  }
  void undo() override {}
  void commit() override {}
  [[nodiscard]] std::uint64_t digest() const override { return 0; }
  void debug_state(StateDump&) const override {}
};

std::string log_of(const std::function<void()>& fn) {
  ::testing::internal::CaptureStderr();
  fn();
  return ::testing::internal::GetCapturedStderr();
}

TEST(HostTrace, IsInEventsAndInTheLogOfTheDecision) {
  const auto bus = *bus::make_bus("memory:host-trace");
  ManualClock clock{from_micros(1'000'000)};
  HostOptions options;
  options.service = "test";
  options.produces = {"qm.test"};
  Host host(options, std::make_unique<Echo>(), store::open_memory(store::make_memory_disk()), bus, clock, nullptr);
  ASSERT_TRUE(host.open());
  for (const auto& in : {about("a", parent(kIdA)), about("b", parent(kIdB)), about("c", "")})
    ASSERT_TRUE(host.submit(in));
  // Its first iteration wakes the engine too.
  const std::string traced = log_of([&] { EXPECT_TRUE(host.pump()); });
  for (const std::string id : {kIdA, kIdB}) {
    EXPECT_NE(traced.find("decided decision_id=test/default/1 trace_id=" + id + " inputs=4 events=3 intents=0"),
              std::string::npos)
        << traced;
  }
  ASSERT_TRUE(host.submit(about("c", "")));
  EXPECT_EQ(log_of([&] { EXPECT_TRUE(host.pump()); }), "") << "an untraced call has no trace";

  EXPECT_TRUE(host.relay_once());
  const auto consumer = *bus->consumer({"check", {"qm.test"}, [](const auto&) { return std::int64_t{-1}; }});
  std::map<std::string, std::string> carried;
  const auto messages = *consumer->poll(10, std::chrono::milliseconds(10));
  for (const auto& message : messages) {
    pb::Envelope e;
    ASSERT_TRUE(e.ParseFromString(message.value));
    carried[e.key()] = e.trace_parent();
  }
  EXPECT_EQ(carried, (std::map<std::string, std::string>{{"a", parent(kIdA)}, {"b", parent(kIdB)}, {"c", ""}}));
}

}  // namespace trace_test
}  // namespace qm::service
