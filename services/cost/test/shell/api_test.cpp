// The whole service: bus messages in, gRPC responses out, on a memory store and a manual clock.
#include "qm/cost/api.hpp"

#include "qm/testing/testing.hpp"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "quartermaster/v1/envelope.pb.h"
#include "wire.hpp"

#include <gtest/gtest.h>

namespace qm::cost::test {
namespace api_test {

class Service : public ::testing::Test {
 protected:
  Service()
      : disk_(store::make_memory_disk()),
        host_(host_options("default"), std::make_unique<Shell>(std::make_unique<Engine>(), Codec{}),
              store::open_memory(disk_), *bus::make_bus("memory:cost_api"), clock_, nullptr),
        api_(make_api(host_, clock_)),
        server_(rpc::ServerOptions{}, {api_.get()}) {}

  void SetUp() override {
    ASSERT_TRUE(host_.open());
    clock_.set(from_micros(us(9000)));
    for (auto& input :
         {prices_input(builtin_prices()), instance("i-1", 0), node("n1", "i-1", pb::NODE_READY, 60),
          stay("a", "research", "lab", "n1", 3, 100, 4000), stay("b", "product", "shop", "n1", 1, 5000)}) {
      ASSERT_TRUE(host_.submit(input));
    }
    host_.start();
    ASSERT_TRUE(testing::wait_until([&] { return host_.counters().inputs >= 5; }));
    ASSERT_TRUE(server_.start());
    stub_ = pb::Cost::NewStub(
        grpc::CreateChannel(fmt::format("127.0.0.1:{}", server_.port()), grpc::InsecureChannelCredentials()));
  }
  void TearDown() override {
    server_.stop();
    host_.stop();
  }

  template <class Request, class Response, class Method>
  grpc::Status call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    return (stub_.get()->*method)(&context, request, &response);
  }

  ManualClock clock_{from_micros(us(0))};
  std::shared_ptr<store::MemoryDisk> disk_;
  service::Host host_;
  std::shared_ptr<grpc::Service> api_;
  rpc::Server server_;
  std::unique_ptr<pb::Cost::Stub> stub_;
};

TEST_F(Service, StatementsAddUpToTheBill) {
  pb::Statement statement;
  ASSERT_TRUE(call(&pb::Cost::Stub::GetStatement, pb::GetStatementRequest{}, statement).ok());
  EXPECT_EQ(statement.as_of_us(), us(9000));
  EXPECT_EQ(statement.total_nano_usd(), 55'040'000'000LL * 9000 / 3600);
  EXPECT_EQ(statement.provider_nano_usd(), statement.total_nano_usd());
  EXPECT_EQ(statement.imbalance_nano_usd(), 0);
  EXPECT_EQ(statement.open_instances(), 1);
  std::map<std::string, std::int64_t> time;
  for (const auto& line : statement.lines()) time[line.team()] = line.gpu_micros() / kSecond;
  EXPECT_EQ(
      time,
      (std::map<std::string, std::int64_t>{
          {"(idle)", 8 * 8940 - 3 * 3900 - 4000}, {"(starting)", 480}, {"product", 4000}, {"research", 3 * 3900}}));
  pb::GetStatementRequest early;
  early.set_as_of_us(us(1000));
  early.set_period("2026-11");
  ASSERT_TRUE(call(&pb::Cost::Stub::GetStatement, early, statement).ok());
  EXPECT_EQ(statement.total_nano_usd(), 55'040'000'000LL * 1000 / 3600);
}

TEST_F(Service, AllocationsComeInPages) {
  pb::QueryAllocationRequest request;
  request.set_group_by("workload");
  request.set_page_size(2);
  std::vector<std::string> keys;
  std::int64_t sum = 0, total = 0;
  do {
    pb::QueryAllocationResponse page;
    ASSERT_TRUE(call(&pb::Cost::Stub::QueryAllocation, request, page).ok());
    for (const auto& row : page.rows()) {
      keys.push_back(row.key());
      sum += row.nano_usd();
    }
    total = page.total_nano_usd();
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(keys, (std::vector<std::string>{"(idle)", "(starting)", "lab/job-a", "shop/job-b"}));
  EXPECT_EQ(sum, total);
}

TEST_F(Service, ATenantSeesWhatIsTheirs) {
  rpc::Caller lead;
  lead.teams = lead.led = {"research"};
  lead.namespaces = {"lab"};
  auto member = lead;
  member.led.clear();
  host_.read([&](const service::Shell& shell) {
    const auto& engine = engine_of(shell);
    const auto keys = [&](const std::string& group, const rpc::Caller& caller) {
      pb::QueryAllocationRequest request;
      request.set_group_by(group);
      std::string out;
      std::int64_t sum = 0;
      const auto rows = query_allocation(engine, request, clock_.now(), caller);
      if (!rows) return std::string(name_of(rows.error().code));
      for (const auto& row : rows->rows()) {
        out += row.key() + " ";
        sum += row.nano_usd();
      }
      EXPECT_EQ(sum, rows->total_nano_usd());
      return out;
    };
    EXPECT_EQ(keys("team", member), "research ");
    EXPECT_EQ(keys("namespace", member), "lab ");
    EXPECT_EQ(keys("workload", member), "lab/job-a ");
    EXPECT_EQ(keys("node", member), name_of(Code::kPermissionDenied));
    EXPECT_EQ(keys("node", rpc::Caller::anyone()), "n1 ");
    const auto statement = get_statement(engine, {}, clock_.now(), lead);
    ASSERT_EQ(statement->lines_size(), 1);
    EXPECT_EQ(statement->lines(0).team(), "research");
    EXPECT_EQ(statement->total_nano_usd(), statement->lines(0).nano_usd());
    EXPECT_EQ(statement->provider_nano_usd(), statement->total_nano_usd());
    EXPECT_EQ(statement->open_instances(), 0);
    EXPECT_EQ(get_statement(engine, {}, clock_.now(), member)->lines_size(), 0);
  });
}

TEST_F(Service, RefusalsNameTheField) {
  const auto field_of = [](const grpc::Status& status) { return rpc::from_grpc(status, "call").field; };
  pb::QueryAllocationResponse rows;
  pb::QueryAllocationRequest request;
  request.set_group_by("color");
  EXPECT_EQ(field_of(call(&pb::Cost::Stub::QueryAllocation, request, rows)), "group_by");
  request.set_group_by("team");
  request.set_page_size(-1);
  EXPECT_EQ(field_of(call(&pb::Cost::Stub::QueryAllocation, request, rows)), "page_size");
  request.set_page_size(0);
  request.set_until_us(us(9001));
  EXPECT_EQ(field_of(call(&pb::Cost::Stub::QueryAllocation, request, rows)), "until_us");
  request.set_until_us(0);
  request.set_from_us(us(9000));
  EXPECT_EQ(field_of(call(&pb::Cost::Stub::QueryAllocation, request, rows)), "until_us");
  pb::Statement statement;
  pb::GetStatementRequest bad;
  bad.set_period("November");
  EXPECT_EQ(field_of(call(&pb::Cost::Stub::GetStatement, bad, statement)), "period");
}

TEST_F(Service, ListsPricesOfAType) {
  pb::ListPricesRequest request;
  request.set_instance_type("g5.xlarge");
  pb::ListPricesResponse prices;
  ASSERT_TRUE(call(&pb::Cost::Stub::ListPrices, request, prices).ok());
  ASSERT_EQ(prices.prices_size(), 1);
  EXPECT_EQ(prices.prices(0).nano_usd_hour(), 1'006'000'000);
  EXPECT_EQ(prices.prices(0).source(), "aws-us-east-1-2026-07-20");
  ASSERT_TRUE(call(&pb::Cost::Stub::ListPrices, pb::ListPricesRequest{}, prices).ok());
  EXPECT_EQ(prices.prices_size(), static_cast<int>(builtin_prices().entries.size()));
}

TEST_F(Service, SnapshotsItsTotals) {
  pb::SnapshotRequest request;
  request.set_topic("qm.cost");
  request.set_page_size(1);
  std::map<std::string, std::int64_t> totals;
  do {
    pb::SnapshotResponse page;
    ASSERT_TRUE(call(&pb::Cost::Stub::Snapshot, request, page).ok());
    for (const auto& envelope : page.entries()) {
      pb::CostEvent event;
      ASSERT_TRUE(event.ParseFromString(envelope.payload()));
      totals[envelope.key()] = event.totals().gpu_micros() / kSecond;
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  // The two full hours are settled: 0 to 7200.
  EXPECT_EQ(totals.at("total/2026-11/research"), 3 * 3900);
  EXPECT_EQ(totals.at("total/2026-11/product"), 2200);
}

TEST_F(Service, MetricsShowTheMonth) {
  metrics::Registry registry;
  export_metrics(registry, host_, clock_);
  const auto text = registry.text();
  EXPECT_NE(text.find("qm_cost_imbalance_nano_usd 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("qm_cost_burn_usd_per_hour 55.04\n"), std::string::npos);
  EXPECT_NE(text.find("qm_cost_month_gpu_hours{team=\"research\"} 3.25\n"), std::string::npos);
  EXPECT_NE(text.find("qm_cost_open_instances 1\n"), std::string::npos);
  EXPECT_NE(text.find("qm_cost_unpriced_instances 0\n"), std::string::npos);
}

}  // namespace api_test
}  // namespace qm::cost::test
