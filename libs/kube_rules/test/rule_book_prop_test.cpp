// The incrementally updated book gives the same results as a full evaluation and as a newly built
// book, and it keeps nothing without a holder.
#include "qm/kube_rules/text.hpp"
#include "test/world.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <random>

namespace qm::kube_rules::testing {
namespace rule_book_prop_test {

class Random {
 public:
  explicit Random(std::uint64_t seed) : random_(seed) {}
  int roll(int sides) { return std::uniform_int_distribution(0, sides - 1)(random_); }
  bool one_in(int n) { return roll(n) == 0; }
  std::string any(std::initializer_list<const char*> words) {
    return words.begin()[roll(static_cast<int>(words.size()))];
  }

  std::string key() { return any({"zone", "host", "rack"}); }
  std::string space() { return any({"x", "y", "z"}); }
  Labels labels() {
    Labels out;
    for (const char* name : {"app", "tier"}) {
      if (!one_in(3)) out[name] = any({"a", "b"});
    }
    return out;
  }
  Requirement requirement() {
    using Op = Requirement::Op;
    Requirement out{any({"zone", "rack", "size"}), static_cast<Op>(roll(6)), {}};
    if (out.op == Op::kIn || out.op == Op::kNotIn) out.values = {any({"1", "2", "3"}), any({"1", "2"})};
    if (out.op == Op::kGt || out.op == Op::kLt) out.values = {any({"1", "2", "3"})};
    return out;
  }
  SelectorTerm term() {
    SelectorTerm out;
    for (int i = roll(3); i > 0; --i) out.labels.push_back(requirement());
    if (one_in(6)) out.fields.push_back({"metadata.name", Requirement::Op::kNotIn, {any({"n1", "n2"})}});
    return out;
  }
  LabelSelector selector(std::initializer_list<const char*> keys) {
    using Op = LabelRequirement::Op;
    LabelSelector out;
    for (int i = roll(3); i > 0; --i) {
      LabelRequirement r{any(keys), static_cast<Op>(roll(4)), {}};
      if (r.op == Op::kIn || r.op == Op::kNotIn) r.values = {any({"a", "b"})};
      out.requirements.push_back(std::move(r));
    }
    return out;
  }
  PodTerm pod_term() {
    PodTerm out;
    out.topology_key = key();
    if (!one_in(8)) out.pods = selector({"app", "tier"});
    if (one_in(3)) out.namespaces = {space()};
    if (one_in(3)) out.namespace_selector = selector({"team"});
    return out;
  }
  PodTemplate pod() {
    PodTemplate out;
    out.ns = Namespace(space());
    out.labels = labels();
    PodRules& r = out.rules;
    if (one_in(5)) r.node_selector = {{"zone", any({"1", "2"})}};
    if (one_in(4)) r.required = NodeSelector{term(), term()};
    if (one_in(4)) r.preferred = {{1 + roll(5), term()}, {1 + roll(5), term()}};
    if (one_in(3)) r.tolerations = {{any({"t", "u"}), "Exists", "", any({"", "NoSchedule"})}};
    if (one_in(6)) r.volumes = {{"v", {term(), term()}}};
    for (int i = roll(5) - 2; i > 0; --i) {
      Spread spread{key(), 1 + roll(2), 1, !one_in(3), {}, !one_in(3), one_in(3)};
      if (spread.required) spread.min_domains = 1 + roll(3);
      if (!one_in(8)) spread.pods = selector({"app", "tier"});
      r.spread.push_back(std::move(spread));
    }
    for (int i = roll(5) - 2; i > 0; --i) r.affinity.push_back(pod_term());
    for (int i = roll(5) - 2; i > 0; --i) r.anti_affinity.push_back(pod_term());
    if (one_in(3)) r.preferred_affinity = {{1 + roll(9), pod_term()}};
    if (one_in(3)) r.preferred_anti_affinity = {{1 + roll(9), pod_term()}};
    if (one_in(4)) r.ports = {{1 + roll(2), any({"TCP", "UDP"}), any({"0.0.0.0", "10.0.0.1", "10.0.0.2"})}};
    if (one_in(2)) r.requests = {{"cpu", roll(3)}, {any({"gpu", "memory"}), 1 + roll(2)}};
    return out;
  }
  NodeView node() {
    NodeView out;
    out.name = NodeName(fmt::format("n{}", roll(7)));
    for (const char* name : {"zone", "rack", "size"}) {
      if (!one_in(5)) out.labels[name] = any({"1", "2", "3"});
    }
    if (!one_in(8)) out.labels["host"] = out.name.value();
    if (one_in(3)) out.taints = {{any({"t", "u"}), "", any({"NoSchedule", "NoExecute", "PreferNoSchedule"})}};
    out.unschedulable = one_in(8);
    out.allocatable = {{"pods", 1 + roll(6)}, {"cpu", roll(8)}, {"memory", roll(6)}, {"gpu", roll(4)}};
    return out;
  }

 private:
  std::mt19937_64 random_;
};

/// A book, and the lists of the objects that it received.
class Both {
 public:
  void step(Random& dice) {
    const auto uid = fmt::format("p{}", dice.roll(20));
    switch (dice.roll(12)) {
      case 0:
      case 1: {
        const auto node = dice.node();
        world.nodes[node.name] = node;
        book.put_node(node);
        break;
      }
      case 2: {
        const auto name = NodeName(fmt::format("n{}", dice.roll(7)));
        world.nodes.erase(name);
        book.drop_node(name);
        break;
      }
      case 3: {
        const auto ns = Namespace(dice.space());
        const Labels labels = dice.one_in(3) ? Labels() : Labels{{"team", dice.any({"a", "b"})}};
        if (dice.one_in(3)) {
          world.namespaces.erase(ns);
          book.drop_namespace(ns);
        } else {
          world.namespaces[ns] = labels;
          book.put_namespace(ns, labels);
        }
        break;
      }
      case 4:
      case 5:
        world.pods.erase(uid);
        book.drop_pod(uid);
        break;
      case 6:
        if (const auto pod = world.pods.find(uid); pod != world.pods.end()) {
          pod->second.terminating = true;
          put(book, uid, pod->second);
        }
        break;
      default: {
        World::Pod pod{dice.pod(), NodeName(fmt::format("n{}", dice.roll(7))), dice.one_in(5)};
        // Running pods need not obey any rule; and many pods are of one kind.
        if (dice.one_in(2) && !world.pods.empty()) pod.like = world.pods.begin()->second.like;
        world.pods[uid] = pod;
        put(book, uid, pod);
      }
    }
  }

  static void put(RuleBook& into, const std::string& uid, const World::Pod& pod) {
    const TemplateId like = into.hold(pod.like);
    into.put_pod({uid, pod.node, like, pod.terminating});
    into.release(like);
  }

  [[nodiscard]] RuleBook rebuilt() const {
    RuleBook out;
    for (const auto& [uid, pod] : world.pods) put(out, uid, pod);
    for (const auto& [ns, labels] : world.namespaces) out.put_namespace(ns, labels);
    for (auto node = world.nodes.rbegin(); node != world.nodes.rend(); ++node) out.put_node(node->second);
    return out;
  }

  World world;
  RuleBook book;
};

std::map<std::string, std::int64_t> preferences(const RuleBook& book, TemplateId id) {
  std::map<std::string, std::int64_t> out;
  for (const Preference& p : book.preferences(id, book.nodes())) out[book.name_of(p.node).value()] = p.score;
  return out;
}

TEST(RuleBook, MatchesFullScan) {
  std::size_t taken = 0, refused = 0, indifferent = 0, choosy = 0;
  std::map<std::string_view, int> reasons;
  bool held = true;
  const auto all_spoke = [&] {
    return std::ranges::all_of(rule_names(), [&](const auto rule) { return reasons[rule] > 0; });
  };
  for (int run = 0; held && (run < 4 || (run < 40 && !all_spoke())); ++run)  // often enough for the rarest rule
    held = rc::check([&] {
      // What is drawn is the same for every run.
      Random dice(*rc::gen::arbitrary<std::uint64_t>() + static_cast<std::uint64_t>(run) * 0x9E3779B97F4A7C15U);
      const int steps = *rc::gen::inRange(1, 60);
      Both both;
      for (int i = 0; i < steps; ++i) both.step(dice);
      for (int i = 0; i < 10; ++i) {
        const PodTemplate pod = dice.pod();
        const TemplateId id = both.book.hold(pod);
        const auto nodes = both.book.feasible(id);
        RC_ASSERT(names(both.book, nodes) == both.world.feasible(pod));
        taken += nodes.size();
        std::int64_t explained = 0;
        for (const auto& [words, count] : both.book.explain(id)) {
          RC_ASSERT(!words.empty());
          explained += count;
        }
        RC_ASSERT(static_cast<std::size_t>(explained) + nodes.size() == both.world.nodes.size());
        const auto words = both.book.why_not(id);
        both.book.nodes().each([&](NodeIndex node) {
          const auto why = both.book.why_not(id, node);
          RC_ASSERT(words[node] == (why ? why->words : std::string()));
          RC_ASSERT(why.has_value() != nodes.contains(node));
          if (!why) return;
          ++refused;
          ++reasons[why->rule];
        });
        // If the book reports all nodes as equal, their scores are equal.
        std::set<std::int64_t> worths;
        for (const Preference& p : both.book.preferences(id, nodes)) worths.insert(p.score);
        const bool same = both.book.indifferent(id);
        RC_ASSERT(!same || worths.size() < 2);
        same ? ++indifferent : ++choosy;
        both.book.release(id);
      }
    });
  EXPECT_TRUE(held);
  // The test is meaningful only if every rule has rejected a node.
  EXPECT_GT(taken, 0U);
  EXPECT_GT(indifferent, 0U);
  EXPECT_GT(choosy, 0U);
  for (const auto rule : rule_names()) EXPECT_GT(reasons[rule], 0) << rule << " of " << refused;
}

TEST(RuleBook, MatchesRebuild) {
  EXPECT_TRUE(rc::check([] {
    Random dice(*rc::gen::arbitrary<std::uint64_t>());
    const int steps = *rc::gen::inRange(1, 80);
    Both both;
    for (int i = 0; i < steps; ++i) both.step(dice);
    RuleBook fresh = both.rebuilt();
    RC_ASSERT(fresh.sizes() == both.book.sizes());
    for (int i = 0; i < 3; ++i) {
      const PodTemplate pod = dice.pod();
      const TemplateId a = both.book.hold(pod), b = fresh.hold(pod);
      RC_ASSERT(names(both.book, both.book.feasible(a)) == names(fresh, fresh.feasible(b)));
      RC_ASSERT(both.book.explain(a) == fresh.explain(b));
      RC_ASSERT(preferences(both.book, a) == preferences(fresh, b));
    }
  }));
}

TEST(RuleBook, ReleasesUnusedEntries) {
  EXPECT_TRUE(rc::check([] {
    Random dice(*rc::gen::arbitrary<std::uint64_t>());
    Both both;
    for (int i = 0; i < 50; ++i) both.step(dice);
    for (const auto& [uid, pod] : both.world.pods) both.book.drop_pod(uid);
    for (const auto& [name, node] : both.world.nodes) both.book.drop_node(name);
    RC_ASSERT(both.book.sizes() == RuleBook::Sizes());
    RC_ASSERT(both.book.nodes().empty());
  }));
}

TEST(RulesText, RoundTrips) {
  EXPECT_TRUE(rc::check([] {
    Random dice(*rc::gen::arbitrary<std::uint64_t>());
    PodTemplate pod = dice.pod();
    if (dice.roll(3) == 0) pod.rules.claims = {"data"};
    if (dice.roll(3) == 0) pod.rules.own_claims = {{"scratch", std::nullopt}, {"more", "fast"}};
    const std::string text = text_of(pod);
    RC_ASSERT(names_claims(text) == (!pod.rules.claims.empty() || !pod.rules.own_claims.empty()));
    RC_ASSERT(names_own_claims(text) == !pod.rules.own_claims.empty());
    const auto back = template_of(text);
    RC_ASSERT(back.has_value());
    RC_ASSERT(text_of(*back) == text);
    RuleBook book;
    RC_ASSERT(book.hold(pod) == book.hold(*back));
    RC_ASSERT(!template_of(text.substr(0, static_cast<std::size_t>(dice.roll(static_cast<int>(text.size()))))));
    RC_ASSERT(!template_of(text + "0;"));
  }));
  EXPECT_FALSE(template_of("2" + text_of({}).substr(1))) << "another format";
}

}  // namespace rule_book_prop_test
}  // namespace qm::kube_rules::testing
