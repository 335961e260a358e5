// Spread, affinity between pods, host ports and requests, case by case with their pitfalls, as
// documented by Kubernetes and kube-scheduler.
#include "qm/kube_rules/rule_book.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::kube_rules {
namespace rule_book_test {

using Op = LabelRequirement::Op;

LabelSelector app(const std::string& name) { return {{{"app", Op::kIn, {name}}}}; }
PodTerm near(const std::string& name, const std::string& key) { return {key, app(name), {}, {}}; }
PodTemplate pod(Labels labels = {}, const std::string& ns = "default") {
  return {Namespace(ns), std::move(labels), {}};
}
Spread even(const std::string& name, std::int64_t skew, const std::string& key = "zone") {
  Spread out;
  out.topology_key = key;
  out.max_skew = skew;
  out.pods = app(name);
  return out;
}

/// Nodes a1 and a2 in zone a, b1 in b, c1 in c, and x1 in no zone; each has its own host label.
class RuleBookCases : public ::testing::Test {
 protected:
  RuleBookCases() {
    for (const char* name : {"a1", "a2", "b1", "c1"}) node(name, {{"zone", std::string(name, 1)}, {"host", name}});
    node("x1", {{"host", "x1"}});
  }
  void node(const std::string& name, Labels labels, std::vector<Taint> taints = {}) {
    book.put_node({NodeName(name), std::move(labels), std::move(taints), false, {{"pods", 10}, {"cpu", 4000}}});
  }
  /// Runs one more pod on the node; returns its name.
  std::string run(const std::string& on, const PodTemplate& like, bool terminating = false) {
    const auto uid = fmt::format("pod-{}", ++pods_);
    const TemplateId id = book.hold(like);
    book.put_pod({uid, NodeName(on), id, terminating});
    book.release(id);
    return uid;
  }
  /// "a1 b1": the nodes that fit the pod, sorted by name.
  std::string takes(const PodTemplate& like) {
    const TemplateId id = book.hold(like);
    std::map<std::string, int> found;
    book.feasible(id).each([&](NodeIndex n) { ++found[book.name_of(n).value()]; });
    book.release(id);
    std::string out;
    for (const auto& [name, times] : found) out += (out.empty() ? "" : " ") + name;
    return out;
  }
  std::string why(const std::string& on, const PodTemplate& like) {
    const TemplateId id = book.hold(like);
    const auto rejection = book.why_not(id, book.index_of(NodeName(on)).value());
    book.release(id);
    return rejection ? fmt::format("{}: {}", rejection->rule, rejection->words) : "";
  }
  /// "a1=20 b1=5": the score of every node by the soft rules.
  std::string worth(const PodTemplate& like) {
    const TemplateId id = book.hold(like);
    std::map<std::string, std::int64_t> found;
    for (const auto& p : book.preferences(id, book.nodes())) found[book.name_of(p.node).value()] = p.score;
    book.release(id);
    std::string out;
    for (const auto& [name, score] : found) out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, score);
    return out;
  }

  RuleBook book;
  int pods_ = 0;
};

// ---- anti-affinity ----

TEST_F(RuleBookCases, AntiAffinityExcludesTheWholeDomain) {
  auto web = pod({{"app", "web"}});
  web.rules.anti_affinity = {near("web", "zone")};
  EXPECT_EQ(takes(web), "a1 a2 b1 c1 x1");
  const auto first = run("a1", web);
  EXPECT_EQ(takes(web), "b1 c1 x1");
  EXPECT_EQ(why("a2", web), "pod anti-affinity: whose zone has a pod that matches its anti-affinity");
  run("x1", web);
  EXPECT_EQ(takes(web), "b1 c1 x1") << "a node without the label is in no domain";
  book.drop_pod(first);
  EXPECT_EQ(takes(web), "a1 a2 b1 c1 x1");
}

TEST_F(RuleBookCases, AntiAffinityIsSymmetric) {
  auto lonely = pod({{"app", "lonely"}});
  lonely.rules.anti_affinity = {near("web", "host")};
  run("a1", lonely);
  const auto web = pod({{"app", "web"}});
  EXPECT_EQ(takes(web), "a2 b1 c1 x1") << "the running pod repels the other";
  EXPECT_EQ(why("a1", web), "anti-affinity of others: whose host has a pod with anti-affinity to it");
  EXPECT_EQ(takes(pod({{"app", "other"}})), "a1 a2 b1 c1 x1");
  EXPECT_EQ(takes(pod({{"app", "web"}}, "elsewhere")), "a1 a2 b1 c1 x1") << "its own namespace is meant";
}

TEST_F(RuleBookCases, TerminatingPodsStillRepel) {
  auto web = pod({{"app", "web"}});
  web.rules.anti_affinity = {near("web", "host")};
  run("a1", web, true);
  EXPECT_EQ(takes(web), "a2 b1 c1 x1");
}

TEST_F(RuleBookCases, AnyTermOfAntiAffinityExcludes) {
  run("a1", pod({{"app", "web"}}));
  run("b1", pod({{"app", "db"}}));
  auto both = pod();
  both.rules.anti_affinity = {near("web", "host"), near("db", "zone")};
  EXPECT_EQ(takes(both), "a2 c1 x1");
}

// ---- affinity ----

TEST_F(RuleBookCases, AffinityRequiresAPodInTheDomain) {
  auto client = pod({{"app", "client"}});
  client.rules.affinity = {near("db", "zone")};
  EXPECT_EQ(takes(client), "") << "no pod matches its affinity, and neither does it";
  run("a1", pod({{"app", "db"}}));
  EXPECT_EQ(takes(client), "a1 a2");
  EXPECT_EQ(why("b1", client), "pod affinity: whose zone has no pod that matches its affinity");
  EXPECT_EQ(why("x1", client), "pod affinity: without label zone of the pod affinity");
}

TEST_F(RuleBookCases, FirstPodOfAGroupNeedsTheLabelOnly) {
  auto db = pod({{"app", "db"}});
  db.rules.affinity = {near("db", "zone")};
  EXPECT_EQ(takes(db), "a1 a2 b1 c1");
  run("x1", db);
  EXPECT_EQ(takes(db), "a1 a2 b1 c1") << "the one that runs is in no zone, so there is none";
  run("b1", db);
  EXPECT_EQ(takes(db), "b1");
}

TEST_F(RuleBookCases, FirstPodOfAGroupMustMatchEveryTerm) {
  auto db = pod({{"app", "db"}});
  db.rules.affinity = {near("db", "zone"), {"host", LabelSelector{{{"tier", Op::kExists, {}}}}, {}, {}}};
  EXPECT_EQ(takes(db), "");
  db.labels["tier"] = "1";
  EXPECT_EQ(takes(db), "a1 a2 b1 c1");
}

TEST_F(RuleBookCases, OnePodMustMatchAllTermsOfAffinity) {
  auto client = pod();
  client.rules.affinity = {near("db", "zone"), {"zone", LabelSelector{{{"tier", Op::kIn, {"gold"}}}}, {}, {}}};
  run("a1", pod({{"app", "db"}}));
  run("a2", pod({{"tier", "gold"}}));
  EXPECT_EQ(takes(client), "") << "two pods that match a term each do not make one";
  run("b1", pod({{"app", "db"}, {"tier", "gold"}}));
  EXPECT_EQ(takes(client), "b1");
}

TEST_F(RuleBookCases, MissingSelectorIsNotTheEmptyOne) {
  run("a1", pod({{"app", "db"}}));
  auto client = pod();
  client.rules.affinity = {{"zone", LabelSelector{}, {}, {}}};
  EXPECT_EQ(takes(client), "a1 a2") << "the empty selector takes every pod";
  client.rules.affinity = {{"zone", std::nullopt, {}, {}}};
  EXPECT_EQ(takes(client), "") << "none takes no pod";
  auto apart = pod();
  apart.rules.anti_affinity = {{"zone", std::nullopt, {}, {}}};
  EXPECT_EQ(takes(apart), "a1 a2 b1 c1 x1");
}

// ---- namespaces ----

TEST_F(RuleBookCases, NamespacesByNameAndBySelector) {
  book.put_namespace(Namespace("prod"), {{"team", "a"}});
  book.put_namespace(Namespace("test"), {{"team", "b"}});
  run("a1", pod({{"app", "db"}}, "prod"));
  run("b1", pod({{"app", "db"}}, "test"));
  run("c1", pod({{"app", "db"}}));
  const auto with = [&](std::vector<std::string> names, std::optional<LabelSelector> selector) {
    auto out = pod();
    out.rules.affinity = {{"host", app("db"), std::move(names), std::move(selector)}};
    return takes(out);
  };
  const LabelSelector team_a{{{"team", Op::kIn, {"a"}}}};
  EXPECT_EQ(with({}, {}), "c1") << "neither: its own namespace";
  EXPECT_EQ(with({"prod"}, {}), "a1");
  EXPECT_EQ(with({"prod", "default"}, {}), "a1 c1");
  EXPECT_EQ(with({}, team_a), "a1") << "with a selector its own namespace is not meant any more";
  EXPECT_EQ(with({"test"}, team_a), "a1 b1") << "both add up";
  EXPECT_EQ(with({}, LabelSelector{}), "a1 b1 c1") << "an empty selector means all namespaces";
  EXPECT_EQ(with({}, LabelSelector{{{"team", Op::kNotIn, {"a"}}}}), "b1 c1") << "no label is not a";
  book.put_namespace(Namespace("test"), {{"team", "a"}});
  EXPECT_EQ(with({}, team_a), "a1 b1") << "labels of namespaces change";
  book.drop_namespace(Namespace("prod"));
  EXPECT_EQ(with({}, team_a), "b1");
}

TEST_F(RuleBookCases, AntiAffinityOfOthersCrossesNamespaces) {
  auto guard = pod({}, "prod");
  guard.rules.anti_affinity = {{"zone", LabelSelector{}, {}, LabelSelector{}}};
  run("a1", guard);
  EXPECT_EQ(takes(pod()), "b1 c1 x1");
}

// ---- spread ----

TEST_F(RuleBookCases, SpreadKeepsDomainsWithinTheSkew) {
  auto web = pod({{"app", "web"}});
  web.rules.spread = {even("web", 1)};
  EXPECT_EQ(takes(web), "a1 a2 b1 c1") << "a node without the label is out";
  EXPECT_EQ(why("x1", web), "spread: without label zone of the topology spread");
  run("a1", web);
  EXPECT_EQ(takes(web), "b1 c1");
  EXPECT_EQ(why("a2", web), "spread: whose zone would exceed a maxSkew of 1");
  web.rules.spread = {even("web", 2)};
  EXPECT_EQ(takes(web), "a1 a2 b1 c1");
  run("b1", web);
  run("c1", web);
  web.rules.spread = {even("web", 1)};
  EXPECT_EQ(takes(web), "a1 a2 b1 c1") << "one everywhere";
}

TEST_F(RuleBookCases, SpreadIgnoresTerminatingPodsAndOtherNamespaces) {
  auto web = pod({{"app", "web"}});
  web.rules.spread = {even("web", 1)};
  run("a1", web, true);
  run("a1", pod({{"app", "web"}}, "elsewhere"));
  EXPECT_EQ(takes(web), "a1 a2 b1 c1");
}

TEST_F(RuleBookCases, SpreadWithSelectorThatExcludesThePod) {
  auto other = pod({{"app", "other"}});
  other.rules.spread = {even("web", 1)};
  run("a1", pod({{"app", "web"}}));
  EXPECT_EQ(takes(other), "a1 a2 b1 c1") << "one more than the least is within a skew of one";
  run("a1", pod({{"app", "web"}}));
  EXPECT_EQ(takes(other), "b1 c1");
}

TEST_F(RuleBookCases, MinDomainsCountsAsAnEmptyDomain) {
  auto web = pod({{"app", "web"}});
  web.rules.spread = {even("web", 1)};
  for (const char* on : {"a1", "b1", "c1"}) run(on, web);
  EXPECT_EQ(takes(web), "a1 a2 b1 c1");
  web.rules.spread[0].min_domains = 3;
  EXPECT_EQ(takes(web), "a1 a2 b1 c1") << "there are three";
  web.rules.spread[0].min_domains = 4;
  EXPECT_EQ(takes(web), "") << "the least is zero then, and each has one";
}

TEST_F(RuleBookCases, EmptySelectorOfSpreadCountsNoPods) {
  auto web = pod({{"app", "web"}});
  web.rules.spread = {even("web", 1)};
  web.rules.spread[0].pods = LabelSelector{};
  run("a1", web);
  run("a1", web);
  EXPECT_EQ(takes(web), "a1 a2 b1 c1");
  web.rules.spread[0].pods.reset();
  EXPECT_EQ(takes(web), "a1 a2 b1 c1");
}

TEST_F(RuleBookCases, SpreadHonorsOrIgnoresUnusableNodes) {
  for (const char* on : {"a1", "b1"}) run(on, pod({{"app", "web"}}));
  auto web = pod({{"app", "web"}});
  web.rules.node_selector = {{"zone", "a"}};
  web.rules.spread = {even("web", 1)};
  EXPECT_EQ(takes(web), "a1 a2") << "zone c is out of its reach: the least is one";
  web.rules.spread[0].honor_affinity = false;
  EXPECT_EQ(takes(web), "") << "zone c counts: the least is zero";

  web.rules.node_selector.clear();
  node("c1", {{"zone", "c"}, {"host", "c1"}}, {{"dedicated", "", "NoSchedule"}});
  EXPECT_EQ(takes(web), "") << "the tainted node counts, and cannot be used";
  web.rules.spread[0].honor_taints = true;
  EXPECT_EQ(takes(web), "a1 a2 b1") << "it does not count";
  web.rules.tolerations = {{"dedicated", "Exists", "", ""}};
  EXPECT_EQ(takes(web), "c1");
}

TEST_F(RuleBookCases, OnlyNodesWithEveryLabelCount) {
  node("a1", {{"zone", "a"}});
  run("b1", pod({{"app", "web"}}));
  run("a1", pod({{"app", "web"}}));
  run("a1", pod({{"app", "web"}}));
  auto web = pod({{"app", "web"}});
  web.rules.spread = {even("web", 1), even("web", 5, "host")};
  EXPECT_EQ(takes(web), "a2 c1") << "a1 has no host, so its two do not count for zone a, which a2 is in";
}

// Training avoids nodes with inference, and spreads over zones.
TEST_F(RuleBookCases, SpreadAndAntiAffinityTogether) {
  auto training = pod({{"app", "training"}});
  training.rules.anti_affinity = {near("inference", "host")};
  training.rules.spread = {even("training", 1)};
  run("a1", pod({{"app", "inference"}}));
  run("b1", training);
  EXPECT_EQ(takes(training), "a2 c1");
}

// ---- host ports ----

TEST_F(RuleBookCases, HostPortsConflictByNumberProtocolAndAddress) {
  struct Case {
    const char* what;
    HostPort there, asked;
    bool free;
  };
  const std::vector<Case> cases = {
      {"the same", {80, "TCP", "0.0.0.0"}, {80, "TCP", "0.0.0.0"}, false},
      {"another number", {80, "TCP", "0.0.0.0"}, {81, "TCP", "0.0.0.0"}, true},
      {"another protocol", {80, "TCP", "0.0.0.0"}, {80, "UDP", "0.0.0.0"}, true},
      {"two addresses", {80, "TCP", "10.0.0.1"}, {80, "TCP", "10.0.0.2"}, true},
      {"one address", {80, "TCP", "10.0.0.1"}, {80, "TCP", "10.0.0.1"}, false},
      {"every address is there", {80, "TCP", "0.0.0.0"}, {80, "TCP", "10.0.0.1"}, false},
      {"every address is asked", {80, "TCP", "10.0.0.1"}, {80, "TCP", "0.0.0.0"}, false},
  };
  for (const auto& c : cases) {
    auto there = pod(), asked = pod();
    there.rules.ports = {c.there};
    asked.rules.ports = {c.asked};
    const auto uid = run("a1", there);
    EXPECT_EQ(takes(asked), c.free ? "a1 a2 b1 c1 x1" : "a2 b1 c1 x1") << c.what;
    if (!c.free) {
      EXPECT_EQ(why("a1", asked), fmt::format("host ports: where host port {}:80/TCP is in use", c.asked.ip));
    }
    book.drop_pod(uid);
    EXPECT_EQ(takes(asked), "a1 a2 b1 c1 x1") << c.what;
  }
}

// ---- requests ----

TEST_F(RuleBookCases, RequestsAndPodLimit) {
  book.put_node({NodeName("g1"), {{"gpu", "yes"}}, {}, false, {{"pods", 2}, {"cpu", 4000}, {"nvidia.com/gpu", 8}}});
  auto training = pod();
  training.rules.requests = {{"cpu", 1000}, {"nvidia.com/gpu", 4}};
  EXPECT_EQ(takes(training), "g1");
  EXPECT_EQ(why("a1", training), "requests: lack nvidia.com/gpu");
  const auto first = run("g1", training);
  EXPECT_EQ(takes(training), "g1") << "exactly what is left";
  run("g1", pod());
  EXPECT_EQ(takes(training), "");
  EXPECT_EQ(why("g1", training), "requests: are at their pod limit");
  book.drop_pod(first);
  training.rules.requests = {{"cpu", 4001}};
  EXPECT_EQ(why("g1", training), "requests: lack CPU");
  training.rules.requests = {{"example.com/none", 0}};
  EXPECT_EQ(why("g1", training), "") << "a request of zero is not a request";
}

TEST_F(RuleBookCases, ShrunkNodeFitsNothing) {
  auto big = pod();
  big.rules.requests = {{"cpu", 4000}};
  run("a1", big);
  book.put_node({NodeName("a1"), {}, {}, false, {{"pods", 10}, {"cpu", 1000}}});
  auto small = pod();
  small.rules.requests = {{"cpu", 1}};
  EXPECT_EQ(why("a1", small), "requests: lack CPU");
  EXPECT_EQ(why("a1", pod()), "") << "a pod without requests fits";
}

// ---- changes ----

TEST_F(RuleBookCases, PodsMayArriveBeforeTheirNode) {
  auto web = pod({{"app", "web"}});
  web.rules.anti_affinity = {near("web", "zone")};
  run("later", web);
  EXPECT_EQ(takes(web), "a1 a2 b1 c1 x1");
  node("later", {{"zone", "a"}});
  EXPECT_EQ(takes(web), "b1 c1 x1");
  node("later", {{"zone", "b"}});
  EXPECT_EQ(takes(web), "a1 a2 c1 x1") << "the node moved, and its pod with it";
  book.drop_node(NodeName("later"));
  EXPECT_EQ(takes(web), "a1 a2 b1 c1 x1");
}

TEST_F(RuleBookCases, ReasonsAreCountedPerNode) {
  auto web = pod({{"app", "web"}});
  web.rules.node_selector = {{"zone", "a"}};
  web.rules.requests = {{"cpu", 3000}};
  run("a2", web);
  const TemplateId id = book.hold(web);
  EXPECT_EQ(book.explain(id), (std::map<std::string, std::int64_t>{{"without label zone=a", 3}, {"lack CPU", 1}}));
  book.release(id);
}

// ---- preferences ----

TEST_F(RuleBookCases, NoPreferencesScoreEqually) { EXPECT_EQ(worth(pod()), "a1=300 a2=300 b1=300 c1=300 x1=300"); }

TEST_F(RuleBookCases, PreferredNodeAffinityAndSoftTaints) {
  node("b1", {{"zone", "b"}, {"host", "b1"}}, {{"busy", "", "PreferNoSchedule"}});
  auto web = pod();
  web.rules.preferred = {{10, {{{"zone", Requirement::Op::kIn, {"a"}}}, {}}},
                         {5, {{{"zone", Requirement::Op::kExists, {}}}, {}}}};
  EXPECT_EQ(worth(web), "a1=500 a2=500 b1=66 c1=366 x1=300");
}

TEST_F(RuleBookCases, PreferredPodAffinityIsSymmetric) {
  run("a1", pod({{"app", "db"}}));
  auto client = pod({{"app", "client"}});
  client.rules.preferred_affinity = {{10, near("db", "zone")}};
  EXPECT_EQ(worth(client), "a1=500 a2=500 b1=300 c1=300 x1=300");
  client.rules.preferred_affinity.clear();
  client.rules.preferred_anti_affinity = {{10, near("db", "host")}};
  EXPECT_EQ(worth(client), "a1=300 a2=500 b1=500 c1=500 x1=500");
  // Running pods attract as well: here ten for a preferred affinity, and one for a required one.
  auto magnet = pod();
  magnet.rules.preferred_affinity = {{10, near("web", "host")}};
  run("b1", magnet);
  auto needy = pod();
  needy.rules.affinity = {near("web", "host")};
  run("c1", needy);
  EXPECT_EQ(worth(pod({{"app", "web"}})), "a1=300 a2=300 b1=500 c1=320 x1=300");
}

TEST_F(RuleBookCases, ScheduleAnywayPrefersEmptyDomains) {
  auto web = pod({{"app", "web"}});
  web.rules.spread = {even("web", 1)};
  web.rules.spread[0].required = false;
  EXPECT_EQ(takes(web), "a1 a2 b1 c1 x1") << "it excludes no node";
  run("a1", web);
  run("a1", web);
  run("b1", web);
  // ln(3 + 2) = 1.609: a has 2 x 1.609 = 3, b has 2, c has 0 after rounding; 100 x (3 + 0 - v) / 3.
  EXPECT_EQ(worth(web), "a1=300 a2=300 b1=366 c1=500 x1=300") << "a node without the label is worth nothing";
}

}  // namespace rule_book_test
}  // namespace qm::kube_rules
