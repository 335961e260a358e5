// The SLO of a NodePool from its annotations, and headroom as rows.
#include "qm/autoscaler/shell.hpp"
#include "qm/base/json.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace headroom_slo_test {

using ::testing::HasSubstr;

Pool with(const std::string& annotations, std::int64_t replicas = -1) {
  Pool pool;
  pool.name = "gpu";
  pool.replicas = replicas;
  read_headroom(*Json::parse(fmt::format(R"({{"metadata":{{"annotations":{{{}}}}}}})", annotations)), pool);
  return pool;
}

TEST(HeadroomSlo, IsReadFromBothAnnotations) {
  const Pool pool = with(R"("quartermaster.dev/headroom-wait":"1m30s","quartermaster.dev/headroom-quantile":"0.95")");
  EXPECT_EQ(pool.headroom, (HeadroomSlo{std::chrono::seconds(90), 950'000}));
  EXPECT_EQ(pool.not_ready, "");
  EXPECT_FALSE(with("").headroom);
  EXPECT_EQ(with("").not_ready, "");
}

TEST(HeadroomSlo, APoolWithAWrongOneIsNotReady) {
  EXPECT_THAT(with(R"("quartermaster.dev/headroom-wait":"60s")").not_ready,
              HasSubstr("metadata.annotations[quartermaster.dev/headroom-quantile]: it is missing"));
  EXPECT_THAT(with(R"("quartermaster.dev/headroom-wait":"soon","quartermaster.dev/headroom-quantile":"0.9")").not_ready,
              HasSubstr("\"soon\" is not a duration"));
  for (const char* quantile : {"95", "0", "1", "95%", "nan"}) {
    const std::string text =
        fmt::format(R"("quartermaster.dev/headroom-wait":"60s","quartermaster.dev/headroom-quantile":"{}")", quantile);
    EXPECT_THAT(with(text).not_ready, HasSubstr("is not a quantile")) << quantile;
  }
  EXPECT_THAT(
      with(R"("quartermaster.dev/headroom-wait":"60s","quartermaster.dev/headroom-quantile":"0.9")", 3).not_ready,
      HasSubstr("a NodePool with replicas has no headroom"));
}

}  // namespace headroom_slo_test
}  // namespace qm::autoscaler
