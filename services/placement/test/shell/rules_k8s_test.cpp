// The rules compared with the kube-scheduler of a real control plane: on random small clusters it
// places a pod if and only if the rules find a node that fits it, and on one of those nodes.
#include "test/shell/rules_cluster.hpp"

namespace qm::placement::testing {
namespace rules_k8s_test {

// Running pods stay until the next cluster: the scheduler might receive the deletion of a pod later
// than the creation of the next one.
constexpr int kClusters = 200, kProbes = 6;

/// If a pod's own term selects namespaces so that one without labels would match, kube-scheduler
/// 1.36 applies it to all namespaces: it resolves the namespaces, and then evaluates the selector
/// again without labels. Quartermaster follows the API documentation.
TEST_F(RealScheduler, TreatsNegativeNamespaceSelectorsAsAll) {
  Random dice(0);
  Json node = dice.node("rules-n1", "c0");
  node.set("metadata").set("labels", Json::object({{kCluster, "c0"}, {kHost, "rules-n1"}}));
  make(kNodes, "", node);
  ASSERT_TRUE(api_->merge_patch(kNodes, "", "rules-n1", just("spec", just("taints", Json::array()))));
  const auto pod = [&](const std::string& name, const std::string& ns) {
    const auto container = Json::object({{"name", "main"}, {"image", "none"}});
    return Json::object({{"apiVersion", "v1"},
                         {"kind", "Pod"},
                         {"metadata", Json::object({{"name", name}, {"namespace", ns}, {"labels", just("app", "a")}})},
                         {"spec", Json::object({{"containers", list({container})}})}});
  };
  Json running = pod("running", "rules-y"), probe = pod("probe", "rules-z");
  running.set("spec").set("nodeName", "rules-n1");
  make(kPods, "rules-y", running);
  const auto no_team = just("matchExpressions", list({Json::object({{"key", "team"}, {"operator", "DoesNotExist"}})}));
  const auto term =
      Json::object({{"topologyKey", kHost}, {"labelSelector", Json::object()}, {"namespaceSelector", no_team}});
  probe.set("spec").set("nodeSelector", just(kCluster, "c0"));
  probe.set("spec").set("affinity",
                        just("podAntiAffinity", just("requiredDuringSchedulingIgnoredDuringExecution", list({term}))));
  wait_for("rules-last");
  const Json made = make(kPods, "rules-z", probe);
  EXPECT_EQ(outcome(made).node, "") << "it is fixed upstream: remove the restriction on namespace selectors below";

  kube_rules::RuleBook book;
  read(book);
  const auto like = kube_objects::template_from_pod(made);
  ASSERT_TRUE(like) << like.error().to_string();
  EXPECT_EQ(book.feasible(book.hold(*like)).size(), 1U) << "the pod that runs is of a team";
  clear();
}

TEST_F(RealScheduler, MatchesFeasibleNodes) {
  int placed = 0, refused = 0;
  std::map<std::string_view, int> reasons;
  for (int cluster = 0; cluster < kClusters && !HasFailure(); ++cluster) {
    SCOPED_TRACE(fmt::format("cluster {}", cluster));
    Random dice(static_cast<std::uint64_t>(cluster));
    const auto mark = fmt::format("c{}", cluster);
    std::vector<std::string> nodes;
    for (int i = 2 + dice.roll(5); i > 0; --i) {
      nodes.push_back(fmt::format("rules-{}-n{}", mark, i));
      make_node(dice, nodes.back(), mark);
    }
    for (int i = dice.roll(9); i > 0; --i) make_running(dice, fmt::format("{}-p{}", mark, i), dice.any(nodes));
    wait_for(fmt::format("rules-{}-last", mark));

    kube_rules::RuleBook book;
    read(book);
    for (int i = 0; i < kProbes && !HasFailure(); ++i) {
      Json pod = dice.pod(fmt::format("{}-probe{}", mark, i));
      pod.set("spec").set("nodeSelector").set(kCluster, mark);
      if (dice.one_in(3)) pin(pod, dice.any(nodes));
      const Json made = make(kPods, kube::namespace_of(pod), pod);
      auto like = kube_objects::template_from_pod(made);
      ASSERT_TRUE(like) << like.error().to_string();
      add_volumes(made, like->rules);
      const auto id = book.hold(*like);
      const auto feasible = book.feasible(id);
      const auto [chosen, update] = outcome(made);
      std::string words;
      for (const auto& name : nodes) {
        const auto index = book.index_of(NodeName(name));
        ASSERT_TRUE(index) << name;
        const auto why = book.why_not(id, *index);
        words += fmt::format("{}: {}\n", name, why ? why->words : "takes it");
        if (why) ++reasons[why->rule];
      }
      if (chosen.empty()) {
        ++refused;
        EXPECT_TRUE(feasible.empty()) << update << "\n" << words << pod.dump();
      } else {
        ++placed;
        const auto index = book.index_of(NodeName(chosen));
        EXPECT_TRUE(index && feasible.contains(*index)) << "the scheduler chose " << chosen << "\n"
                                                        << words << pod.dump();
      }
      if (chosen.empty()) {
        end(made);
      } else {
        book.put_pod({kube::uid_of(made), NodeName(chosen), id});
      }
      book.release(id);
    }
    clear();
  }
  std::string spoken;
  for (const auto& [rule, times] : reasons) spoken += fmt::format(", {} {}", rule, times);
  fmt::print("{} pods placed, {} refused; nodes refused by{}\n", placed, refused,
             spoken.substr(std::min<std::size_t>(1, spoken.size())));
  EXPECT_GT(placed, kClusters * kProbes / 5);
  EXPECT_GT(refused, kClusters * kProbes / 5);
  for (const auto rule : kube_rules::rule_names()) EXPECT_GT(reasons[rule], 0) << rule << " has refused no node";
}

}  // namespace rules_k8s_test
}  // namespace qm::placement::testing
