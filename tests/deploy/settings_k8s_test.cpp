// Settings in the values of the chart: its schema refuses unknown names and values that a program would refuse.
#include "support.hpp"

#include <gmock/gmock.h>

namespace qm::deploy {
namespace settings_k8s_test {

using ::testing::HasSubstr;

Ran rendered_with(const std::vector<std::string>& values) {
  const auto chart = source("deploy/helm/quartermaster");
  std::vector<std::string> args{setting("QM_HELM"),       "template",       "qm",    chart, "-f",
                                chart + "/ci/trial.yaml", "--kube-version", "1.36.0"};
  for (const auto& value : values) args.insert(args.end(), {"--set", value});
  return run(std::move(args));
}

TEST(ChartSettings, ValuesThatAProgramRefusesAreRefusedByTheSchema) {
  if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
  const std::pair<const char*, const char*> wrong[] = {
      {"services.admission.settings.rules=exact", "value must be one of 'continuous', 'kueue'"},
      {"services.admission.settings.holds=5m", "'holds' not allowed"},
      {"services.admission.settings.disruptions-per-hour=-1", "minimum"},
      {"services.placement.settings.hold=300", "got number, want string"},
      {"services.placement.settings.hold=5x", "does not match pattern"},
      {"services.placement.settings.preemption=yes", "value must be one of 'off', 'evict', 'migrate', 'on'"},
      {"services.telemetry.settings.hold=5m", "'hold' not allowed"},
      {"agent.settings.sample-period=5", "got number, want string"},
      {"agent.devicePlugin.shares=129", "maximum"},
      {"services.admission.settings.quota=none", "'quota' not allowed"},
      {"agent.settings.dcgm=http://127.0.0.1:1/", "'dcgm' not allowed"},
  };
  for (const auto& [value, answer] : wrong) {
    SCOPED_TRACE(value);
    const Ran ran = rendered_with({value});
    EXPECT_NE(ran.code, 0);
    EXPECT_THAT(ran.output, HasSubstr(answer));
  }
}

TEST(ChartSettings, ValuesReachTheProgramAsTheyWereGiven) {
  if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
  const Ran ran =
      rendered_with({"services.placement.settings.hold=5m", "services.placement.settings.preemption=true",
                     "services.placement.settings.max-lost-gpu-seconds=1000000", "agent.settings.sample-period=30s"});
  EXPECT_EQ(ran.code, 0) << ran.output;
  for (const char* argument :
       {"--set=hold=5m", "--set=preemption=true", "--set=max-lost-gpu-seconds=1000000", "--set=sample-period=30s"})
    EXPECT_THAT(ran.output, HasSubstr(argument));
}

}  // namespace settings_k8s_test
}  // namespace qm::deploy
