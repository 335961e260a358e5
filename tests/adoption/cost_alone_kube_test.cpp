// Cost alone: pods of other schedulers are charged to their teams, and the sums match the ledger.
#include "adoption.hpp"
#include "qm/pg/connection.hpp"

#include <algorithm>

namespace qm::adoption {
namespace cost_alone_kube_test {

using kube::resources::kPods;
using namespace std::chrono_literals;

const kube::Resource kPlans{"quartermaster.dev", "v1alpha1", "priceplans", false};
/// 28.8 dollars an hour for a node of 8 GPUs are one nano-dollar for a GPU and a microsecond: nothing is rounded.
constexpr const char* kPrice = "28.8";

class CostAlone : public Adoption {
 protected:
  void SetUp() override {
    Adoption::SetUp();
    if (IsSkipped()) return;
    definitions("quartermaster.yaml");
    std::string why_not;
    database_ = testing::Postgres::shared(&why_not)->fresh_database();
  }
  std::unique_ptr<Service> start() {
    return std::make_unique<Service>("cost", cluster(), database_,
                                     std::vector<std::string>{"observe=cluster", "posting-delay=1s"});
  }
  Json plan(const std::string& name, const std::string& usd) {
    const auto entry = Json::object({{"usdPerHour", usd}});
    return Json::object({{"apiVersion", "quartermaster.dev/v1alpha1"},
                         {"kind", "PricePlan"},
                         {"metadata", Json::object({{"name", name}})},
                         {"spec", Json::object({{"prices", Json::array({entry})}})}});
  }
  /// Queries one row of integers.
  std::vector<std::int64_t> ask(const std::string& sql, const std::string& parameter = {}) {
    auto connection = pg::Connection::open(database_, {});
    EXPECT_TRUE(connection) << connection.error().to_string();
    if (!connection) return {};
    pg::Params params;
    if (!parameter.empty()) params.text(parameter);
    const auto rows = (*connection)->query(sql, params);
    EXPECT_TRUE(rows) << rows.error().to_string();
    std::vector<std::int64_t> out;
    for (std::size_t i = 0; rows && i < rows->size(); ++i) out.push_back(std::stoll(rows->str(i, 0)));
    return out;
  }
  std::int64_t sum(const char* what, const std::string& team) {
    const auto rows = ask(fmt::format("select coalesce(sum({}), 0)::bigint::text from cost.ledger where team = $1 and "
                                      "account <> 'provider-payable'",
                                      what),
                          team);
    return rows.empty() ? 0 : rows.front();
  }
  bool over(const std::string& pod) { return get(kPods, pod).path("status.phase").string() == "Succeeded"; }

  std::string database_;
};

TEST_F(CostAlone, PodsThatOthersScheduledAreChargedAndTheSumsAreTheBooks) {
  if (cluster().aws.empty()) GTEST_SKIP() << "there is no cloud with this cluster";
  create(kPlans, plan(own("plan"), kPrice));
  const auto machine = create_instance(own("machine"));
  const auto cost = start();
  const auto here = [&](Json pod) {
    pod.set("spec").set("nodeSelector", Json::object({{kPool, own("pool")}}));
    return pod;
  };
  auto labelled = here(pod("labelled", 8, 3));
  labelled.set("metadata").set("labels").set("quartermaster.dev/team", own("vision"));
  create(kPods, labelled);
  ASSERT_TRUE(comes([&] { return over("labelled"); })) << cost->log();
  create(kPods, here(pod("plain", 4, 3)));
  ASSERT_TRUE(comes([&] { return over("plain"); })) << cost->log();

  // When the instance ends, its last hour is posted. A pod without a team is charged to its namespace.
  terminate_instance(machine);
  ASSERT_TRUE(comes([&] { return sum("gpu_micros", own("vision")) > 0 && sum("gpu_micros", ns()) > 0; }))
      << cost->state().pretty();
  for (const auto& [team, gpus] : {std::pair(own("vision"), 8), std::pair(ns(), 4)}) {
    const auto gpu_micros = sum("gpu_micros", team);
    EXPECT_GE(gpu_micros, gpus * 2'000'000) << team << ": it ran for three seconds, and instants are whole ones";
    EXPECT_EQ(sum("nano", team), gpu_micros) << team;
  }
  // The idle capacity of the node is charged too, and the total is the bill of the instance.
  const auto of_node = [&](const char* what) {
    const auto rows =
        ask(fmt::format("select ({})::bigint::text from cost.ledger where node = $1", what), machine.node);
    return rows.empty() ? -1 : rows.front();
  };
  EXPECT_GT(of_node("coalesce(sum(nano) filter (where account not in ('provider-payable', 'team-expense')), 0)"), 0);
  EXPECT_EQ(of_node("sum(nano) filter (where account <> 'provider-payable')"),
            of_node("8 * (max(valid_to) - min(valid_from))"));

  // The ledger balances, line by line and in total; the metrics have the same values.
  EXPECT_EQ(ask("select coalesce(sum(nano), 0)::bigint::text from cost.ledger"), std::vector<std::int64_t>{0});
  EXPECT_EQ(cost->state().path("engine.audit").string(), "");
  EXPECT_EQ(cost->metric("qm_cost_imbalance_nano_usd").value_or(-1), 0.0);
  EXPECT_EQ(cost->metric("qm_cost_unpriced_instances").value_or(-1), 0.0);
  const std::string page = "\n" + cost->page("/metrics");
  double lines = 0, bill = -1;
  for (std::size_t at = 0; (at = page.find('\n', at)) != std::string::npos; ++at) {
    const auto end = page.find('\n', at + 1);
    const auto line = page.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const double value = line.empty() ? 0 : std::strtod(line.c_str() + line.rfind(' ') + 1, nullptr);
    if (line.starts_with("qm_cost_month_usd{")) lines += value;
    if (line.starts_with("qm_cost_month_provider_usd ")) bill = value;
  }
  EXPECT_GT(bill, 0);
  EXPECT_NEAR(lines, bill, 1e-6 * bill);
}

TEST_F(CostAlone, APricePlanOfTheClusterAppliesAtOnceAndAnInvalidOneGetsAnEvent) {
  create(kPlans, plan(own("plan"), kPrice));
  const auto cost = start();
  ASSERT_TRUE(comes([&] {
    return cost->log().find("plan=" + own("plan")) != std::string::npos ||
           cost->log().find(own("plan")) != std::string::npos;
  })) << cost->log();
  const auto burn = [&] { return cost->metric("qm_cost_burn_usd_per_hour").value_or(0); };
  ASSERT_TRUE(comes([&] { return burn() > 0; }));
  const auto before = burn();
  // With a second plan for the same nodes the price would be ambiguous.
  create(kPlans, plan(own("other"), "1"));
  ASSERT_TRUE(comes([&] {
    const auto events = client().list_all(kube::resources::kEvents, "default");
    return events && std::any_of(events->begin(), events->end(), [&](const Json& event) {
             return event["reason"].string() == "NotAccepted" &&
                    event.path("involvedObject.name").string() == own("other");
           });
  })) << cost->log();
  EXPECT_EQ(burn(), before);
  // Another price applies from then on.
  ASSERT_TRUE(client().merge_patch(
      kPlans, "", own("plan"),
      Json::object({{"spec", Json::object({{"prices", Json::array({Json::object({{"usdPerHour", "72"}})})}})}})));
  EXPECT_TRUE(comes([&] { return burn() > 1.5 * before; })) << before << " " << burn();
}

}  // namespace cost_alone_kube_test
}  // namespace qm::adoption
