// Events of the cloud from a scripted SQS: kinds, commit before delete, repetitions, and what cannot be read.
#include "qm/autoscaler/interruption_queue.hpp"

#include "qm/autoscaler/shell.hpp"
#include "qm/testing/testing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <mutex>

namespace qm::autoscaler {
namespace interruption_queue_test {

using qm::testing::wait_until;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

Instant at(const char* text) { return *from_rfc3339(text); }

std::string event(const std::string& id, const std::string& type, const std::string& detail,
                  const char* time = "2026-11-27T09:00:00Z") {
  return fmt::format(R"({{"version":"0","id":"{}","detail-type":"{}","source":"aws.ec2","time":"{}","detail":{}}})", id,
                     type, time, detail);
}

std::string spot(const std::string& id, const std::string& instance) {
  return event(id, "EC2 Spot Instance Interruption Warning",
               fmt::format(R"({{"instance-id":"{}","instance-action":"terminate"}})", instance));
}

std::vector<std::string> notices_of(const std::string& body) {
  const auto read = read_cloud_event(body, std::chrono::seconds(90));
  EXPECT_TRUE(read) << read.error().to_string();
  std::vector<std::string> out;
  for (const auto& n : read->notices)
    out.push_back(fmt::format("{} {} {}", n.instance, reason_of(n.kind), to_rfc3339(n.at)));
  if (read->instances_changed) out.emplace_back("changed");
  return out;
}

TEST(CloudEvents, OfAllKinds) {
  EXPECT_THAT(notices_of(spot("e", "i-1")), ElementsAre("i-1 SpotInterruption 2026-11-27T09:02:00Z"));
  EXPECT_THAT(notices_of(event("e", "EC2 Instance Rebalance Recommendation", R"({"instance-id":"i-1"})")),
              ElementsAre("i-1 RebalanceRecommendation 2026-11-27T09:00:00Z"));
  EXPECT_THAT(notices_of(event("e", "EC2 Instance State-change Notification",
                               R"({"instance-id":"i-1","state":"shutting-down"})")),
              ElementsAre("changed"));
  EXPECT_THAT(
      notices_of(event("e", "AWS Health Event",
                       R"({"service":"EC2","eventTypeCategory":"scheduledChange",
                                   "startTime":"Sat, 28 Nov 2026 05:01:10 GMT",
                                   "affectedEntities":[{"entityValue":"i-1"},{"entityValue":"i-2"}]})")),
      ElementsAre("i-1 ScheduledMaintenance 2026-11-28T05:01:10Z", "i-2 ScheduledMaintenance 2026-11-28T05:01:10Z"));
  EXPECT_THAT(notices_of(event("e", "AWS Health Event", R"({"service":"EC2","eventTypeCategory":"issue",
                                   "affectedEntities":[{"entityValue":"i-1"}]})")),
              IsEmpty());
  EXPECT_THAT(notices_of(event("e", "EC2 Capacity Reservation Instance Interruption Warning",
                               R"({"instance-id":"i-1","instance-action":"terminate"})")),
              ElementsAre("i-1 SpotInterruption 2026-11-27T09:02:00Z"));
  EXPECT_THAT(notices_of(event("e", "EC2 Instance-terminate Lifecycle Action",
                               R"({"LifecycleActionToken":"t","AutoScalingGroupName":"g","LifecycleHookName":"h",
                                   "EC2InstanceId":"i-1","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING"})")),
              ElementsAre("i-1 LifecycleTermination 2026-11-27T09:01:30Z"));
  EXPECT_THAT(notices_of(event("e", "Something Else", "{}")), IsEmpty());
  EXPECT_FALSE(read_cloud_event("hello", {}));
  EXPECT_FALSE(read_cloud_event(R"({"id":"e"})", {}));
}

/// A queue in memory: a message is hidden once received, and delivered again when hide() says so.
class Sqs {
 public:
  cloud::Aws aws() {
    cloud::AwsOptions o;
    o.endpoint = "http://cloud:1";
    o.access_key = "key", o.secret_key = "secret";
    o.outside.send = [this](const std::string&, const http::Request& r, auto) -> Result<http::Response> {
      return answer(r);
    };
    return cloud::Aws(o);
  }
  void send(const std::string& body) {
    const std::scoped_lock lock(mutex_);
    visible_.push_back({std::to_string(++number_), body});
  }
  [[nodiscard]] std::size_t deleted() const {
    const std::scoped_lock lock(mutex_);
    return deleted_;
  }
  [[nodiscard]] std::size_t delete_calls() const {
    const std::scoped_lock lock(mutex_);
    return delete_calls_;
  }

 private:
  http::Response answer(const http::Request& r) {
    const std::scoped_lock lock(mutex_);
    const auto body = *Json::parse(r.body);
    if (r.headers.get("X-Amz-Target") == "AmazonSQS.DeleteMessageBatch") {
      ++delete_calls_;
      deleted_ += body["Entries"].size();
      return http::json(200, R"({"Successful":[]})");
    }
    Json list = Json::array();
    while (!visible_.empty() && list.size() < 10) {
      const auto [id, text] = visible_.front();
      visible_.pop_front();
      list.push_back(Json::object({{"MessageId", id}, {"ReceiptHandle", id}, {"Body", text}}));
    }
    return http::json(200, Json::object({{"Messages", std::move(list)}}).dump());
  }
  mutable std::mutex mutex_;
  std::deque<std::pair<std::string, std::string>> visible_;
  std::size_t number_ = 0, deleted_ = 0, delete_calls_ = 0;
};

/// Inputs that a host would commit; it refuses the first `refuse` of them.
struct Committed {
  std::mutex mutex;
  std::vector<std::string> notices;
  int refuse = 0;
  Status submit(const service::Input& input, const service::Host::ReplyFn& done) {
    const auto commands = Codec().decode(input);
    EXPECT_TRUE(commands) << commands.error().to_string();
    {
      const std::scoped_lock lock(mutex);
      if (refuse-- > 0) {
        done(fail(Code::kUnavailable, "the database is away"));
        return {};
      }
      for (const auto& command : *commands) {
        const auto& n = std::get<InstanceNoticeUpdated>(command);
        notices.push_back(fmt::format("{} {}", n.instance, reason_of(n.kind)));
      }
    }
    done(std::string());
    return {};
  }
  std::vector<std::string> all() {
    const std::scoped_lock lock(mutex);
    return notices;
  }
};

TEST(InterruptionQueueTest, NoticesAreCommittedOnceAndThenDeleted) {
  Sqs sqs;
  auto aws = sqs.aws();
  Committed host;
  std::atomic<int> changes = 0;
  for (const auto& body : {spot("e1", "i-1"), spot("e2", "i-2"), spot("e1", "i-1"), std::string("nonsense"),
                           event("e3", "EC2 Instance State-change Notification", R"({"instance-id":"i-1"})")})
    sqs.send(body);
  InterruptionQueue queue(
      aws, [&](const auto& in, const auto& done) { return host.submit(in, done); }, [&] { ++changes; },
      {.url = "http://cloud:1/q", .consumers = 1, .wait_seconds = 0, .lifecycle_time = std::chrono::minutes(2)});
  queue.start();
  ASSERT_TRUE(wait_until([&] { return sqs.deleted() == 5; }));
  EXPECT_THAT(host.all(), ElementsAre("i-1 SpotInterruption", "i-2 SpotInterruption"));
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(sqs.delete_calls(), 1U) << "ten messages in a call";
  // Delivered again under another id of the event, as the service may.
  sqs.send(spot("e9", "i-1"));
  sqs.send(event("e10", "EC2 Instance Rebalance Recommendation", R"({"instance-id":"i-1"})"));
  ASSERT_TRUE(wait_until([&] { return sqs.deleted() == 7; }));
  EXPECT_EQ(host.all().back(), "i-1 RebalanceRecommendation");
  EXPECT_EQ(host.all().size(), 3U);
  queue.stop();
  const auto counted = queue.counters();
  EXPECT_EQ(counted.messages, 7U);
  EXPECT_EQ(counted.notices, 3U);
  EXPECT_EQ(counted.repeated, 2U);
  EXPECT_EQ(counted.unreadable, 1U);
}

TEST(InterruptionQueueTest, AMessageIsKeptWhileItsNoticeIsNotCommitted) {
  Sqs sqs;
  auto aws = sqs.aws();
  Committed host;
  host.refuse = 1;
  sqs.send(spot("e1", "i-1"));
  InterruptionQueue queue(
      aws, [&](const auto& in, const auto& done) { return host.submit(in, done); }, [] {},
      {.url = "http://cloud:1/q", .consumers = 1, .wait_seconds = 0, .lifecycle_time = std::chrono::minutes(2)});
  queue.start();
  ASSERT_TRUE(wait_until([&] {
    const std::scoped_lock lock(host.mutex);
    return host.refuse == 0;
  }));
  EXPECT_EQ(sqs.deleted(), 0U);
  sqs.send(spot("e1", "i-1"));  // it is visible again
  ASSERT_TRUE(wait_until([&] { return sqs.deleted() == 1; }));
  EXPECT_THAT(host.all(), ElementsAre("i-1 SpotInterruption"));
}

}  // namespace interruption_queue_test
}  // namespace qm::autoscaler
