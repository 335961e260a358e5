// From the inputs of a journal to a recorded time, its bill, and the bill of a change.
#include "qm/autoscaler/history/recorder.hpp"

#include "qm/autoscaler/shell.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace recorder_test {

namespace pb = quartermaster::v1;
using namespace std::chrono_literals;

/// A service that is stepped as the host steps it, with a recorder of its journal.
class Journal : public ::testing::Test {
 protected:
  void step(const std::vector<service::Input>& batch, Duration later = 0s) {
    now_ += later;
    for (const auto& input : batch) recorder_.observe(input, now_);
    service::Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell_.step(batch, now_, effects, poison);
    shell_.commit();
    EXPECT_TRUE(poison.empty());
    for (const auto& event : effects.events) recorder_.observe(event);
  }
  static service::Input input(service::Source source, const std::string& name, std::string bytes) {
    service::Input out;
    out.source = source;
    out.name = name;
    out.bytes = std::move(bytes);
    return out;
  }
  static service::Input workload(bool over = false) {
    pb::WorkloadEvent event;
    auto& spec = *event.mutable_spec();
    spec.set_uid("u-1");
    spec.set_namespace_("research");
    spec.set_name("train");
    spec.set_priority(7);
    *spec.add_pod_sets() = wire::to_pb(gang());
    event.set_attempt(1);
    event.set_phase(over ? pb::FINISHED : pb::QUOTA_RESERVED);
    return input(service::Source::kBus, "qm.workload", event.SerializeAsString());
  }
  static service::Input demand(bool pending) {
    pb::PlacementEvent event;
    event.mutable_demand();
    if (pending) {
      auto& item = *event.mutable_demand()->add_items();
      item.set_uid("u-1");
      item.set_attempt(1);
      item.set_priority(7);
      *item.add_pod_sets() = wire::to_pb(gang());
    }
    return input(service::Source::kBus, "qm.placement", event.SerializeAsString());
  }
  static service::Input assignment(pb::AssignmentState state) {
    pb::PlacementEvent event;
    auto& a = *event.mutable_assignment();
    a.set_uid("u-1");
    a.set_attempt(1);
    a.set_state(state);
    a.add_members()->set_node("n-1");
    return input(service::Source::kBus, "qm.placement", event.SerializeAsString());
  }
  service::Input instances(bool stopped) const {
    Json list = Json::array();
    Json one = Json::object({{"id", "i-1"},
                             {"claim", "p-00001"},
                             {"pool", "p"},
                             {"type", "p5.48xlarge"},
                             {"node", "n-1"},
                             {"launched_us", micros(launched_)}});
    if (stopped) one.set("stopped_us", micros(now_));
    list.push_back(std::move(one));
    return input(service::Source::kWatch, "instances", list.dump());
  }
  static service::Input node(int pods) {
    pb::NodeEvent event;
    event.set_node("n-1");
    event.set_state(pb::NODE_READY);
    event.set_pods(pods);
    event.set_provider_id("aws:///z/i-1");
    return input(service::Source::kBus, "qm.node", event.SerializeAsString());
  }
  static PodSet gang() {
    PodSet out;
    out.shape.gpu.whole = 8;
    return out;
  }
  static Pool pool() {
    Pool out;
    out.name = "p";
    out.instance_types = {"g5.48xlarge", "p5.48xlarge"};
    out.markets = {Market::kOnDemand};
    out.consolidate_after = 1min;
    return out;
  }
  /// One workload from its arrival to the end of its instance, on a type that was the only allowed one then.
  void record_a_day() {
    Pool then = pool();
    then.instance_types = {"p5.48xlarge"};
    step({pools_input({then})});
    step({workload(), demand(true)}, 1min);
    launched_ = now_;
    step({instances(false)}, 1min);
    step({node(1), assignment(pb::BOUND), demand(false)}, 4min);
    step({assignment(pb::RELEASED), workload(true), node(0)}, 60min);
    step({instances(true)}, 4min);
    step({demand(false)}, 10min);
  }
  std::vector<InstanceType> catalog_ = catalog_types();
  Shell shell_{std::make_unique<Engine>(catalog_types()), Codec{}};
  Recorder recorder_{catalog_};
  Instant now_ = from_micros(1'800'000'000'000'000), launched_{};
};

/// USD per hour on demand.
double price_of(const std::string& type) {
  for (const auto& one : catalog_types()) {
    if (one.name == type) return static_cast<double>(one.on_demand.per_hour.nano()) / 1e9;
  }
  return 0;
}
double usd(Money money) { return static_cast<double>(money.nano()) / 1e9; }

TEST_F(Journal, AWorkloadHasItsShapeArrivalAndRunTime) {
  record_a_day();
  const auto history = recorder_.history();
  EXPECT_EQ(history.to - history.from, 80min);
  ASSERT_EQ(history.jobs.size(), 1U);
  const auto& job = history.jobs[0];
  EXPECT_EQ(job.item.since, history.from + 1min);
  EXPECT_EQ(job.runs, 60min);
  EXPECT_EQ(job.item.priority, 7);
  EXPECT_EQ(job.item.pod_sets, std::vector{gang()});
  EXPECT_EQ(job.workload.name, "train");
  ASSERT_EQ(history.changes.size(), 1U);
  const Bill bill = recorder_.bill();
  EXPECT_EQ(bill.launches, 1);
  EXPECT_EQ(bill.gpu_seconds, 8 * 65 * 60);  // boot, run time, and consolidateAfter
  EXPECT_EQ(bill.used_gpu_seconds, 8 * 3600);
  EXPECT_EQ(bill.waited, 5min);
  EXPECT_NEAR(usd(bill.cost), price_of("p5.48xlarge") * 65 / 60, 0.01);
}

TEST_F(Journal, ASecondReplayOfTheInputsIsIdenticalAndAChangeHasItsPrice) {
  record_a_day();
  const auto history = recorder_.history();
  const auto replayed = replay_bill(history, catalog_, {}, {});
  ASSERT_TRUE(replayed) << replayed.error().to_string();
  EXPECT_EQ(replayed->finished, 1);
  EXPECT_NEAR(usd(replayed->cost), usd(recorder_.bill().cost), price_of("p5.48xlarge") * 6 / 60)
      << "within six minutes";
  HistoryChange wider;
  wider.what_if.pools = {pool()};
  const auto changed = replay_bill(history, catalog_, {}, wider);
  ASSERT_TRUE(changed);
  EXPECT_LT(usd(changed->cost), usd(replayed->cost) / 2) << "g5.48xlarge is allowed, and costs less than a third";
  const auto report = report_of(recorder_.bill(), *replayed, *changed);
  EXPECT_EQ(report["difference"]["usd"].string(), (changed->cost - replayed->cost).to_usd(2));
  const auto text = text_of(recorder_.bill(), *replayed, *changed);
  EXPECT_NE(text.find("difference of the change: -"), std::string::npos) << text;
}

TEST_F(Journal, AChangeIsReadFromTheRequestOfQmctl) {
  const auto change =
      history_change_from(R"({"prices":[{"instanceType":"p5.48xlarge","permille":"800"}],"deleted":["old"]})", 150);
  ASSERT_TRUE(change) << change.error().to_string();
  EXPECT_EQ(change->demand_permille, 1500);
  EXPECT_EQ(change->what_if.prices.at(0).permille, 800);
  EXPECT_EQ(change->what_if.deleted_pools, std::vector<std::string>{"old"});
  EXPECT_FALSE(history_change_from("{", 100));
  const auto demand = history_change_from(R"({"demand":[{"pods":1}]})", 100);
  ASSERT_FALSE(demand);
  EXPECT_NE(demand.error().remedy.find("--demand PERCENT"), std::string::npos);
}

TEST_F(Journal, ALaunchIsExplainedFromTheRowsOfItsBatch) {
  step({pools_input({pool()})});
  step({workload(), demand(true)}, 1min);
  const auto decision = decision_of_launch(shell_.engine(), now_, "p-00001");
  ASSERT_TRUE(decision) << decision.error().to_string();
  const Json& one = (*decision)["decisions"].items().at(0);
  EXPECT_EQ(one["workload"].string(), "research/train");
  EXPECT_EQ(one["candidates"].items().at(0)["instanceType"].string(), "g5.48xlarge");
  EXPECT_EQ(one["candidates"].items().at(1)["reason"].string(), "MoreExpensive");
  EXPECT_EQ(decision_of_launch(shell_.engine(), now_, "p-9").error().code, Code::kNotFound);
}

}  // namespace recorder_test
}  // namespace qm::autoscaler
