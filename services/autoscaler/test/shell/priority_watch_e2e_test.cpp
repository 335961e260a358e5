// The ConfigMap of the priority expander on the fleet's API server: an edit takes effect while the watch runs.
#include "qm/autoscaler/node_groups.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace qm::autoscaler {
namespace priority_watch_e2e_test {

const kube::Resource kConfigMaps{"", "v1", "configmaps", true};
constexpr const char* kName = "cluster-autoscaler-priority-expander";

// S-164: matched by pattern, and edited without a restart.
TEST(PriorityWatchOnTheFleet, AnEditTakesEffect) {
  const std::string binary = std::string(QM_BIN_DIR) + "/qm-fleet";
  if (!std::filesystem::exists(binary)) GTEST_SKIP() << "qm-fleet is not built: run ./qm build";
  qm::testing::TempDir dir;
  auto fleet = qm::testing::Process::start({{binary, "--dir", dir.path(), "--nodes", "0"}, {}, dir.path() + "/log"});
  ASSERT_TRUE(fleet) << fleet.error().to_string();
  const std::string file = dir.path() + "/fleet.json";
  ASSERT_TRUE(qm::testing::wait_until([&] { return std::filesystem::exists(file); }));
  const auto ports = Json::parse(qm::testing::read_file(file)).value_or(Json());
  kube::ClientOptions server;
  server.server = fmt::format("http://127.0.0.1:{}", ports["kube"].integer());
  kube::Client client(server);

  PriorityWatch watch(client, {});
  watch.start();
  const auto priority_is = [&](std::optional<std::int64_t> wanted) {
    return qm::testing::wait_until([&] {
      Pool pool;
      pool.name = "h100-ondemand-asg";
      std::vector<Pool> pools{pool};
      watch.rank(pools);
      return watch.synced() && pools[0].expander_priority == wanted;
    });
  };
  EXPECT_TRUE(priority_is(std::nullopt)) << "there is no ConfigMap yet";
  const auto data = [](const std::string& text) { return Json::object({{"priorities", text}}); };
  const Json made = Json::object({{"apiVersion", "v1"},
                                  {"kind", "ConfigMap"},
                                  {"metadata", Json::object({{"name", kName}, {"namespace", "kube-system"}})},
                                  {"data", data("10:\n  - .*-ondemand.*\n50:\n  - .*-spot.*\n")}});
  const auto created = client.create(kConfigMaps, "kube-system", made);
  ASSERT_TRUE(created) << created.error().to_string();
  EXPECT_TRUE(priority_is(10));
  ASSERT_TRUE(client.merge_patch(kConfigMaps, "kube-system", kName,
                                 Json::object({{"data", data("60:\n  - .*-ondemand.*\n")}})));
  EXPECT_TRUE(priority_is(60));
  // An invalid edit has no effect, and an Event names the mistake.
  ASSERT_TRUE(client.merge_patch(kConfigMaps, "kube-system", kName, Json::object({{"data", data("60: '('\n")}})));
  const kube::Resource events{"", "v1", "events", true};
  EXPECT_TRUE(qm::testing::wait_until([&] {
    const auto list = client.list(events, "kube-system", {});
    return list && std::ranges::any_of(list->items, [](const Json& event) {
             return event["reason"].string() == "NotAccepted" &&
                    event["message"].string().find("priority 60") != std::string::npos;
           });
  }));
  EXPECT_TRUE(priority_is(60));
  watch.stop();
}

}  // namespace priority_watch_e2e_test
}  // namespace qm::autoscaler
