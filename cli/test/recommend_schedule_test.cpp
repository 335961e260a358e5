// qmctl recommend schedule: fewer replicas in quiet hours, from a history.
#include "fake_suite.hpp"
#include "qm/autoscaler/replicas/keda.hpp"
#include "qm/autoscaler/replicas/manifests.hpp"
#include "qm/base/json.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qm::cli {
namespace recommend_schedule_test {

namespace replicas = autoscaler::replicas;

const Instant kBegin = *from_rfc3339("2026-10-01T00:00:00Z");

/// 30 days: 8 replicas from 9 to 17, 2 at other times, and 4 in one late hour of each fifth day.
std::string office() {
  std::string out = "hour,replicas\n";
  for (int hour = 0; hour < 30 * 24; ++hour) {
    const bool busy = hour % 24 >= 9 && hour % 24 < 17;
    const bool late = hour % 24 == 22 && hour / 24 % 5 == 0;
    out += fmt::format("{},{}\n", to_rfc3339(kBegin + std::chrono::hours(hour)), busy ? 8 : late ? 4 : 2);
  }
  return out;
}

std::vector<std::string> schedule(const std::vector<std::string>& more = {}) {
  std::vector<std::string> out{"recommend", "schedule", "-f", "-", "--usd-hour", "40", "--off-peak", "2"};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// S-228: 4 GPUs for 16 hours at 40 dollars in 30 days. S-229: the same with the other size of the source.
TEST(RecommendSchedule, PrintsTheScheduleAndItsSaving) {
  const auto ran = qmctl(schedule(), office());
  ASSERT_EQ(ran.code, kDone) << ran.err;
  EXPECT_EQ(ran.out,
            "peak 8 replicas in 30 days; saving of 30 days at 40.00 USD an hour; hours in UTC\n"
            "OFF-PEAK   FROM  UNTIL  HOURS  SAVING-USD  SHORT-HOURS\n"
            "       4  17:00  09:00     16    76800.00            0\n"
            "       2  17:00  09:00     16   115200.00            6\n"
            "\n"
            "# fields of a ScaledObject for the first line\n"
            "minReplicaCount: 4\n"
            "maxReplicaCount: 8\n"
            "triggers:\n"
            "- type: cron\n"
            "  metadata:\n"
            "    timezone: UTC\n"
            "    start: \"0 9 * * *\"\n"
            "    end: \"0 17 * * *\"\n"
            "    desiredReplicas: \"8\"\n");
  const auto read = Json::parse(qmctl(schedule({"-o", "json"}), office()).out);
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)["sizes"].at(0)["savingUsd"].string(), "76800.00");
  EXPECT_EQ((*read)["sizes"].at(1)["savingUsd"].string(), "115200.00");
  EXPECT_EQ((*read)["sizes"].at(1)["shortHours"].integer(), 6);
}

/// The replicas that a ScaledObject with these fields has at each hour of a day, from this number of replicas on.
std::vector<std::int32_t> day_of(const Json& fields, std::int32_t before) {
  Json spec = Json::object({{"scaleTargetRef", Json::object({{"name", "inference"}})}});
  for (const auto& [key, value] : fields.members()) spec.set(key, value);
  const auto object = replicas::read_scaled_object(Json::object({{"apiVersion", "keda.sh/v1alpha1"},
                                                                 {"kind", "ScaledObject"},
                                                                 {"metadata", Json::object({{"name", "inference"}})},
                                                                 {"spec", spec}}));
  EXPECT_TRUE(object) << (object ? "" : object.error().to_string());
  if (!object) return {};
  std::vector<std::int32_t> out;
  replicas::ScaledObjectState state;
  std::int32_t size = before;
  for (int minute = 0; minute < 24 * 60; ++minute) {
    replicas::TriggerObservation seen;
    seen.now = kBegin + std::chrono::minutes(minute);
    seen.replicas = seen.status_replicas = size;
    for (std::int32_t i = 0; i < size; ++i) {
      replicas::Pod pod;
      pod.name = fmt::format("p{}", i);
      pod.start = pod.ready_since = kBegin - std::chrono::hours(1);
      seen.pods.push_back(pod);
    }
    const auto earlier = state.hpa;
    const auto decided = replicas::sync(*object, {}, {}, seen, state);
    replicas::record_change(*object, seen.now, size, decided.hpa.desired, earlier, state.hpa);
    size = decided.hpa.desired;
    if (minute % 60 == 59) out.push_back(size);
  }
  return out;
}

// S-228: a ScaledObject with the printed fields has the proposed sizes.
TEST(RecommendSchedule, ItsFieldsGiveTheProposedReplicas) {
  const auto read = Json::parse(qmctl(schedule({"-o", "json"}), office()).out);
  ASSERT_TRUE(read);
  std::vector<std::int32_t> proposed(24, 4);
  for (std::size_t hour = 9; hour < 17; ++hour) proposed[hour] = 8;
  EXPECT_EQ(day_of((*read)["scaledObject"], 4), proposed);
}

TEST(RecommendSchedule, HoursAreThoseOfTheTimeZone) {
  const auto ran = qmctl(schedule({"--timezone", "Asia/Tokyo"}), office());
  ASSERT_EQ(ran.code, kDone) << ran.err;
  EXPECT_NE(ran.out.find("       4  02:00  18:00     16    76800.00            0\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("timezone: Asia/Tokyo\n    start: \"0 18 * * *\"\n    end: \"0 2 * * *\"\n"),
            std::string::npos)
      << ran.out;
  const auto unknown = qmctl(schedule({"--timezone", "Mars/Olympus"}), office());
  EXPECT_EQ(unknown.code, kFailed);
  EXPECT_NE(unknown.err.find("there is no time zone \"Mars/Olympus\""), std::string::npos) << unknown.err;
}

TEST(RecommendSchedule, WrongInputIsRefusedByLine) {
  const auto error_of = [](const std::string& history) {
    const auto ran = qmctl(schedule(), history);
    EXPECT_EQ(ran.code, kFailed) << ran.out;
    return ran.err;
  };
  for (const auto& [history, what] : std::vector<std::pair<std::string, std::string>>{
           {"hour,replicas\n2026-10-01T00:00:00Z,many\n", "stdin:2: \"many\" is not a number of replicas"},
           {"hour,replicas\n2026-10-01T00:00:00Z,-1\n", "stdin:2: \"-1\" is not a number of replicas"},
           {"hour,replicas\n\n2026-10-01,3\n", "stdin:3: "},
           {"hour,replicas\n2026-10-01T00:00:00Z\n", "stdin:2: 1 cells"},
           {"time,replicas\n", "stdin:1: the first line is not hour,replicas"},
           {"hour,replicas\n2026-10-01T00:00:00Z,3\n", "the history has the hour 00:00 on 1 of 14 needed days"}}) {
    EXPECT_NE(error_of(history).find(what), std::string::npos) << error_of(history);
  }
  const auto peak = qmctl(schedule({"--off-peak", "8"}), office());
  EXPECT_EQ(peak.code, kFailed);
  EXPECT_EQ(peak.err,
            "qmctl: 8 replicas are no saving: the peak is 8\n"
            "  field:  --off-peak\n"
            "  remedy: use sizes from 0 to 7\n");
  EXPECT_EQ(qmctl({"recommend", "schedule", "-f", "-"}, office()).code, kUsage);
  EXPECT_EQ(qmctl({"recommend", "schedule", "--usd-hour", "4"}).code, kUsage);
  EXPECT_EQ(qmctl({"recommend", "sharing", "-f", "-"}, office()).code, kUsage);
  EXPECT_EQ(qmctl(schedule({"--least", "-1"}), office()).code, kUsage);
}

}  // namespace recommend_schedule_test
}  // namespace qm::cli
