#include "qm/telemetry/shell.hpp"
#include "qm/wire/sample.hpp"
#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>

namespace qm::telemetry::testing {
namespace samples_test {

using namespace std::chrono_literals;

/// Samples on a manual clock; steady time advances with it, `factor` times slower.
class SamplesTest : public ::testing::Test {
 protected:
  SamplesTest() {
    samples_.on_closed([this](const pb::UsageInterval& u) { closed_.push_back(u); });
  }
  void at(std::int64_t s) {
    const auto before = clock_.now();
    clock_.set(from_micros(s * 1'000'000));
    if (micros(before) != 0) steady_ += std::chrono::duration_cast<SteadyDuration>((clock_.now() - before) / factor_);
  }
  void take(const pb::SampleFrame& f) { samples_.take(f, steady_); }
  /// A frame of node a at domain second s, with one GPU.
  void sampled(std::int64_t s, double utilization, const std::string& pod = {}, std::int64_t energy = 0) {
    at(s);
    take(frame("a", s, ++sequence_, {sample(0, utilization, pod, energy)}));
  }
  std::size_t living(const std::string& node = "a") { return samples_.readings(node, steady_).size(); }
  SteadyDuration life() { return samples_.by_node(steady_).at(0).life; }

  ManualClock clock_{from_micros(0)};
  SteadyInstant steady_{1h};
  int factor_ = 1;
  std::uint64_t sequence_ = 0;
  Samples samples_{15min, clock_};
  std::vector<pb::UsageInterval> closed_;
};

TEST_F(SamplesTest, KeepTheLastOfEveryGpuInOrder) {
  at(100);
  take(frame("b", 100, 1, {sample(1, 0.1), sample(0, 0.2)}));
  take(frame("a", 100, 1, {sample(10, 0.3), sample(9, 0.4)}));
  at(160);
  take(frame("b", 160, 2, {sample(0, 0.9, "p")}));
  const auto all = samples_.readings("", steady_);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].node(), "a");
  EXPECT_EQ(all[0].sample().gpu_index(), 9);
  EXPECT_EQ(all[2].node(), "b");
  EXPECT_EQ(all[2].sample().utilization(), 0.9);
  EXPECT_EQ(all[2].sample().pod(), "p");
  EXPECT_EQ(all[2].at_us(), 160'000'000);
  EXPECT_EQ(all[3].at_us(), 100'000'000) << "the age of a value is its own";
  EXPECT_EQ(samples_.readings("b", steady_).size(), 2U);
  EXPECT_TRUE(samples_.readings("c", steady_).empty());
  EXPECT_EQ(samples_.counters().frames, 3U);
  EXPECT_EQ(samples_.counters().samples, 5U);
}

TEST_F(SamplesTest, AJumpAheadIsAGapAndARestartIsNone) {
  at(1000);
  take(frame("a", 100, 5, {}));
  take(frame("a", 160, 6, {}));
  EXPECT_EQ(samples_.counters().gaps, 0U) << "the first number of an agent is as good as any";
  take(frame("a", 220, 9, {}));
  EXPECT_EQ(samples_.counters().gaps, 1U);
  take(frame("a", 280, 1, {}));
  take(frame("a", 340, 2, {}));
  EXPECT_EQ(samples_.counters().gaps, 1U) << "an agent that starts again counts from the beginning";
  take(frame("b", 100, 40, {}));
  EXPECT_EQ(samples_.counters().gaps, 1U) << "each node for itself";
}

TEST_F(SamplesTest, WhatComesLateIsDroppedAndIsNoGap) {
  sampled(100, 0.1);
  at(160);
  take(frame("a", 160, 3, {sample(0, 0.3)}));
  EXPECT_EQ(samples_.counters().gaps, 1U);
  take(frame("a", 130, 2, {sample(0, 0.2), sample(1, 0.2)}));
  take(frame("a", 160, 3, {sample(0, 0.7)}));
  EXPECT_EQ(samples_.counters().late, 3U);
  EXPECT_EQ(samples_.readings("a", steady_).at(0).sample().utilization(), 0.3);
  take(frame("a", 220, 4, {sample(0, 0.4)}));
  EXPECT_EQ(samples_.counters().gaps, 1U) << "the late one did not set the count back";
  EXPECT_EQ(samples_.counters().samples, 3U);
}

TEST_F(SamplesTest, AnIntervalClosesWhenThePodChanges) {
  sampled(0, 0.0);  // at_us 0 is before any frame
  sampled(60, 0.2, "p", 1000);
  sampled(120, 0.4, "p", 1600);
  sampled(180, 0.9, "q", 2600);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].node(), "a");
  EXPECT_EQ(closed_[0].namespace_(), "team");
  EXPECT_EQ(closed_[0].pod(), "p");
  EXPECT_EQ(closed_[0].from_us(), 60'000'000);
  EXPECT_EQ(closed_[0].to_us(), 180'000'000);
  EXPECT_EQ(closed_[0].samples(), 2);
  EXPECT_DOUBLE_EQ(closed_[0].utilization(), 0.3);
  EXPECT_EQ(closed_[0].energy_mj(), 600);
  EXPECT_EQ(closed_[0].gpu_uuid(), "GPU-0");
  sampled(240, 0.5);
  ASSERT_EQ(closed_.size(), 2U);
  EXPECT_EQ(closed_[1].pod(), "q");
  EXPECT_DOUBLE_EQ(closed_[1].utilization(), 0.9);
  EXPECT_EQ(closed_[1].energy_mj(), 1000) << "no energy falls between two intervals";
  sampled(300, 0.5, "p");
  EXPECT_EQ(closed_[2].pod(), "") << "no pod held it";
}

TEST_F(SamplesTest, AnIntervalClosesAtItsLength) {
  for (std::int64_t s = 60; s <= 60 + 30 * 60; s += 60) sampled(s, 0.5, "p");
  ASSERT_EQ(closed_.size(), 2U);
  EXPECT_EQ(closed_[0].from_us(), 60'000'000);
  EXPECT_EQ(closed_[0].to_us(), 960'000'000);
  EXPECT_EQ(closed_[0].samples(), 15);
  EXPECT_EQ(closed_[1].from_us(), closed_[0].to_us()) << "intervals of one GPU touch";
  EXPECT_EQ(closed_[1].to_us(), 1'860'000'000);
}

TEST_F(SamplesTest, AnIntervalClosesAtItsLastSampleWhereTheGpuFellSilent) {
  sampled(60, 0.2, "p");
  sampled(120, 0.4, "p");
  sampled(4000, 0.8, "p");
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].to_us(), 120'000'000) << "the hour without samples belongs to no pod";
  sampled(4060, 0.8, "q");
  ASSERT_EQ(closed_.size(), 2U);
  EXPECT_EQ(closed_[1].from_us(), 4'000'000'000);
  EXPECT_EQ(closed_[1].samples(), 1);
}

TEST_F(SamplesTest, AnEnergyCounterThatWentBackAndAValueThatIsNoneDoNoHarm) {
  sampled(60, 0.5, "p", 5000);
  sampled(120, std::numeric_limits<double>::quiet_NaN(), "p", 5100);
  sampled(180, 0.5, "p", 10);
  sampled(240, 0.5, "q", 20);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].energy_mj(), 0);
  EXPECT_DOUBLE_EQ(closed_[0].utilization(), 0.5);
  EXPECT_EQ(closed_[0].samples(), 2);
}

TEST_F(SamplesTest, ACounterThatWasMissingIsNotChargedWithItsTotal) {
  constexpr std::int64_t kLifetime = 9'000'000'000;
  const auto missing = [&](std::int64_t s, const std::string& pod) {
    at(s);
    auto blank = sample(0, 0.5, pod, 0);
    wire::set_missing(blank, pb::GpuSample::kEnergyMjFieldNumber);
    take(frame("a", s, ++sequence_, {blank}));
  };
  // At the start of an interval, in the middle, and from an agent that sends a zero for a missing value.
  missing(60, "p");
  sampled(120, 0.5, "p", kLifetime);
  sampled(180, 0.5, "p", kLifetime + 100);
  missing(240, "p");
  sampled(300, 0.5, "p", kLifetime + 300);
  sampled(360, 0.5, "p", 0);
  sampled(420, 0.5, "p", kLifetime + 600);
  sampled(480, 0.5, "q", kLifetime + 1000);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].energy_mj(), 600);
  // It is missing while the holder changes: the owner of the energy is not known.
  missing(540, "q");
  missing(600, "r");
  sampled(660, 0.5, "r", kLifetime + 5000);
  sampled(720, 0.5, "r", kLifetime + 5010);
  sampled(780, 0.5, "s", kLifetime + 5020);
  ASSERT_EQ(closed_.size(), 3U);
  EXPECT_EQ(closed_[1].pod(), "q");
  EXPECT_EQ(closed_[1].energy_mj(), 400);
  EXPECT_EQ(closed_[2].pod(), "r");
  EXPECT_EQ(closed_[2].energy_mj(), 10);
}

TEST_F(SamplesTest, AnotherGpuAtTheIndexBeginsANewInterval) {
  sampled(60, 0.5, "p", 1000);
  sampled(120, 0.5, "p", 1600);
  at(180);
  auto other = sample(0, 0.9, "p", 9'000'000'000);
  other.set_gpu_uuid("GPU-other");
  take(frame("a", 180, ++sequence_, {other}));
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].gpu_uuid(), "GPU-0");
  EXPECT_EQ(closed_[0].energy_mj(), 600);
  EXPECT_EQ(closed_[0].to_us(), 120'000'000);
  samples_.forget("a");
  EXPECT_EQ(closed_.size(), 1U) << "one sample, and no time of its own";
}

TEST_F(SamplesTest, AClockThatIsSetBackDropsNoFrame) {
  at(10'000);
  const auto send = [&](std::int64_t s, std::uint64_t sequence, const std::string& agent,
                        const std::string& pod = "p") {
    auto f = frame("a", s, sequence, {sample(0, 0.5, pod, s)});
    f.set_agent(agent);
    take(f);
  };
  send(5000, 1, "x");
  send(5060, 2, "x");
  send(1000, 3, "x");  // an hour and more
  send(1000, 4, "x");  // the clock does not advance
  send(1060, 5, "x");
  EXPECT_EQ(samples_.counters().late, 0U);
  EXPECT_EQ(samples_.counters().gaps, 0U);
  EXPECT_EQ(samples_.readings("a", steady_).at(0).at_us(), 1'060'000'000);
  ASSERT_EQ(closed_.size(), 1U) << "what was sampled before";
  EXPECT_EQ(closed_[0].from_us(), 5'000'000'000);
  EXPECT_EQ(closed_[0].to_us(), 5'060'000'000);
  send(1000, 4, "x");
  EXPECT_EQ(samples_.counters().late, 1U) << "out of order, all the same";

  // An agent that starts after its clock was set back; the backlog of its predecessor is late.
  send(500, 1, "y");
  send(560, 2, "y");
  EXPECT_EQ(samples_.counters().late, 1U);
  send(555, 6, "x");
  EXPECT_EQ(samples_.counters().late, 2U);
  EXPECT_EQ(samples_.readings("a", steady_).at(0).at_us(), 560'000'000);
  send(620, 3, "y");
  EXPECT_EQ(samples_.counters().late, 2U);
  EXPECT_EQ(samples_.counters().gaps, 0U);
}

TEST_F(SamplesTest, FramesOfTheAgentBeforeAreLateWhateverTheirTime) {
  at(10'000);
  const auto send = [&](std::int64_t s, std::uint64_t sequence, const std::string& agent) {
    auto f = frame("a", s, sequence, {sample(0, 0.5, "p", s)});
    f.set_agent(agent);
    take(f);
  };
  send(5060, 7, "x");
  send(500, 1, "y");  // it starts after the clock was set back
  send(5120, 8, "x");
  EXPECT_EQ(samples_.counters().late, 1U);
  send(560, 2, "y");
  EXPECT_EQ(samples_.counters().late, 1U);
  EXPECT_EQ(samples_.counters().gaps, 0U);
  EXPECT_EQ(samples_.readings("a", steady_).at(0).at_us(), 560'000'000);
  // An older agent without a name may replace it again.
  send(620, 1, "");
  EXPECT_EQ(samples_.counters().late, 1U);
  EXPECT_EQ(samples_.readings("a", steady_).at(0).at_us(), 620'000'000);
}

TEST_F(SamplesTest, AnAgentWithoutANameIsOrderedByItsSequence) {
  sampled(5000, 0.1);
  sampled(5060, 0.1);
  at(6000);
  take(frame("a", 100, ++sequence_, {sample(0, 0.7)}));
  EXPECT_EQ(samples_.counters().late, 0U);
  EXPECT_EQ(samples_.readings("a", steady_).at(0).sample().utilization(), 0.7);
}

TEST_F(SamplesTest, AForgottenNodeClosesItsIntervals) {
  sampled(60, 0.5, "p");
  sampled(120, 0.5, "p");
  samples_.forget("a");
  samples_.forget("unknown");
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].to_us(), 120'000'000);
  EXPECT_EQ(living(), 0U);
  take(frame("a", 60, 9, {sample(0, 0.1)}));
  EXPECT_EQ(living(), 1U) << "a node of the same name starts empty";
  EXPECT_EQ(samples_.counters().gaps, 0U);
}

TEST_F(SamplesTest, AReadingLivesThreePeriods) {
  sampled(1000, 0.1);
  sampled(1060, 0.1);
  EXPECT_EQ(life(), 180s);
  at(1060 + 180);
  EXPECT_EQ(living(), 1U);
  at(1060 + 181);
  EXPECT_EQ(living(), 0U);
  ASSERT_EQ(closed_.size(), 1U);
  EXPECT_EQ(closed_[0].to_us(), 1'060'000'000);
  sampled(1260, 0.1);
  EXPECT_EQ(living(), 1U);
  EXPECT_EQ(life(), 180s) << "the pause is not a period";
}

TEST_F(SamplesTest, OneGpuMayFallSilentAlone) {
  at(1000);
  take(frame("a", 1000, 1, {sample(0, 0.1), sample(1, 0.1)}));
  for (std::int64_t s = 1060; s <= 1180; s += 60) sampled(s, 0.2);
  EXPECT_EQ(living(), 2U);
  sampled(1240, 0.2);
  EXPECT_EQ(living(), 1U) << "as one does that fell off the bus";
}

TEST_F(SamplesTest, BeforeThePeriodIsKnownItIsAMinute) {
  sampled(1000, 0.1);
  EXPECT_EQ(life(), 180s);
  at(1180);
  EXPECT_EQ(living(), 1U);
  at(1181);
  EXPECT_EQ(living(), 0U);
}

TEST_F(SamplesTest, LifeFollowsTheSteadyPeriodAndIsSixSecondsAtLeast) {
  factor_ = 10;  // a minute of the domain in six seconds
  sampled(1000, 0.1);
  sampled(1060, 0.1);
  EXPECT_EQ(life(), 18s);
  factor_ = 600;
  for (std::int64_t s = 1120; s < 1120 + 60 * 60; s += 60) sampled(s, 0.1);
  EXPECT_EQ(life(), 6s) << "a tenth of a second each";
}

TEST_F(SamplesTest, ABurstDoesNotMakeANodeLookFast) {
  sampled(1000, 0.1);
  sampled(1060, 0.1);
  at(1061);
  take(frame("a", 1061, ++sequence_, {sample(0, 0.1)}));
  EXPECT_EQ(life(), 3 * 45s);
}

TEST_F(SamplesTest, AClockThatSlowsDownTakesNoReadingAway) {
  factor_ = 600;
  sampled(1000, 0.1);
  sampled(1060, 0.1);
  sampled(1120, 0.1);
  factor_ = 1;
  at(1179);  // a minute of both times since the last frame: long past six seconds
  EXPECT_EQ(living(), 1U);
}

TEST_F(SamplesTest, AFastClockGivesAHeldUpAgentItsSeconds) {
  factor_ = 600;
  sampled(1000, 0.1);
  sampled(1060, 0.1);
  at(1060 + 3000);  // fifty periods, five seconds
  EXPECT_EQ(living(), 1U);
  at(1060 + 4000);
  EXPECT_EQ(living(), 0U);
}

}  // namespace samples_test
}  // namespace qm::telemetry::testing
