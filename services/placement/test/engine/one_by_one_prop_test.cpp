// place_gang() compared with a scan of all nodes for each pod, or for each node that is used: over
// generated fleets, rules and gangs.
#include "qm/kube_rules/rule_book.hpp"
#include "qm/placement/nearness.hpp"
#include "qm/placement/preference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace qm::placement {
namespace one_by_one_prop_test {

using Random = std::mt19937_64;
int between(Random& random, int low, int high) { return std::uniform_int_distribution(low, high)(random); }
bool one_in(Random& random, int n) { return between(random, 1, n) == 1; }

LabelSelector app(const std::string& name) { return {{{"app", LabelRequirement::Op::kIn, {name}}}}; }

/// The inter-pod constraints of a gang in a rule book. In addition, no node fits more than `each`
/// of its pods, and a node with the label "closed" fits none.
class TestConstraints final : public InterPodConstraints, public DynamicConstraints {
 public:
  TestConstraints(rules::RuleBook& book, const std::vector<rules::PodTemplate>& likes, int each)
      : book_(book), each_(each) {
    for (const auto& like : likes) {
      ids_.push_back(book.hold(like));
      const auto& r = like.rules;
      one_by_one_.push_back(!r.anti_affinity.empty() || !r.affinity.empty() || !r.spread.empty() ||
                            !r.preferred_anti_affinity.empty());
    }
  }
  ~TestConstraints() override {
    for (const auto& uid : taken_) book_.drop_pod(uid);
    for (const auto id : ids_) book_.release(id);
  }
  TestConstraints(const TestConstraints&) = delete;
  TestConstraints& operator=(const TestConstraints&) = delete;

  [[nodiscard]] bool one_by_one(std::size_t set) const override { return one_by_one_[set]; }
  [[nodiscard]] bool suits(std::size_t, const NodeName& node, const NodeCapacity& capacity) const override {
    const auto there = on_.find(node);
    return !capacity.facts->labels.contains("closed") && (there == on_.end() || there->second < each_);
  }
  [[nodiscard]] const DynamicConstraints* dynamic(std::size_t) const override { return this; }
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node,
                                    const NodeCapacity& capacity) const override {
    return admits(set, node, capacity) ? "" : "that refuse";
  }
  [[nodiscard]] bool has_data(std::size_t, const NodeCapacity& capacity) const override {
    return capacity.facts->labels.contains("data");
  }
  void take(std::size_t set, const NodeName& node) override {
    taken_.push_back(fmt::format("g{}", taken_.size()));
    book_.put_pod({taken_.back(), node, ids_[set]});
    ++on_[node];
  }
  [[nodiscard]] rules::NodeIndex number(const NodeName& node, const NodeCapacity&) const override {
    return book_.index_of(node).value();
  }
  [[nodiscard]] const rules::NodeSet& open(std::size_t set) const override { return open_ = book_.feasible(ids_[set]); }
  [[nodiscard]] const std::vector<std::int64_t>* worth(std::size_t set) const override {
    if (book_.indifferent(ids_[set])) return nullptr;
    const auto scores = scores_of(set);
    worth_.clear();
    for (const auto& [index, score] : scores) {
      worth_.resize(std::max(worth_.size(), index + std::size_t{1}));
      worth_[index] = score;
    }
    return &worth_;
  }
  [[nodiscard]] std::map<rules::NodeIndex, std::int64_t> scores_of(std::size_t set) const {
    std::map<rules::NodeIndex, std::int64_t> out;
    for (const auto& [index, score] : book_.preferences(ids_[set], book_.feasible(ids_[set]))) out[index] = score;
    return out;
  }

 private:
  rules::RuleBook& book_;
  int each_;
  std::vector<rules::TemplateId> ids_;
  std::vector<bool> one_by_one_;
  std::vector<std::string> taken_;
  std::map<NodeName, int> on_;
  mutable rules::NodeSet open_;
  mutable std::vector<std::int64_t> worth_;
};

/// The same by a scan of every node for each pod or node.
class Plainly {
 public:
  Plainly(const std::vector<PodSet>& sets, const FreeCapacity& free_capacity, const Preference& preference,
          TestConstraints& constraints)
      : sets_(sets), free_capacity_(free_capacity), preference_(preference), constraints_(constraints) {}
  [[nodiscard]] std::optional<std::vector<Member>> members() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < sets_.size(); ++i) order.push_back(i);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return sets_[i].shape.gpu.total_milli(); });
    for (const auto set : order) {
      if (!(constraints_.one_by_one(set) ? pod_by_pod(set) : node_by_node(set))) return std::nullopt;
    }
    std::ranges::sort(out_, std::less<>(), [](const Member& m) { return std::pair(m.set, m.index); });
    return out_;
  }

 private:
  [[nodiscard]] const NodeCapacity& now(const NodeName& name) const {
    const auto used = used_.find(name);
    return used == used_.end() ? free_capacity_.at(name) : used->second;
  }
  [[nodiscard]] bool takes(std::size_t set, const NodeName& name) const {
    return pods_that_fit(now(name), sets_[set].shape) > 0 && rejected_by(now(name), sets_[set].shape).empty() &&
           constraints_.admits(set, name, now(name));
  }
  void take(std::size_t set, const NodeName& name, std::int32_t index) {
    auto& capacity = used_.try_emplace(name, free_capacity_.at(name)).first->second;
    Member member;
    member.set = static_cast<std::int32_t>(set);
    member.index = index;
    member.node = name;
    member.devices = preference_.take(capacity, name, sets_[set].shape);
    out_.push_back(std::move(member));
    constraints_.take(set, name);
  }
  bool pod_by_pod(std::size_t set) {
    for (std::int32_t index = 0; index < sets_[set].count; ++index) {
      using Rank = std::tuple<std::int64_t, bool, std::int64_t, bool, NodeName>;
      std::optional<Rank> best;
      const auto scores = constraints_.scores_of(set);
      for (const auto& [name, before] : free_capacity_) {
        if (!takes(set, name)) continue;
        const Rank rank(-scores.at(constraints_.number(name, before)), !used_.contains(name),
                        -preference_.score(now(name), sets_[set].shape), !constraints_.has_data(set, before), name);
        if (!best || rank < *best) best = rank;
      }
      if (!best) return false;
      take(set, std::get<4>(*best), index);
    }
    return true;
  }
  bool node_by_node(std::size_t set) {
    const PodSet& asked = sets_[set];
    std::set<NodeName> left;
    std::int64_t all = 0;
    for (const auto& [name, capacity] : free_capacity_) {
      if (!takes(set, name)) continue;
      left.insert(name);
      all += pods_that_fit(now(name), asked.shape);
    }
    if (all < asked.count) return false;
    std::map<NodeName, NodeCapacity> before;  // as they were when the set began
    for (const auto& name : left) before.emplace(name, now(name));
    const auto used = used_;
    for (std::int32_t index = 0; index < asked.count;) {
      const std::int64_t rest = asked.count - index;
      using Rank = std::tuple<bool, bool, std::int64_t, bool, std::int64_t, bool, NodeName>;
      std::optional<Rank> best;
      for (const auto& name : left) {
        const NodeCapacity& capacity = before.at(name);
        const auto fits = pods_that_fit(capacity, asked.shape);
        const auto devices = std::min<std::int64_t>(fits, asked.count) * asked.shape.gpu.whole;
        const bool apart = asked.shape.gpu.whole > 0 && devices > 1 && devices > joined_gpus(capacity);
        const Rank rank(fits < rest, fits >= rest && !used.contains(name), rest - std::min(fits, rest), apart,
                        -preference_.score(capacity, asked.shape), !constraints_.has_data(set, capacity), name);
        if (!best || rank < *best) best = rank;
      }
      const NodeName name = std::get<6>(*best);
      left.erase(name);
      for (auto pods = std::min(pods_that_fit(before.at(name), asked.shape), rest); pods > 0; --pods, ++index)
        take(set, name, index);
    }
    return true;
  }

  const std::vector<PodSet>& sets_;
  const FreeCapacity& free_capacity_;
  const Preference& preference_;
  TestConstraints& constraints_;
  std::map<NodeName, NodeCapacity> used_;
  std::vector<Member> out_;
};

struct Fleet {
  std::map<NodeName, NodeFacts> facts;
  FreeCapacity free_capacity;
  rules::RuleBook book;
  Preference preference;

  explicit Fleet(Random& random) {
    const bool soft = one_in(random, 4);
    const auto label = [&](NodeFacts& into, const std::string& key, int values) {
      if (!one_in(random, 12)) into.labels[key] = fmt::format("{}", between(random, 1, values));
    };
    for (int n = between(random, 2, 24); n > 0; --n) {
      const NodeName name(fmt::format("n{:02}", between(random, 0, 99)));
      auto& made = facts[name];
      made = {};
      made.model = one_in(random, 3) ? "A" : "B";
      made.gpus = one_in(random, 4) ? 4 : 8;
      made.cpu_milli = 64'000;
      made.memory_bytes = std::int64_t{1} << 38;
      made.labels["host"] = name.value();
      label(made, "zone", 3);
      label(made, "rack", 6);
      if (one_in(random, 10)) made.labels["closed"] = "";
      if (one_in(random, 5)) made.labels["data"] = "";
      if (one_in(random, 6)) made.labels["gpu.nvidia.com/nvlink-enabled"] = "false";
      if (one_in(random, 8)) made.taints.push_back({"t", "", "NoSchedule"});
      if (soft && one_in(random, 3)) made.taints.push_back({"s", "", "PreferNoSchedule"});
    }
    for (const auto& [name, made] : facts) {
      NodeCapacity capacity;
      capacity.facts = &made;
      capacity.usable = !one_in(random, 10);
      capacity.why_not = "cordoned";
      capacity.cpu_milli = 1'000 * between(random, 0, 64);
      capacity.memory_bytes = made.memory_bytes;
      for (int d = 0; d < made.gpus; ++d)
        capacity.free_milli.push_back(one_in(random, 3) ? 250 * between(random, 0, 3) : 1000);
      if (one_in(random, 3)) capacity.pods = between(random, 0, 4);
      if (one_in(random, 3)) capacity.island = 4;
      free_capacity.emplace(name, capacity);
      book.put_node({name, made.labels, made.taints, false, {{"pods", 1'000'000}}});
    }
    preference.prepare(free_capacity);
    int pods = 0;
    for (const auto& [name, made] : facts) {
      if (!one_in(random, 3)) continue;
      rules::PodTemplate there{Namespace("x"), {{"app", one_in(random, 2) ? "a" : "c"}}, {}};
      if (one_in(random, 4)) there.rules.anti_affinity = {{"rack", app("a"), {}, {}}};
      if (soft && one_in(random, 3)) there.rules.preferred_anti_affinity = {{5, {"zone", app("a"), {}, {}}}};
      const auto id = book.hold(there);
      book.put_pod({fmt::format("p{}", pods++), name, id});
      book.release(id);
    }
  }
};

rules::PodTemplate like(Random& random) {
  rules::PodTemplate out{Namespace("x"), {{"app", one_in(random, 3) ? "b" : "a"}}, {}};
  const auto key = [&] {
    return std::string(std::array{"host", "rack", "zone"}[static_cast<std::size_t>(between(random, 0, 2))]);
  };
  const auto selected = [&] { return app(std::array{"a", "b", "c"}[static_cast<std::size_t>(between(random, 0, 2))]); };
  switch (between(random, 0, 7)) {
    case 0:
    case 1:
      out.rules.anti_affinity = {{key(), selected(), {}, {}}};
      break;
    case 2:
    case 3:
      out.rules.spread = {{key(), between(random, 1, 2), 1, !one_in(random, 4), selected()}};
      break;
    case 4:
      out.rules.affinity = {{key(), selected(), {}, {}}};
      break;
    case 5:
      out.rules.preferred_anti_affinity = {{between(random, 1, 9), {key(), selected(), {}, {}}}};
      break;
    default:
      break;
  }
  if (one_in(random, 6)) out.rules.anti_affinity.push_back({"host", app("a"), {}, {}});
  return out;
}

PodSet asked(Random& random, const std::string& name) {
  PodSet set;
  set.name = name;
  set.count = between(random, 1, 10);
  set.shape.cpu_milli = 1'000 * between(random, 1, 8);
  if (one_in(random, 5)) {
    set.shape.gpu.milli = 250;
  } else {
    set.shape.gpu.whole = between(random, 0, 3);
  }
  if (one_in(random, 3)) set.shape.tolerations = {{"t", "Exists", "", ""}};
  return set;
}

TEST(OneByOne, MatchesFullScan) {
  int placed = 0, refused = 0, alone = 0;
  for (std::uint64_t seed = 0; seed < 3'000; ++seed) {
    Random random(seed);
    Fleet fleet(random);
    std::vector<PodSet> sets{asked(random, "one")};
    if (one_in(random, 3)) sets.push_back(asked(random, "two"));
    std::vector<rules::PodTemplate> likes;
    for (std::size_t i = 0; i < sets.size(); ++i) likes.push_back(like(random));
    const int each = one_in(random, 4) ? between(random, 1, 3) : 1'000;
    FreeCapacity free_capacity = fleet.free_capacity;
    std::optional<Plan> plan;
    std::optional<std::vector<Member>> slow;
    bool whether = false;
    {
      TestConstraints constraints(fleet.book, likes, each);
      whether = place_gang(sets, free_capacity, fleet.preference, &constraints, nullptr, ResultDetail::kWhether)
                    .plan.has_value();
    }
    {
      TestConstraints constraints(fleet.book, likes, each);
      plan = place_gang(sets, free_capacity, fleet.preference, &constraints).plan;
    }
    {
      TestConstraints constraints(fleet.book, likes, each);
      slow = Plainly(sets, fleet.free_capacity, fleet.preference, constraints).members();
    }
    ASSERT_EQ(plan.has_value(), slow.has_value()) << "seed " << seed;
    ASSERT_EQ(plan.has_value(), whether) << "seed " << seed;
    if (!plan) {
      ++refused;
      continue;
    }
    ASSERT_EQ(plan->members, *slow) << "seed " << seed;
    ++placed;
    alone += std::ranges::any_of(likes, [](const auto& l) { return !is_plain(l.rules); }) ? 1 : 0;
  }
  EXPECT_GT(placed, 800);
  EXPECT_GT(refused, 300);
  EXPECT_GT(alone, 300);
}

}  // namespace one_by_one_prop_test
}  // namespace qm::placement
