// Every decision of the recorded cases: counts, rules, proposals, conditions and metrics.
#include "cases.hpp"
#include "qm/base/parse.hpp"
#include "qm/base/unpacked.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler::replicas {
namespace vectors_test {

class Vectors : public ::testing::TestWithParam<const char*> {};

TEST_P(Vectors, EveryTickIsDecidedAsRecorded) {
  const auto shared = testing::shared_dir();
  if (!shared) GTEST_SKIP() << testing::no_shared();
  const auto text = read_unpacked(*shared + "/vectors/replicas/" + GetParam(), "");
  ASSERT_TRUE(text) << text.error().to_string();
  std::size_t cases = 0, ticks = 0, wrong = 0;
  for (const auto line : split(*text, '\n')) {
    if (line.empty()) continue;
    const auto recorded = Json::parse(line);
    ASSERT_TRUE(recorded);
    const auto& name = (*recorded)["name"].string();
    const auto result = run_case(*recorded);
    ASSERT_TRUE(result) << name << ": " << result.error().to_string();
    const auto& expected = (*recorded)["ticks"].items();
    ASSERT_EQ((*result)["ticks"].size(), expected.size()) << name;
    ++cases;
    for (std::size_t i = 0; i < expected.size(); ++i, ++ticks) {
      if ((*result)["ticks"].at(i) == expected[i]["expect"] || ++wrong > 20) continue;
      ADD_FAILURE() << name << ", tick " << i << " at " << expected[i]["t"].integer() << ": "
                    << (*result)["ticks"].at(i).dump() << "\n  expected " << expected[i]["expect"].dump();
    }
  }
  EXPECT_EQ(wrong, 0U) << "of " << ticks << " ticks in " << cases << " cases";
  EXPECT_GT(cases, 100U);
}

INSTANTIATE_TEST_SUITE_P(Replicas, Vectors, ::testing::Values("hpa.jsonl.gz", "keda.jsonl.gz"), [](const auto& file) {
  return std::string(file.param).substr(0, std::string(file.param).find('.'));
});

}  // namespace vectors_test
}  // namespace qm::autoscaler::replicas
