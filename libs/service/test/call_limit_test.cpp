// Fewer calls at once where a server responds later than it did.
#include "qm/service/call_limit.hpp"

#include <gtest/gtest.h>

namespace qm::service {
namespace call_limit_test {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

struct Server {
  explicit Server(int most = 8) : limit(most) {}
  /// Calls one after the other, each 10 ms after the one before.
  void respond(int calls, SteadyDuration latency) {
    for (int i = 0; i < calls; ++i) limit.ended(now += 10ms, latency);
  }
  CallLimit limit;
  SteadyInstant now = steady_clock::now();
};

TEST(CallLimit, AllUntilALatencyIsKnownAndWhileItDoesNotChange) {
  Server s;
  EXPECT_EQ(s.limit.calls(), 8);
  s.respond(100, 5ms);
  EXPECT_EQ(s.limit.calls(), 8);
}

TEST(CallLimit, FallsInProportionToTheLatencyToAQuarterAndRises) {
  Server s;
  s.respond(1, 5ms);
  s.respond(100, 10ms);
  EXPECT_EQ(s.limit.calls(), 4);
  s.respond(100, 1s);
  EXPECT_EQ(s.limit.calls(), 2);
  s.respond(200, 5ms);
  EXPECT_EQ(s.limit.calls(), 8);
}

TEST(CallLimit, OneLateResponseCountsLittle) {
  Server s;
  s.respond(100, 5ms);
  s.respond(1, 15ms);
  EXPECT_GE(s.limit.calls(), 6);
}

TEST(CallLimit, AServerThatStaysSlowGetsAllCallsAgain) {
  Server s;
  s.respond(100, 5ms);
  s.respond(100, 500ms);
  EXPECT_EQ(s.limit.calls(), 2);
  const int in_window = static_cast<int>(CallLimit::kWindow / 10ms);
  s.respond(in_window / 4, 500ms);
  EXPECT_EQ(s.limit.calls(), 2);
  s.respond(2 * in_window, 500ms);
  EXPECT_EQ(s.limit.calls(), 8);
}

TEST(CallLimit, LatenciesOfBeforeAPauseDoNotCount) {
  Server s;
  s.respond(1, 5ms);
  s.respond(100, 500ms);
  s.now += CallLimit::kWindow;
  s.respond(1, 50ms);
  EXPECT_EQ(s.limit.calls(), 8);
}

TEST(CallLimit, OneCallAtLeast) {
  for (const int most : {1, 2}) {
    Server s(most);
    s.respond(1, 1ms);
    s.respond(100, 1s);
    EXPECT_EQ(s.limit.calls(), 1);
  }
}

TEST(CallLimit, WorkThatWaitsGetsMoreCalls) {
  Server s;
  s.respond(1, 5ms);
  s.respond(100, 500ms);
  EXPECT_EQ(s.limit.calls(), 2);
  EXPECT_EQ(s.limit.calls(CallLimit::kPatience / 8), 2);
  EXPECT_EQ(s.limit.calls(CallLimit::kPatience / 2), 4);
  EXPECT_EQ(s.limit.calls(CallLimit::kPatience), 8);
  EXPECT_EQ(s.limit.calls(2 * CallLimit::kPatience), 8);
}

}  // namespace call_limit_test
}  // namespace qm::service
