// Events of a service: created, counted, withheld. On the fleet's API and on a real server.
#include "qm/kube/events.hpp"

#include "kube_under_test.hpp"

namespace qm::kube {
namespace events_kube_test {

using namespace resources;
using namespace std::chrono_literals;

class Events : public KubeContract {
 protected:
  EventSubject subject(const std::string& uid = "u-1") { return {"batch/v1", "Job", ns(), "train", uid}; }
  std::vector<Json> all() {
    auto found = client().list_all(kEvents, ns());
    EXPECT_TRUE(found) << found.error().to_string();
    return found ? std::move(*found) : std::vector<Json>{};
  }
  SteadyInstant now_{1000s};
};

TEST_F(Events, OneIsMadeAndARepeatCountsUp) {
  EventRecorder events(client(), "qm-admission");
  const auto reported = events.record(subject(), {false, "QuotaReserved", "8 GPUs of flavor a100"});
  ASSERT_TRUE(reported) << reported.error().to_string();
  ASSERT_EQ(all().size(), 1U);
  const auto first = all()[0];
  EXPECT_EQ(first["reason"].string(), "QuotaReserved");
  EXPECT_EQ(first["type"].string(), "Normal");
  EXPECT_EQ(first["count"].integer(), 1);
  EXPECT_EQ(first.path("involvedObject.name").string(), "train");
  EXPECT_EQ(first.path("source.component").string(), "qm-admission");
  EXPECT_TRUE(from_rfc3339(first["firstTimestamp"].string()));

  // After a restart too: the event's name is derived from its subject.
  EventRecorder later(client(), "qm-admission");
  ASSERT_TRUE(later.record(subject(), {false, "QuotaReserved", "4 GPUs of flavor a100"}));
  ASSERT_EQ(all().size(), 1U);
  EXPECT_EQ(all()[0]["count"].integer(), 2);
  EXPECT_EQ(all()[0]["message"].string(), "4 GPUs of flavor a100");
  EXPECT_EQ(all()[0]["firstTimestamp"].string(), first["firstTimestamp"].string());

  ASSERT_TRUE(events.record(subject(), {true, "Evicted", "preempted"}));
  ASSERT_TRUE(events.record(subject("u-2"), {false, "QuotaReserved", "another of the same name"}));
  EXPECT_EQ(all().size(), 3U);
}

TEST_F(Events, ANoisySubjectIsPublishedAtABoundedRate) {
  EventRecorder events(client(), "qm-admission", [this] { return now_; });
  for (int i = 0; i < EventRecorder::kBurst; ++i) {
    const auto reported = events.record(subject(), {true, "Evicted", std::to_string(i)});
    ASSERT_TRUE(reported) << i << " " << reported.error().to_string();
  }
  const auto above = events.record(subject(), {true, "Evicted", "more"});
  ASSERT_FALSE(above);
  EXPECT_EQ(above.error().code, Code::kExhausted);
  EXPECT_TRUE(events.record(subject("u-2"), {true, "Evicted", "another may still speak"}));
  now_ += EventRecorder::kRefill;
  EXPECT_TRUE(events.record(subject(), {true, "Evicted", "again"}));
  EXPECT_FALSE(events.record(subject(), {true, "Evicted", "and no more"}));
}

TEST_F(Events, ALongMessageIsTruncated) {
  EventRecorder events(client(), "qm-admission");
  std::string message = "x";
  while (message.size() < 3000) message += "\u00e4";
  const auto reported = events.record(subject(), {false, "QuotaReserved", message});
  ASSERT_TRUE(reported) << reported.error().to_string();
  const auto cut = all().at(0)["message"].string();
  EXPECT_LE(cut.size(), 1024U);
  EXPECT_TRUE(cut.ends_with("\u00e4...")) << "between two characters";
}

}  // namespace events_kube_test
}  // namespace qm::kube
