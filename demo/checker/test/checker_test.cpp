// A small valid history, and one planted violation for each law: the checker must name that law and no other.
#include "qm/checker/checker.hpp"

#include <gtest/gtest.h>

namespace qm::checker {
namespace checker_test {

constexpr const char* kPrices =
    "instance_type,gpus,on_demand_usd_hour,spot_usd_hour\n"
    "p5.48xlarge,8,98.32,36.5\n"
    "g5.xlarge,1,1.006,0.4\n";

// Job a (one rank) runs and ends. Job b (two ranks) is interrupted by a spot notice after 100 steps with 80 saved,
// and ends on its second attempt. A spot node is launched for claim c1 and stopped.
const char* kGood =
    R"({"t":0,"e":"instance_launch","id":"i-1","type":"p5.48xlarge","zone":"z","market":"on-demand","nano_usd_hour":98320000000,"token":"","claim":"","initial":true}
{"t":500000,"e":"claim_create","name":"c1"}
{"t":1000000,"e":"instance_launch","id":"i-2","type":"p5.48xlarge","zone":"z","market":"spot","nano_usd_hour":36500000000,"token":"t1","claim":"c1","initial":false}
{"t":2000000,"e":"job_create","uid":"A","job":"vision/a","team":"vision"}
{"t":2000000,"e":"job_create","uid":"B","job":"speech/b","team":"speech"}
{"t":10000000,"e":"pod_start","uid":"a0","pod":"vision/a-0","owner":"A","attempt":1,"index":0,"node":"n1","devices":[0,1],"team":"vision","gang":1,"run_s":60,"start_step":0}
{"t":10000000,"e":"pod_start","uid":"b0","pod":"speech/b-0","owner":"B","attempt":1,"index":0,"node":"n1","devices":[2],"team":"speech","gang":2,"run_s":200,"start_step":0}
{"t":12000000,"e":"pod_start","uid":"b1","pod":"speech/b-1","owner":"B","attempt":1,"index":1,"node":"n2","devices":[0],"team":"speech","gang":2,"run_s":200,"start_step":0}
{"t":70000000,"e":"pod_stop","uid":"a0","pod":"vision/a-0","owner":"A","reason":"Succeeded","step":60}
{"t":70000000,"e":"job_finish","uid":"A","ok":true}
{"t":100000000,"e":"signal","kind":"spot_notice","node":"n2"}
{"t":112000000,"e":"pod_stop","uid":"b0","pod":"speech/b-0","owner":"B","reason":"Deleted","step":100}
{"t":112000000,"e":"pod_stop","uid":"b1","pod":"speech/b-1","owner":"B","reason":"Deleted","step":100}
{"t":121000000,"e":"instance_stop","id":"i-2","reason":"Server.SpotInstanceTermination"}
{"t":130000000,"e":"pod_start","uid":"b2","pod":"speech/b-0","owner":"B","attempt":2,"index":0,"node":"n1","devices":[2],"team":"speech","gang":2,"run_s":200,"start_step":80}
{"t":130000000,"e":"pod_start","uid":"b3","pod":"speech/b-1","owner":"B","attempt":2,"index":1,"node":"n1","devices":[3],"team":"speech","gang":2,"run_s":200,"start_step":80}
{"t":250000000,"e":"pod_stop","uid":"b2","pod":"speech/b-0","owner":"B","reason":"Succeeded","step":200}
{"t":250000000,"e":"pod_stop","uid":"b3","pod":"speech/b-1","owner":"B","reason":"Succeeded","step":200}
{"t":250000000,"e":"job_finish","uid":"B","ok":true}
{"t":360000000,"e":"clock","factor":0}
)";

Report judge(const std::string& text, Inputs inputs = {{"vision/a", "speech/b"}, {}, 0, 90'000'000}) {
  auto history = read_history(text, 0);
  EXPECT_TRUE(history) << history.error().to_string();
  return check(*history, *read_prices(kPrices), inputs);
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Checker, FindsNothingInAGoodHistory) {
  const Report r = judge(kGood);
  EXPECT_TRUE(r.violations.empty()) << r.to_json().pretty();
  EXPECT_EQ(r.submitted, 2);
  EXPECT_EQ(r.finished, 2);
  EXPECT_EQ(r.running + r.waiting + r.cancelled + r.failed, 0);
  // i-1: 360 s at 98.32 $/h = 9.832 $; i-2: 120 s at 36.5 $/h = 1.216666666 $ (floor).
  EXPECT_EQ(r.provider_nano_usd, 9'832'000'000 + 1'216'666'666);
  EXPECT_EQ(r.interrupted.at("spot").attempts, 1);
  EXPECT_DOUBLE_EQ(r.interrupted.at("spot").lost_gpu_hours, 2 * 20 / 3600.0);
  EXPECT_DOUBLE_EQ(r.interrupted.at("spot").from_zero_gpu_hours, 2 * 100 / 3600.0);
  EXPECT_EQ(r.wait.n, 2);
  EXPECT_DOUBLE_EQ(r.wait_by_team.at("speech").p50, 10);  // until the last rank runs
  EXPECT_DOUBLE_EQ(r.wait_by_team.at("vision").p50, 8);
  // 20 steps on each of two devices ran again, because the checkpoint was at step 80.
  EXPECT_DOUBLE_EQ(r.lost_gpu_hours.at("spot"), 40.0 / 3600);
  EXPECT_DOUBLE_EQ(r.turnaround.max, 18);  // GPU 2 of n1: 112 s to 130 s
  EXPECT_GT(r.peak_utilization, r.utilization * 0.99);
}

struct Planted {
  const char* law;
  const char* from;
  const char* to;
};

class PlantedFault : public ::testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, TurnsItsLawRed) {
  const auto& p = GetParam();
  const Report r = judge(replaced(kGood, p.from, p.to));
  ASSERT_FALSE(r.violations.empty());
  for (const auto& v : r.violations) EXPECT_EQ(v.law, p.law) << v.text;
}

INSTANTIATE_TEST_SUITE_P(
    Laws, PlantedFault,
    ::testing::Values(
        // B's second attempt starts while the first still runs.
        Planted{
            "doubled",
            R"({"t":130000000,"e":"pod_start","uid":"b3","pod":"speech/b-1","owner":"B","attempt":2,"index":1,"node":"n1","devices":[3])",
            R"({"t":111000000,"e":"pod_start","uid":"b3","pod":"speech/b-1","owner":"B","attempt":2,"index":1,"node":"n1","devices":[3])"},
        // A finishes twice.
        Planted{"doubled", R"({"t":100000000,"e":"signal")", R"({"t":90000000,"e":"job_finish","uid":"A","ok":true}
{"t":100000000,"e":"signal")"},
        // Both ranks of the second attempt on one GPU.
        Planted{"double_booked", R"("devices":[3])", R"("devices":[2])"},
        // A rank of B runs under another job's name, so each of the two gangs is incomplete for over 90 s.
        Planted{"partial_gang",
                R"({"t":12000000,"e":"pod_start","uid":"b1","pod":"speech/b-1","owner":"B","attempt":1,"index":1)",
                R"({"t":12000000,"e":"pod_start","uid":"b1","pod":"speech/b-1","owner":"C","attempt":1,"index":1)"},
        // No claim requested this instance.
        Planted{"orphan_instance", R"("token":"t1","claim":"c1")", R"("token":"t1","claim":"")"},
        Planted{"orphan_instance", R"({"t":500000,"e":"claim_create","name":"c1"})",
                R"({"t":500000,"e":"claim_create","name":"c2"})"},
        Planted{
            "orphan_instance", R"({"t":2000000,"e":"job_create","uid":"A")",
            R"({"t":2000000,"e":"instance_launch","id":"i-3","type":"p5.48xlarge","zone":"z","market":"spot","nano_usd_hour":36500000000,"token":"t2","claim":"c1","initial":false}
{"t":2000000,"e":"job_create","uid":"A")"},
        // The provider charges a price that is not in its list.
        Planted{"price", R"("nano_usd_hour":36500000000)", R"("nano_usd_hour":36500000001)"}));

TEST(Checker, PartialGangNeedsALongTime) {
  // One of two ranks runs alone for six minutes.
  const std::string text = std::string(R"({"t":0,"e":"job_create","uid":"A","job":"x/a","team":"x"}
{"t":1000000,"e":"pod_start","uid":"a0","pod":"x/a-0","owner":"A","attempt":1,"index":0,"node":"n","devices":[0],"gang":2}
)") + R"({"t":361000000,"e":"clock","factor":0})";
  const Report r = judge(text, {{"x/a"}, {"x/a"}, 0});
  ASSERT_EQ(r.violations.size(), 1u);
  EXPECT_EQ(r.violations[0].law, "partial_gang");
}

TEST(Checker, AnAcknowledgedJobThatNoServiceHasIsLost) {
  const Report r = judge(kGood, {{"vision/a", "speech/b", "speech/c"}, {}, 0});
  ASSERT_EQ(r.violations.size(), 1u);
  EXPECT_EQ(r.violations[0].law, "lost");
  EXPECT_EQ(r.lost, 1);
  EXPECT_TRUE(judge(kGood, {{"vision/a", "speech/b", "speech/c"}, {"speech/c"}, 0}).violations.empty());
}

TEST(Checker, NamesTheLineThatItCannotRead) {
  EXPECT_EQ(read_history("{\"t\":1,\"e\":\"clock\"}\nrubbish\n", 0).error().message.substr(0, 14), "history line 2");
  EXPECT_NE(read_prices("instance_type,gpus\n").error().message.find("on_demand_usd_hour"), std::string::npos);
  EXPECT_NE(read_prices("instance_type,gpus,on_demand_usd_hour,spot_usd_hour\na,1,1.x,2\n").error().message.find("1.x"),
            std::string::npos);
}

}  // namespace checker_test
}  // namespace qm::checker
