// The state transitions of one workload, as consumers of the topics receive them, and as they are stored.
#include "qm/bus/bus.hpp"
#include "qm/pg/connection.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "support.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace qm::e2e {
namespace order_e2e_test {

using namespace std::chrono_literals;

/// Steps of a workload with the instant at which the service decided each; a repeated step counts once.
struct Received {
  std::vector<std::string> workload, placement;
  std::map<std::string, std::int64_t> at_us;

  void say(std::vector<std::string>& line, const std::string& step, std::int64_t occurred_us) {
    if (!at_us.emplace(step, occurred_us).second) return;
    line.push_back(step);
  }
};

Result<Received> listen(const std::string& carrier, const std::string& uid) {
  QM_ASSIGN(const auto bus, bus::make_bus(carrier));
  bus::ConsumerOptions options;
  options.group = "e2e/order/" + uid;  // a separate group: it does not affect other consumers
  options.topics = {"qm.workload", "qm.placement"};
  options.cursor = [](const bus::TopicPartition&) { return -1; };
  QM_ASSIGN(const auto consumer, bus->consumer(std::move(options)));
  Received received;
  const bool over = testing::wait_until(
      [&] {
        const auto messages = consumer->poll(100, 200ms);
        if (!messages) return false;
        for (const auto& message : *messages) {
          pb::Envelope envelope;
          pb::WorkloadEvent workload;
          pb::PlacementEvent placement;
          if (!envelope.ParseFromString(message.value)) continue;
          if (envelope.topic() == "qm.workload" && workload.ParseFromString(envelope.payload())) {
            if (workload.spec().uid() == uid)
              received.say(received.workload, pb::WorkloadPhase_Name(workload.phase()), envelope.occurred_us());
          } else if (envelope.topic() == "qm.placement" && placement.ParseFromString(envelope.payload())) {
            if (placement.assignment().uid() == uid)
              received.say(received.placement, pb::AssignmentState_Name(placement.assignment().state()),
                           envelope.occurred_us());
          }
        }
        return received.at_us.contains("FINISHED") && received.at_us.contains("RELEASED");
      },
      90s);
  if (!over) return fail(Code::kDeadlineExceeded, "received no end of {}", uid);
  return received;
}

// S-076: Queued, QuotaReserved, Admitted, Bound in that order: stored in PostgreSQL, and published on Kafka.
TEST(Order, AStartIsPublishedOnKafkaAndStoredInPostgresInOrder) {
  const char* kafka = std::getenv("QM_KAFKA");
  if (kafka == nullptr) GTEST_SKIP() << "no Kafka: run ./qm peers kafka";
  auto suite = Suite::up({"--nodes", "2", "--speed", "20", "--bus", "kafka"});
  ASSERT_TRUE(suite) << suite.error().to_string();
  ASSERT_TRUE((*suite)->submit({.name = "in-order", .pods = 2, .run_s = 60}));
  // Until the Job and its workload exist, only the submission exists: it has no uid.
  std::string uid;
  ASSERT_TRUE(testing::wait_until([&] {
    const auto workload = (*suite)->workload("in-order");
    if (workload) uid = workload->state().spec().uid();
    return !uid.empty();
  }));
  const auto received = listen(std::string("kafka:") + kafka, uid);
  ASSERT_TRUE(received) << received.error().to_string();
  using Steps = std::vector<std::string>;
  EXPECT_EQ(received->workload, (Steps{"PENDING", "QUOTA_RESERVED", "ADMITTED", "FINISHED"}));
  EXPECT_EQ(received->placement, (Steps{"RESERVED", "BOUND", "RELEASED"}));
  const Steps order = {"PENDING", "QUOTA_RESERVED", "RESERVED", "ADMITTED", "BOUND", "FINISHED"};
  for (std::size_t i = 1; i < order.size(); ++i)
    EXPECT_LE(received->at_us.at(order[i - 1]), received->at_us.at(order[i])) << order[i - 1] << " before " << order[i];

  auto sql = pg::Connection::open((*suite)->postgres(), {.application_name = "order"});
  ASSERT_TRUE(sql) << sql.error().to_string();
  const auto kept = (*sql)->exec(
      "select coalesce(string_agg(state, ' ' order by time, step), '') from report.workload_log where uid = '" + uid +
      "'");
  ASSERT_TRUE(kept) << kept.error().to_string();
  EXPECT_EQ(kept->str(0, 0), "Queued QuotaReserved Admitted Bound Finished");
}

}  // namespace order_e2e_test
}  // namespace qm::e2e
