#include "qm/admission/forecast/run_times.hpp"

#include "qm/admission/forecast/chance.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::admission::forecast {
namespace run_times_test {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

Instant at(Duration d) { return from_micros(0) + d; }
double h(Duration d) { return qm::seconds(d) / 3600; }
const JobClass kBert{"nlp", "8 gpu", "bert"};

TEST(Spans, GrowByTheEighthRootOfTwo) {
  EXPECT_EQ(span_begin(0), Duration::zero());
  EXPECT_EQ(span_begin(1), seconds(1));
  EXPECT_NEAR(qm::seconds(span_begin(9)), 2, 1e-5);
  EXPECT_NEAR(qm::seconds(span_begin(81)), 1024, 1e-2);
  EXPECT_EQ(span_of(Duration(-5)), 0U);
  EXPECT_EQ(span_of(span_begin(77)), 77U);
  EXPECT_EQ(span_of(span_begin(77) - Duration(1)), 76U);
  EXPECT_EQ(span_of(Duration::max()), kSpans - 1);
}

TEST(Lifetime, WithoutKnowledgeMedianRemainderIsPriorPlusAge) {
  const Lifetime prior(log_logistic(minutes(20), 1));
  EXPECT_NEAR(h(prior.quantile(0.5)), h(minutes(20)), 0.01);
  EXPECT_NEAR(h(prior.remaining(0.5, hours(10))), 10.33, 0.2);
  EXPECT_NEAR(prior.survival(minutes(20)), 0.5, 0.01);
}

TEST(Lifetime, EndsAtItsLimit) {
  const auto life = Lifetime(log_logistic(hours(10), 1)).limited(hours(2)).limited(hours(5));
  EXPECT_EQ(life.quantile(0.9), hours(2));
  EXPECT_EQ(life.remaining(0.5, hours(3)), Duration::zero());  // its limit has passed
  EXPECT_EQ(life.survival(hours(2)), 0);
  EXPECT_GT(life.survival(hours(2) - Duration(1)), 0.8);
}

TEST(Lifetime, EndsAtStartOfItsLastSpan) {
  const Lifetime forever{Lifetime::Hazards{}};
  EXPECT_EQ(forever.quantile(0.5), span_begin(kSpans - 1));
  EXPECT_EQ(forever.remaining(0.5, Duration::max()), Duration::zero());
  EXPECT_GT(forever.survival(hours(24 * 365 * 50)), 0.99);
}

RC_GTEST_PROP(LifetimeProperty, QuantilesRiseFromAgeAndInvertSurvival, ()) {
  const auto life = Lifetime(log_logistic(seconds(*rc::gen::inRange(10, 100'000)), *rc::gen::inRange(1, 5)))
                        .stretched(*rc::gen::inRange(1, 50) / 10.0);
  const Duration age = seconds(*rc::gen::inRange(0, 1'000'000));
  Duration before = age;
  for (const double p : {0.0, 0.1, 0.5, 0.9, 0.99}) {
    const auto q = life.quantile(p, age);
    RC_ASSERT(q >= before);
    before = q;
    const double expected = life.survival(age) * (1 - p);
    RC_ASSERT(std::abs(life.survival(q) - expected) < 1e-6 + expected * 1e-3);
  }
}

TEST(LifeTable, LearnsQuantilesFromFinishedRuns) {
  LifeTable table(hours(10'000));
  for (int i = 1; i <= 1000; ++i) table.add(minutes(i), LifeTable::End::kEnded, at(hours(1)));
  const Lifetime life(table.hazards(log_logistic(minutes(20), 1), 1, at(hours(1))));
  EXPECT_NEAR(h(life.quantile(0.5)), h(minutes(500)), 0.2);
  EXPECT_NEAR(h(life.quantile(0.9)), h(minutes(900)), 0.4);
  EXPECT_NEAR(h(life.quantile(0.5, minutes(800))), h(minutes(900)), 0.4);
}

/// All lifetimes follow the same law, and half of them are censored at a random time. An estimator that counts
/// censored lifetimes as ends, or leaves them out, finds about half of the true median.
TEST(LifeTable, CensoredRunsAreNotShortRuns) {
  const Lifetime truth(log_logistic(hours(3), 2));
  LifeTable honest(hours(10'000)), naive(hours(10'000)), deaf(hours(10'000));
  for (std::uint64_t i = 0; i < 4000; ++i) {
    const auto lives = truth.quantile(chance(7, i, 0)), cut = truth.quantile(chance(7, i, 1));
    const auto seen = std::min(lives, cut);
    const bool ended = lives <= cut;
    honest.add(seen, ended ? LifeTable::End::kEnded : LifeTable::End::kCutOff, at(hours(1)));
    naive.add(seen, LifeTable::End::kEnded, at(hours(1)));
    if (ended) deaf.add(seen, LifeTable::End::kEnded, at(hours(1)));
  }
  const auto median = [](const LifeTable& table) {
    return h(Lifetime(table.hazards(log_logistic(minutes(20), 1), 1, at(hours(1)))).quantile(0.5));
  };
  EXPECT_NEAR(median(honest), 3, 0.15);
  EXPECT_LT(median(naive), 2);
  EXPECT_LT(median(deaf), 2);
}

TEST(LifeTable, RunCensoredWithinSpanCountsPartially) {
  LifeTable table(hours(24));
  constexpr std::size_t kSpan = 80;
  const Duration middle = (span_begin(kSpan) + span_begin(kSpan + 1)) / 2;
  for (int i = 0; i < 50; ++i) table.add(middle, LifeTable::End::kEnded, at(hours(0)));
  for (int i = 0; i < 100; ++i) table.add(middle, LifeTable::End::kCutOff, at(hours(0)));
  EXPECT_NEAR(table.hazards({}, 1e-9, at(hours(0)))[kSpan], 50.0 / (50 + 100 * 0.5), 1e-6);
}

TEST(LifeTable, ObservationsDecay) {
  LifeTable table(hours(24));
  for (int i = 0; i < 64; ++i) table.add(minutes(10), LifeTable::End::kEnded, at(hours(0)));
  EXPECT_DOUBLE_EQ(table.weight(at(hours(0))), 64);
  EXPECT_DOUBLE_EQ(table.weight(at(hours(24))), 32);
  EXPECT_DOUBLE_EQ(table.weight(at(hours(36))), 24);
  EXPECT_DOUBLE_EQ(table.weight(at(hours(24 * 100))), 0);
  table.add(hours(1), LifeTable::End::kEnded, at(hours(48)));
  EXPECT_DOUBLE_EQ(table.weight(at(hours(48))), 17);
}

TEST(RunTimes, NarrowerJobClassIsWeightedByItsObservations) {
  RunTimes times;
  int id = 0;
  const auto ran = [&](const JobClass& job_class, Duration run, int n) {
    for (int i = 0; i < n; ++i) {
      times.started(++id, job_class, {}, at(hours(1)));
      times.ended(id, LifeTable::End::kEnded, at(hours(1)) + run);
    }
  };
  const auto median = [&](const JobClass& job_class) {
    return h(times.of(job_class, {}, at(hours(24))).quantile(0.5));
  };
  EXPECT_NEAR(h(times.of(kBert, {}, at(hours(1))).quantile(0.5)), 1.0 / 3, 0.02);  // the prior
  ran({"cv", "8 gpu", "resnet"}, hours(1), 200);
  const RunTimes before = times;
  EXPECT_NEAR(h(RunTimes(before).of(kBert, {}, at(hours(24))).quantile(0.5)), 1, 0.1);  // of its shape
  ran(kBert, hours(6), 1);
  EXPECT_LT(median(kBert), 2);  // one observation has little weight
  ran(kBert, hours(6), 50);
  EXPECT_NEAR(h(times.of(kBert, {}, at(hours(48))).quantile(0.5)), 6, 0.6);
  EXPECT_NEAR(h(times.of({"nlp", "8 gpu", "gpt"}, {}, at(hours(48))).quantile(0.5)), 6, 0.6);  // of its team
  EXPECT_EQ(times.kinds(), 7U);                                                                // a query creates one
}

TEST(RunTimes, RunningWorkloadsCountByElapsedTime) {
  RunTimes times;
  for (int id = 0; id < 100; ++id) times.started(id, kBert, {}, at(hours(0)));
  for (int id = 0; id < 20; ++id) times.ended(id, LifeTable::End::kEnded, at(hours(1)));
  // Twenty of a hundred ended within the hour, and the others have run for ten hours.
  EXPECT_GT(times.of(kBert, {}, at(hours(10))).survival(hours(5)), 0.7);
  times.started(50, kBert, {}, at(hours(10)));  // preempted, and started again
  times.ended(999, LifeTable::End::kEnded, at(hours(10)));
}

TEST(RunTimes, DeclaredRunTimesAreCorrectedByTeamsHistory) {
  RunTimes times;
  const Declared tenHours{hours(10), {}};
  EXPECT_NEAR(h(times.of(kBert, tenHours, at(hours(0))).quantile(0.5)), 10, 0.3);
  for (int id = 0; id < 100; ++id) {
    times.started(id, kBert, {hours(4), {}}, at(hours(1)));
    times.ended(id, LifeTable::End::kEnded, at(hours(2)));
  }
  EXPECT_NEAR(h(times.of(kBert, tenHours, at(hours(24))).quantile(0.5)), 2.5, 0.4);
  EXPECT_EQ(times.of(kBert, {hours(10), hours(1)}, at(hours(24))).quantile(0.9), hours(1));
  EXPECT_EQ(times.of(kBert, {{}, minutes(30)}, at(hours(24))).quantile(0.9), minutes(30));
}

TEST(RunTimes, NumberOfClassesIsBounded) {
  RunTimes::Settings settings;
  settings.kinds = 8;
  settings.running = 2;
  RunTimes times(settings);
  for (int i = 0; i < 100; ++i) {
    times.started(i, {fmt::format("t{}", i), "1 gpu", "x"}, {}, at(hours(i)));
    ASSERT_LE(times.kinds(), 8U);
  }
  for (int i = 0; i < 100; ++i) times.ended(i, LifeTable::End::kEnded, at(hours(200)));
  EXPECT_LE(times.kinds(), 8U);
}

TEST(Stem, IsSharedByRepetitions) {
  for (const auto& [name, stem] : std::initializer_list<std::pair<const char*, const char*>>{
           {"bert-7f9c2", "bert"},
           {"bert-12", "bert"},
           {"bert-large-2026-11-22", "bert-large"},
           {"resnet50-3fa81b-0", "resnet"},
           {"decade", "decade"},
           {"train-decade", "train-decade"},
           {"train_v2", "train_v"},
           {"12", ""},
           {"", ""},
       }) {
    EXPECT_EQ(name_stem(name), stem) << name;
  }
}

}  // namespace run_times_test
}  // namespace qm::admission::forecast
