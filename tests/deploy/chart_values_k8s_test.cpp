// Values of the chart that add rights, mounts or kinds: off by default, and each adds only its own. Helm renders without a
// cluster.
#include "qm/kube/client.hpp"
#include "support.hpp"

#include <algorithm>
#include <fstream>
#include <set>

namespace qm::deploy {
namespace chart_values_k8s_test {

class ChartValues : public ::testing::Test {
 protected:
  void SetUp() override {
    if (setting("QM_HELM").empty()) GTEST_SKIP() << "QM_HELM is not set: run ./qm peers helm";
  }
  static Ran helm_with(const std::vector<std::string>& values) {
    const auto chart = source("deploy/helm/quartermaster");
    std::vector<std::string> args{setting("QM_HELM"),       "template",       "qm",    chart, "-f",
                                  chart + "/ci/trial.yaml", "--kube-version", "1.36.0"};
    for (const auto& value : values) args.insert(args.end(), {"--set", value});
    return run(std::move(args));
  }
  std::vector<Json> rendered(const std::vector<std::string>& values) {
    const Ran ran = helm_with(values);
    EXPECT_EQ(ran.code, 0) << ran.output;
    const std::string file = folder_.path() + "/rendered.yaml";
    // Helm's notes about symbolic links in the chart precede the first document.
    std::ofstream(file) << ran.output.substr(std::min(ran.output.find("---\n"), ran.output.size()));
    std::vector<Json> out;
    for (const auto& object : objects_of(file)) out.push_back(object.document.content);
    return out;
  }
  /// The pod template of the agent.
  Json agent(const std::vector<std::string>& values) {
    for (const Json& document : rendered(values)) {
      if (document["kind"].string() == "DaemonSet") return document["spec"]["template"];
    }
    ADD_FAILURE() << "no agent";
    return {};
  }
  /// The names of the definitions.
  std::set<std::string> kinds(const std::vector<std::string>& values) {
    std::set<std::string> out;
    for (const Json& document : rendered(values)) {
      if (document["kind"].string() == "CustomResourceDefinition") out.insert(kube::name_of(document));
    }
    return out;
  }

 private:
  testing::TempDir folder_;
};

bool has_argument(const Json& pod, const char* argument) {
  const auto& args = pod.path("spec.containers").items().at(0)["args"].items();
  return std::ranges::any_of(args, [&](const Json& one) { return one.string() == argument; });
}

// S-495: with receivers, each severity of the rules has a route to its own.
TEST_F(ChartValues, AlertsAreRoutedBySeverity) {
  const std::string critical = "monitoring.receivers.critical.pagerdutyConfigs[0].routingKey.name=pager",
                    warning = "monitoring.receivers.warning.slackConfigs[0].channel=gpus";
  const auto documents = rendered({"monitoring.rules=true", "monitoring.labels.release=prometheus", critical, warning});
  const auto of_kind = [&](const char* kind) {
    const auto found = std::ranges::find_if(documents, [&](const Json& one) { return one["kind"].string() == kind; });
    return found == documents.end() ? Json() : *found;
  };
  std::set<std::string> severities, routed, receivers;
  const Json rules = of_kind("PrometheusRule"), config = of_kind("AlertmanagerConfig");
  for (const Json& group : rules["spec"]["groups"].items()) {
    for (const Json& rule : group["rules"].items()) severities.insert(rule["labels"]["severity"].string());
  }
  EXPECT_EQ(severities, (std::set<std::string>{"critical", "warning"}));
  EXPECT_EQ(kube::label(config, "release"), "prometheus");
  for (const Json& receiver : config["spec"]["receivers"].items()) {
    const std::string& name = receiver["name"].string();
    receivers.insert(name);
    EXPECT_EQ(receiver[name == "critical" ? "pagerdutyConfigs" : "slackConfigs"].size(), 1U) << name;
  }
  for (const Json& route : config["spec"]["route"]["routes"].items()) {
    ASSERT_EQ(route["matchers"].size(), 1U);
    const Json& matcher = route["matchers"].at(0);
    EXPECT_EQ(matcher["name"].string(), "severity");
    EXPECT_EQ(matcher["value"].string(), route["receiver"].string());
    EXPECT_TRUE(receivers.contains(route["receiver"].string())) << route.dump();
    routed.insert(matcher["value"].string());
  }
  EXPECT_EQ(routed, severities);

  const std::string other = "monitoring.receivers.page.webhookConfigs[0].url=http://pager";
  for (const auto& [values, answer] :
       {std::pair(std::vector{critical}, "monitoring.receivers has no receiver of severity warning"),
        {std::vector{critical, warning, other}, "monitoring.receivers.page: no alert has this severity"}}) {
    const Ran ran = helm_with(values);
    EXPECT_NE(ran.code, 0);
    EXPECT_NE(ran.output.find(answer), std::string::npos) << ran.output;
  }
}

// Orders to save by files and signals need the volumes and the processes of pods.
TEST_F(ChartValues, TheAgentReachesVolumesAndProcessesOnlyWhereItIsAskedTo) {
  const Json none = agent({}), files = agent({"agent.checkpoints.files=true"}),
             signals = agent({"agent.checkpoints.signals=true"});
  EXPECT_TRUE(none["spec"]["hostPID"].is_null());
  EXPECT_TRUE(none["spec"]["securityContext"]["runAsNonRoot"].boolean());
  EXPECT_FALSE(has_argument(none, "--set=proc=/proc"));
  EXPECT_TRUE(has_argument(files, "--set=kubelet-pods=/var/lib/kubelet/pods"));
  EXPECT_NE(files.dump().find(R"("mountPropagation":"HostToContainer")"), std::string::npos);
  EXPECT_TRUE(files["spec"]["hostPID"].is_null());
  EXPECT_FALSE(files["spec"]["securityContext"]["runAsNonRoot"].boolean());
  EXPECT_TRUE(has_argument(signals, "--set=proc=/proc"));
  EXPECT_TRUE(signals["spec"]["hostPID"].boolean());
  const Json& added = signals.path("spec.containers").items().at(0)["securityContext"]["capabilities"]["add"];
  ASSERT_EQ(added.size(), 1u);
  EXPECT_EQ(added.at(0).string(), "KILL");
}

TEST_F(ChartValues, KindsOfCapacityAreInstalledOnRequest) {
  const auto plain = kinds({}), more = kinds({"crds.readSide={capacity}"});
  for (const char* kind : {"nodeoverlays.karpenter.sh", "capacitybuffers.autoscaling.x-k8s.io",
                           "provisioningrequests.autoscaling.x-k8s.io"}) {
    EXPECT_FALSE(plain.contains(kind)) << kind;
    EXPECT_TRUE(more.contains(kind)) << kind;
  }
}

// Services and controllers are read only where pods are spread by default with DoNotSchedule, and the planned nodes of
// pods are written only where no placement binds them.
TEST_F(ChartValues, TheAutoscalerHasRightsOnlyForWhatItObserves) {
  const auto role = [&](const std::vector<std::string>& values) {
    for (const Json& document : rendered(values)) {
      if (document["kind"].string() == "ClusterRole" && kube::name_of(document).ends_with("-autoscaler"))
        return document.dump();
    }
    return std::string();
  };
  const auto has = [](const std::string& text, const char* word) { return text.find(word) != std::string::npos; };
  const std::string observe = "services.autoscaler.settings.observe=cluster";
  EXPECT_FALSE(has(role({}), "pods/status"));
  const auto observed = role({observe});
  EXPECT_TRUE(has(observed, "pods/status"));
  EXPECT_FALSE(has(observed, "replicationcontrollers"));
  EXPECT_TRUE(
      has(role({observe, "services.autoscaler.settings.default-spread=topology.kubernetes.io/zone:1:DoNotSchedule"}),
          "replicationcontrollers"));
}

}  // namespace chart_values_k8s_test
}  // namespace qm::deploy
