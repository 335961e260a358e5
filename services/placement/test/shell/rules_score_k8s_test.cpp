// The soft rules compared with the kube-scheduler of a real control plane: of the nodes that fit a
// pod it chooses one with the highest score of the preferences. Nodes are so large and pods so
// small that the utilization of a node does not change its score.
#include "test/shell/rules_cluster.hpp"

namespace qm::placement::testing {
namespace rules_score_k8s_test {

constexpr int kClusters = 40, kProbes = 8;
/// The scheduler computes scores with fractions, the rules with integers: one point for each of the
/// two that are divided, twice.
constexpr std::int64_t kRounding = 4;

/// Terms with weights, of nodes or of pods.
template <class Fn>
Json weighted(Random& dice, const char* field, Fn&& term) {
  Json out = Json::array();
  for (int i = 1 + dice.roll(2); i > 0; --i) {
    out.push_back(Json::object({{"weight", 1 + dice.roll(100)}, {field, term()}}));
  }
  return just("preferredDuringSchedulingIgnoredDuringExecution", std::move(out));
}

/// A pod with soft rules; a running one may have required affinity, too, which attracts others.
Json soft_pod(Random& dice, const std::string& name, bool runs) {
  Json pod = dice.pod(name);
  Json affinity = Json::object();
  if (dice.one_in(2)) affinity.set("nodeAffinity", weighted(dice, "preference", [&] { return dice.node_term(); }));
  const auto term = [&] { return dice.pod_term(); };
  if (dice.one_in(2)) affinity.set("podAffinity", weighted(dice, "podAffinityTerm", term));
  if (dice.one_in(2)) affinity.set("podAntiAffinity", weighted(dice, "podAffinityTerm", term));
  if (runs && dice.one_in(3)) affinity.set("podAffinity", dice.pod_terms());
  Json spread = Json::array();
  if (dice.one_in(2)) spread = dice.spread();
  for (Json& one : spread.items_mut()) {
    one.set("whenUnsatisfiable", "ScheduleAnyway");
    one.erase("minDomains");
  }
  Json& spec = pod.set("spec");
  for (const char* hard : {"initContainers", "nodeSelector", "volumes", "affinity", "topologySpreadConstraints"}) {
    spec.erase(hard);
  }
  spec.set("containers", list({Json::object({{"name", "main"}, {"image", "none"}})}));
  if (affinity.size() > 0) spec.set("affinity", std::move(affinity));
  if (spread.size() > 0) spec.set("topologySpreadConstraints", std::move(spread));
  return pod;
}

TEST_F(RealScheduler, MatchesPreferences) {
  int probes = 0, decisive = 0;
  for (int cluster = 0; cluster < kClusters && !HasFailure(); ++cluster) {
    SCOPED_TRACE(fmt::format("cluster {}", cluster));
    Random dice(static_cast<std::uint64_t>(1000 + cluster));
    const auto mark = fmt::format("s{}", cluster);
    std::vector<std::string> nodes;
    for (int i = 3 + dice.roll(4); i > 0; --i) {
      nodes.push_back(fmt::format("rules-{}-n{}", mark, i));
      Json node = dice.node(nodes.back(), mark);
      const auto capacity = Json::object({{"cpu", "1000000"}, {"memory", "1000Ti"}, {"pods", "1000"}});
      node.set("status").set("capacity", capacity).set("allocatable", capacity);
      make(kNodes, "", node);
      Json taints = Json::array();
      if (dice.one_in(2))
        taints.push_back(Json::object({{"key", dice.any({"t", "u"})}, {"effect", "PreferNoSchedule"}}));
      ASSERT_TRUE(api_->merge_patch(kNodes, "", nodes.back(), just("spec", just("taints", std::move(taints)))));
    }
    for (int i = 3 + dice.roll(8); i > 0; --i) {
      Json pod = soft_pod(dice, fmt::format("{}-p{}", mark, i), true);
      pod.set("spec").set("nodeName", dice.any(nodes));
      const auto made = make(kPods, kube::namespace_of(pod), pod);
      const bool going = dice.one_in(5);
      EXPECT_TRUE(!going || api_->remove(kPods, kube::namespace_of(made), kube::name_of(made), {}));
    }
    wait_for(fmt::format("rules-{}-last", mark));

    kube_rules::RuleBook book;
    read(book);
    for (int i = 0; i < kProbes && !HasFailure(); ++i) {
      Json pod = soft_pod(dice, fmt::format("{}-probe{}", mark, i), false);
      pod.set("spec").set("nodeSelector", just(kCluster, mark));
      const Json made = make(kPods, kube::namespace_of(pod), pod);
      const auto like = kube_objects::template_from_pod(made);
      ASSERT_TRUE(like) << like.error().to_string();
      const auto id = book.hold(*like);
      const auto scores = book.preferences(id, book.feasible(id));
      ASSERT_FALSE(scores.empty());
      const auto best = std::ranges::max_element(scores, {}, &kube_rules::Preference::score)->score;
      const auto [chosen, update] = outcome(made);
      std::string words;
      std::int64_t of_chosen = -1;
      for (const auto& [node, score] : scores) {
        words += fmt::format("{}: {}\n", book.name_of(node), score);
        if (book.name_of(node).value() == chosen) of_chosen = score;
      }
      EXPECT_GE(of_chosen, best - kRounding) << "the scheduler chose " << chosen << update << "\n"
                                             << words << pod.dump();
      ++probes;
      decisive += std::ranges::any_of(scores, [&](const auto& s) { return s.score < best - kRounding; }) ? 1 : 0;
      if (!chosen.empty()) book.put_pod({kube::uid_of(made), NodeName(chosen), id});
      book.release(id);
    }
    clear();
  }
  fmt::print("{} pods, for {} of which it makes a difference\n", probes, decisive);
  EXPECT_GT(decisive, kClusters * kProbes / 2);
}

}  // namespace rules_score_k8s_test
}  // namespace qm::placement::testing
