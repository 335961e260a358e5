// Scores nodes by the soft rules, in integers: each rule gives 0 to 100, and the scheduler's weights combine them.
#include "state.hpp"

#include <algorithm>
#include <bit>

namespace qm::kube_rules {
namespace {

constexpr std::int64_t kMost = 100;
constexpr std::int64_t kNodeAffinityWeight = 2, kTaintWeight = 3, kPodAffinityWeight = 2, kSpreadWeight = 2;
constexpr std::int64_t kUnit = 1 << 16;  ///< scale of logarithms

/// The natural logarithm in units of 1/65536, the same on every machine: each squaring yields one
/// bit of the binary logarithm.
std::int64_t ln(std::uint64_t n) {
  const auto whole = std::bit_width(n) - 1;
  std::uint64_t x = n << (31 - whole);
  std::uint64_t log2 = static_cast<std::uint64_t>(whole);
  for (int bit = 0; bit < 16; ++bit) {
    x = x * x >> 31;
    log2 <<= 1;
    if (x >> 32 == 0) continue;
    x >>= 1;
    log2 |= 1;
  }
  constexpr std::uint64_t kLn2 = 45426;  // 0.693147 * 65536
  return static_cast<std::int64_t>(log2 * kLn2 >> 16);
}

struct Range {
  std::int64_t least = 0, most = 0;
  explicit Range(const std::vector<std::int64_t>& values) {
    if (values.empty()) return;
    const auto [low, high] = std::ranges::minmax(values);
    least = low;
    most = high;
  }
};

/// Adds the score of one rule after another to each node.
class Sum {
 public:
  explicit Sum(const NodeSet& among) {
    among.each([&](NodeIndex node) { nodes_.push_back({node, 0}); });
  }
  [[nodiscard]] const std::vector<Preference>& nodes() const { return nodes_; }
  template <class Fn>
  [[nodiscard]] std::vector<std::int64_t> each(Fn&& of) const {
    std::vector<std::int64_t> out;
    out.reserve(nodes_.size());
    for (const Preference& p : nodes_) out.push_back(of(p.node));
    return out;
  }
  template <class Fn>
  void add(const std::vector<std::int64_t>& values, std::int64_t weight, Fn&& score) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_[i].score += weight * score(values[i]);
  }

 private:
  std::vector<Preference> nodes_;
};

}  // namespace

bool RuleBook::indifferent(TemplateId id) const {
  const State& s = *state_;
  const Template& like = s.templates[id];
  const auto silent = [&](PartId gauge) { return s.gauges[gauge].telling.empty(); };
  if (!silent(like.preferred) || !silent(like.soft_taints)) return false;
  if (std::ranges::any_of(like.preferred_pods,
                          [&](const auto& preferred_term) { return s.tallies[preferred_term.tally].total != 0; }))
    return false;
  for (const PartId selector : s.label_sets[like.labels].matching) {
    for (const PartId claim : s.selectors[selector].claims) {
      if (s.claims[claim].telling != 0) return false;
    }
  }
  return std::ranges::all_of(like.even,
                             [&](const auto& even) { return like.pods->rules.spread[even.constraint].required; });
}

std::vector<Preference> RuleBook::preferences(TemplateId id, const NodeSet& among) const {
  const State& s = *state_;
  const Template& like = s.templates[id];
  NodeSet there = among;
  there &= s.known;
  Sum sum(there);

  const auto wanted = sum.each([&](NodeIndex node) { return s.gauges[like.preferred].at(node); });
  if (const Range range(wanted); range.most > 0) {
    sum.add(wanted, kNodeAffinityWeight, [&](std::int64_t v) { return kMost * v / range.most; });
  }
  const auto tainted = sum.each([&](NodeIndex node) { return s.gauges[like.soft_taints].at(node); });
  const Range taints(tainted);
  sum.add(tainted, kTaintWeight,
          [&](std::int64_t v) { return taints.most == 0 ? kMost : kMost - kMost * v / taints.most; });

  const auto& asked = s.label_sets[like.labels].matching;
  const auto drawn = sum.each([&](NodeIndex node) {
    std::int64_t out = 0;
    const auto domain = [&](PartId key) { return s.keys[key].domain_of(node); };
    for (const auto& preferred_term : like.preferred_pods) {
      const Tally& tally = s.tallies[preferred_term.tally];
      if (const Domain d = domain(tally.key); d != kNowhere) out += preferred_term.weight * tally.pods[d];
    }
    for (const PartId selector : asked) {
      for (const PartId claim : s.selectors[selector].claims) {
        if (const Domain d = domain(s.claims[claim].key); d != kNowhere) out += s.claims[claim].weights[d];
      }
    }
    return out;
  });
  if (const Range range(drawn); range.most > range.least) {
    sum.add(drawn, kPodAffinityWeight,
            [&](std::int64_t v) { return kMost * (v - range.least) / (range.most - range.least); });
  }

  // Domains with many matching pods score lower; with more domains the effect is stronger. Nodes
  // without all labels score 0.
  NodeSet labelled = there;
  bool soft = false;
  for (const auto& even : like.even) {
    if (like.pods->rules.spread[even.constraint].required) continue;
    soft = true;
    labelled &= s.keys[s.balances[even.balance].key].having;
  }
  if (!soft) return sum.nodes();
  std::vector<std::int64_t> weights;
  for (const auto& even : like.even) {
    weights.push_back(0);
    if (like.pods->rules.spread[even.constraint].required) continue;
    const Key& key = s.keys[s.balances[even.balance].key];
    std::vector<bool> seen(key.members.size());
    labelled.each([&](NodeIndex node) { seen[static_cast<std::size_t>(key.domain_of(node))] = true; });
    weights.back() = ln(static_cast<std::uint64_t>(std::ranges::count(seen, true)) + 2);
  }
  constexpr std::int64_t kIgnored = -1;
  const auto crowd = sum.each([&](NodeIndex node) {
    if (!labelled.contains(node)) return kIgnored;
    std::int64_t out = 0;
    for (std::size_t i = 0; i < like.even.size(); ++i) {
      const Spread& spread = like.pods->rules.spread[like.even[i].constraint];
      const Balance& balance = s.balances[like.even[i].balance];
      if (spread.required) continue;
      out += balance.pods[s.keys[balance.key].domain_of(node)] * weights[i] + (spread.max_skew - 1) * kUnit;
    }
    return (out + kUnit / 2) / kUnit;
  });
  auto counted = crowd;
  std::erase(counted, kIgnored);
  const Range range(counted);
  sum.add(crowd, kSpreadWeight, [&](std::int64_t v) {
    if (v == kIgnored) return std::int64_t{0};
    return range.most == 0 ? kMost : kMost * (range.most + range.least - v) / range.most;
  });
  return sum.nodes();
}

}  // namespace qm::kube_rules
