// Metrics and activity of single triggers.
#include "fixtures.hpp"

#include <cmath>

namespace qm::autoscaler::replicas {
namespace triggers_test {

using namespace fixtures;

Trigger trigger(const std::string& type, const std::string& metadata) {
  return scaled_object(
             fmt::format(R"("triggers": [{{"type": "{}", "name": "t", "metadata": {{{}}}}}])", type, metadata))
      .triggers.front();
}

std::string shown(const Result<Measured>& of) {
  if (!of) return "error";
  return fmt::format("{}{}", of->milli, of->active ? " active" : "");
}

std::string of(const Trigger& one, const Reading& reading) {
  PreviousOffsets none;
  return shown(measure(one, &reading, at(0), none));
}

TEST(SqsTriggers, AddWhatTheOptionsCount) {
  const QueueReading queue{10, 15, 20};
  const std::string where = R"("queueURL": "q", "awsRegion": "r")";
  EXPECT_EQ(of(trigger("aws-sqs-queue", where), queue), "25000 active");
  EXPECT_EQ(of(trigger("aws-sqs-queue", where + R"(, "scaleOnInFlight": "false")"), queue), "10000 active");
  EXPECT_EQ(of(trigger("aws-sqs-queue", where + R"(, "scaleOnDelayed": "true")"), queue), "45000 active");
  EXPECT_EQ(of(trigger("aws-sqs-queue", where + R"(, "activationQueueLength": "25")"), queue), "25000");
  EXPECT_EQ(of(trigger("aws-sqs-queue", where), QueryReading{}), "error");
}

TEST(PrometheusTriggers, ReadNumbersAndRefuseTheRest) {
  const std::string where = R"("serverAddress": "s", "query": "q", "threshold": "10")";
  const auto lenient = trigger("prometheus", where);
  EXPECT_EQ(of(lenient, QueryReading{1, 4.1239}), "4124 active");
  EXPECT_EQ(of(lenient, QueryReading{1, 4.1234999}), "4123 active");
  EXPECT_EQ(of(lenient, QueryReading{1, -5}), "0");
  EXPECT_EQ(of(lenient, QueryReading{0, 0}), "0");
  EXPECT_EQ(of(lenient, QueryReading{1, std::nan("")}), "0");
  EXPECT_EQ(of(lenient, QueryReading{1, 1e300}), "9223372036854775807 active");
  EXPECT_EQ(of(lenient, QueryReading{2, 0}), "error");
  const auto strict = trigger("prometheus", where + R"(, "ignoreNullValues": "false", "activationThreshold": "-10")");
  EXPECT_EQ(of(strict, QueryReading{0, 0}), "error");
  EXPECT_EQ(of(strict, QueryReading{1, HUGE_VAL}), "error");
  EXPECT_EQ(of(strict, QueryReading{1, -5}), "0 active");  // by the raw value
  EXPECT_EQ(of(strict, QueryReading{1, -10}), "0");
}

Trigger kafka(const std::string& more) {
  return trigger("kafka",
                 R"("bootstrapServers": "k", "consumerGroup": "g", "topic": "t", "lagThreshold": "10")" + more);
}

TEST(KafkaTriggers, LimitTheLagToThePartitions) {
  const TopicReading wide{{0, {38, 0}}, {1, {0, 0}}, {2, {0, 0}}};
  EXPECT_EQ(of(kafka(""), wide), "38000 active");  // 38 / 10 = 3 in integers, which is not above 3
  const TopicReading deep{{0, {500, 0}}, {1, {5, 5}}, {2, {500, 0}}, {3, {7, 7}}};
  EXPECT_EQ(of(kafka(""), deep), "40000 active");
  EXPECT_EQ(of(kafka(R"(, "allowIdleConsumers": "true")"), deep), "1000000 active");
  EXPECT_EQ(of(kafka(R"(, "limitToPartitionsWithLag": "true")"), deep), "20000 active");
  EXPECT_EQ(of(kafka(R"(, "partitionLimitation": "1,3-9")"), deep), "0");
  EXPECT_EQ(of(kafka(R"(, "partitionLimitation": "7-9")"), deep), "error");
  EXPECT_EQ(of(kafka(R"(, "activationLagThreshold": "1000")"), deep), "40000");
}

TEST(KafkaTriggers, DistributePartitionsEvenly) {
  TopicReading ten;
  for (int i = 0; i < 10; ++i) ten[i] = {0, 0};
  const auto even = kafka(R"(, "ensureEvenDistributionOfPartitions": "true")");
  for (const auto& [lag, milli] :
       {std::pair{10, "10000 active"}, std::pair{11, "20000 active"}, std::pair{40, "50000 active"},
        std::pair{51, "100000 active"}, std::pair{900, "100000 active"}}) {
    ten[0].latest = lag;
    EXPECT_EQ(of(even, ten), milli) << lag;
  }
}

TEST(KafkaTriggers, OffsetsThatWereNeverCommitted) {
  const TopicReading fresh{{0, {40, -1}}, {1, {25, -1}}};
  EXPECT_EQ(of(kafka(""), fresh), "2000 active");
  EXPECT_EQ(of(kafka(R"(, "scaleToZeroOnInvalidOffset": "true")"), fresh), "0");
  EXPECT_EQ(of(kafka(R"(, "offsetResetPolicy": "earliest", "allowIdleConsumers": "true")"), fresh), "65000 active");
  EXPECT_EQ(of(kafka(R"(, "offsetResetPolicy": "earliest", "scaleToZeroOnInvalidOffset": "true")"), fresh), "0");
}

TEST(KafkaTriggers, APartitionWithoutProgressIsLeftOut) {
  const auto one = kafka(R"(, "excludePersistentLag": "true")");
  PreviousOffsets previous;
  const auto read = [&](std::int64_t latest, std::int64_t committed) {
    const Reading reading = TopicReading{{0, {latest, committed}}, {1, {10, 10}}};
    return shown(measure(one, &reading, at(0), previous));
  };
  EXPECT_EQ(read(15, 5), "10000 active");
  EXPECT_EQ(read(16, 5), "0 active");  // it stays active
  EXPECT_EQ(read(16, 6), "10000 active");
}

// S-227: inside and outside of the hours, in winter and in summer.
TEST(CronTriggers, AreActiveWhileTheEndComesBeforeTheNextStart) {
  const auto hours = trigger("cron", R"("timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "0 18 * * 1-5",
      "desiredReplicas": "6")");
  const auto on = [&](const char* time) {
    PreviousOffsets none;
    return shown(measure(hours, nullptr, *from_rfc3339(time), none));
  };
  EXPECT_EQ(on("2026-01-09T06:59:59Z"), "0");
  EXPECT_EQ(on("2026-01-09T07:00:00Z"), "6000 active");
  EXPECT_EQ(on("2026-01-09T16:59:59Z"), "6000 active");
  EXPECT_EQ(on("2026-01-09T17:00:00Z"), "0");
  EXPECT_EQ(on("2026-07-10T06:00:00Z"), "6000 active");  // summer
  EXPECT_EQ(on("2026-07-11T06:00:00Z"), "0");            // Saturday
}

TEST(Triggers, WithoutReadingHaveFailed) {
  PreviousOffsets none;
  EXPECT_EQ(shown(measure(kafka(""), nullptr, at(0), none)), "error");
}

}  // namespace triggers_test
}  // namespace qm::autoscaler::replicas
