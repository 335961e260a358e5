// The output of each verb, as files under test/golden: read them to see what a user sees.
#include "qm/testing/golden.hpp"

#include "fake_suite.hpp"

#include <gtest/gtest.h>

namespace qm::cli {
namespace golden_test {

struct Case {
  const char* file;
  std::vector<std::string> args;
};

class Golden : public ::testing::TestWithParam<Case> {};

TEST_P(Golden, Text) {
  FakeSuite suite;
  populate(suite.state);
  const auto ran = qmctl(suite, GetParam().args);
  EXPECT_EQ(ran.code, kDone) << ran.err;
  EXPECT_EQ(ran.err, "");
  EXPECT_TRUE(testing::matches_golden(std::string(QM_SOURCE_DIR) + "/cli/test/golden/" + GetParam().file, ran.out));
}

INSTANTIATE_TEST_SUITE_P(
    Verbs, Golden,
    ::testing::Values(
        Case{"list.txt", {"list"}}, Case{"list.json", {"list", "-o", "json"}},
        Case{"get.yaml", {"get", "vision/finetune", "-o", "yaml"}}, Case{"get.txt", {"get", "vision/finetune"}},
        Case{"describe-running.txt", {"describe", "nlp/pretrain"}},
        Case{"describe-waiting.txt", {"describe", "vision/finetune"}},
        Case{"describe.yaml", {"-o", "yaml", "describe", "nlp/pretrain"}}, Case{"why.txt", {"why", "vision/finetune"}},
        Case{"why-running.txt", {"why", "nlp/pretrain"}}, Case{"when.txt", {"when", "vision/finetune"}},
        Case{"when-running.txt", {"when", "nlp/pretrain"}},
        Case{"when.json", {"when", "vision/finetune", "-o", "json"}},
        Case{"why.json", {"why", "vision/finetune", "-o", "json"}}, Case{"queues.txt", {"queues"}},
        Case{"budget.txt", {"budget"}}, Case{"budget.json", {"budget", "-o", "json"}},
        Case{"queue.yaml", {"queue", "show", "vision", "-o", "yaml"}}, Case{"classes.txt", {"classes"}},
        Case{"preset-centralized.yaml",
             {"preset", "teams", "--model", "centralized", "--team", "research=32", "--team", "inference=16"}},
        Case{"preset-decentralized.yaml",
             {"preset", "teams", "--model", "decentralized", "--team", "research=32", "--team", "inference=16"}},
        Case{"layouts.txt", {"layouts"}}, Case{"layouts.json", {"layouts", "-o", "json"}},
        Case{"what-if.txt", {"what-if", "--delete", "ClusterQueue/spare"}}, Case{"nodes.txt", {"nodes"}},
        Case{"cluster-gap.txt", {"cluster", "gap"}}, Case{"cluster-gap.json", {"cluster", "gap", "-o", "json"}},
        Case{"defrag-plan.txt", {"defrag", "plan"}}, Case{"defrag-plan.json", {"defrag", "plan", "-o", "json"}},
        Case{"claims.txt", {"claims"}}, Case{"plan.txt", {"plan"}},
        Case{"scale-eval.txt", {"scale", "eval", "nlp/llm"}}, Case{"scale-eval.json", {"scale", "eval", "-o", "json"}},
        Case{"top.txt", {"top"}}, Case{"top-node.txt", {"top", "--node", "ip-10-0-1-7.ec2.internal"}},
        Case{"report.txt", {"report", "--period", "2026-11"}}, Case{"report.json", {"report", "-o", "json"}},
        Case{"prices.txt", {"prices"}}, Case{"events.txt", {"events", "--follow", "--count", "3"}},
        Case{"events.json", {"events", "--follow", "--count", "2", "-o", "json"}},
        Case{"events.yaml", {"events", "--follow", "--count", "2", "-o", "yaml"}}, Case{"help.txt", {"--help"}},
        Case{"help-submit.txt", {"submit", "--help"}}),
    [](const auto& one) {
      std::string name = one.param.file;
      std::ranges::replace_if(
          name, [](char c) { return c == '-' || c == '.'; }, '_');
      return name;
    });

}  // namespace golden_test
}  // namespace qm::cli
