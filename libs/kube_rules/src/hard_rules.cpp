// The hard rules, one small object each, and the queries on them.
#include "hard_rules.hpp"

#include "qm/base/assert.hpp"

#include <algorithm>

namespace qm::kube_rules {
namespace {

class OnTheNode final : public Rule {
 public:
  explicit OnTheNode(std::size_t rule) : rule_(rule) {}
  [[nodiscard]] std::string_view name() const override { return node_rules()[rule_]->name(); }
  void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const override {
    nodes &= s.admissions[like.admissions[rule_]].nodes;
  }
  [[nodiscard]] std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const override {
    return node_rules()[rule_]->words(like.pods->rules, s.slots[node].view);
  }

 private:
  std::size_t rule_;
};

class Requests final : public Rule {
 public:
  [[nodiscard]] std::string_view name() const override { return "requests"; }
  void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const override {
    nodes &= s.asks[like.ask].fits;
  }
  [[nodiscard]] std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const override {
    const auto& free = s.slots[node].free;
    for (const auto& [resource, amount] : s.asks[like.ask].amounts) {
      if (amount <= (resource < free.size() ? free[resource] : 0)) continue;
      if (resource == kPods) return "are at their pod limit";
      const std::string& name = s.resources[resource];
      return "lack " + (name == "cpu" ? "CPU" : name);
    }
    return {};
  }
};

constexpr std::string_view kAnyAddress = "0.0.0.0";

bool clash(const std::string& a, const std::string& b) { return a == b || a == kAnyAddress || b == kAnyAddress; }

class HostPorts final : public Rule {
 public:
  [[nodiscard]] std::string_view name() const override { return "host ports"; }
  void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const override {
    each_clash(s, like, [&](const HostPort&, const PortUsers& users) { nodes -= users.nodes; });
  }
  [[nodiscard]] std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const override {
    std::string out;
    each_clash(s, like, [&](const HostPort& port, const PortUsers& users) {
      if (!out.empty() || !users.nodes.contains(node)) return;
      out = fmt::format("where host port {}:{}/{} is in use", port.ip, port.port, port.protocol);
    });
    return out;
  }

 private:
  template <class Fn>
  static void each_clash(const RuleBook::State& s, const Template& like, Fn&& fn) {
    for (const HostPort& port : like.pods->rules.ports) {
      const auto found = s.ports.find({port.protocol, port.port});
      if (found == s.ports.end()) continue;
      for (const auto& [ip, users] : found->second) {
        if (clash(ip, port.ip)) fn(port, users);
      }
    }
  }
};

class TopologySpread final : public Rule {
 public:
  [[nodiscard]] std::string_view name() const override { return "spread"; }
  void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const override {
    each_required(s, like, [&](const Spread&, const NodeSet& allowed) { nodes &= allowed; });
  }
  [[nodiscard]] std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const override {
    std::string out;
    each_required(s, like, [&](const Spread& spread, const NodeSet& allowed) {
      if (!out.empty() || allowed.contains(node)) return;
      const bool labelled = s.slots[node].view.labels.contains(spread.topology_key);
      out = labelled ? fmt::format("whose {} would exceed a maxSkew of {}", spread.topology_key, spread.max_skew)
                     : fmt::format("without label {} of the topology spread", spread.topology_key);
    });
    return out;
  }

 private:
  /// A domain may have at most max_skew more pods, this one included, than the domain with the
  /// fewest; if there are fewer domains than min_domains, more than zero.
  template <class Fn>
  static void each_required(const RuleBook::State& s, const Template& like, Fn&& fn) {
    for (const auto& even : like.even) {
      const Spread& spread = like.pods->rules.spread[even.constraint];
      if (!spread.required) continue;
      const Balance& balance = s.balances[even.balance];
      const bool enough = balance.domains >= spread.min_domains && !balance.levels.empty();
      const std::int64_t least = enough ? balance.levels.begin()->first : 0;
      NodeSet allowed;
      for (const auto& [pods, level] : balance.levels) {
        if (pods + (even.counts_itself ? 1 : 0) - least > spread.max_skew) break;
        allowed |= level.nodes;
      }
      fn(spread, allowed);
    }
  }
};

class PodAffinity final : public Rule {
 public:
  [[nodiscard]] std::string_view name() const override { return "pod affinity"; }
  void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const override {
    const bool first = first_of_its_kind(s, like);
    for (const PartId id : like.affinity) nodes &= first ? s.keys[s.tallies[id].key].having : s.tallies[id].near;
  }
  [[nodiscard]] std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const override {
    for (const PartId id : like.affinity) {
      const Key& key = s.keys[s.tallies[id].key];
      if (!key.having.contains(node)) return fmt::format("without label {} of the pod affinity", key.name);
    }
    for (const PartId id : like.affinity) {
      if (s.tallies[id].near.contains(node)) continue;
      return fmt::format("whose {} has no pod that matches its affinity", s.keys[s.tallies[id].key].name);
    }
    return {};
  }

 private:
  /// True if no pod matches the pod's affinity but the pod itself does: then it may be the first one.
  static bool first_of_its_kind(const RuleBook::State& s, const Template& like) {
    if (like.affinity.empty()) return false;
    if (std::ranges::any_of(like.affinity, [&](PartId id) { return s.tallies[id].total > 0; })) return false;
    const PartId all_terms = s.tallies[like.affinity.front()].selector;
    return std::ranges::binary_search(s.label_sets[like.labels].matching, all_terms);
  }
};

class PodAntiAffinity final : public Rule {
 public:
  [[nodiscard]] std::string_view name() const override { return "pod anti-affinity"; }
  void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const override {
    for (const PartId id : like.apart) nodes -= s.tallies[id].near;
  }
  [[nodiscard]] std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const override {
    for (const PartId id : like.apart) {
      if (!s.tallies[id].near.contains(node)) continue;
      return fmt::format("whose {} has a pod that matches its anti-affinity", s.keys[s.tallies[id].key].name);
    }
    return {};
  }
};

class ExistingAntiAffinity final : public Rule {
 public:
  [[nodiscard]] std::string_view name() const override { return "anti-affinity of others"; }
  void keep(const RuleBook::State& s, const Template& like, NodeSet& nodes) const override {
    each_claim(s, like, [&](const Claim& claim) { nodes -= claim.forbidden; });
  }
  [[nodiscard]] std::string words(const RuleBook::State& s, const Template& like, NodeIndex node) const override {
    std::string least;  // the result must not depend on the order of the claims
    each_claim(s, like, [&](const Claim& claim) {
      const std::string& key = s.keys[claim.key].name;
      if (claim.forbidden.contains(node) && (least.empty() || key < least)) least = key;
    });
    return fmt::format("whose {} has a pod with anti-affinity to it", least);
  }

 private:
  template <class Fn>
  static void each_claim(const RuleBook::State& s, const Template& like, Fn&& fn) {
    for (const PartId selector : s.label_sets[like.labels].matching) {
      for (const PartId id : s.selectors[selector].claims) fn(s.claims[id]);
    }
  }
};

}  // namespace

std::span<const Rule* const> hard_rules() {
  static const std::array<OnTheNode, kNodeRules> on_the_node{OnTheNode(0), OnTheNode(1), OnTheNode(2), OnTheNode(3),
                                                             OnTheNode(4)};
  static const Requests requests;
  static const HostPorts ports;
  static const TopologySpread spread;
  static const PodAffinity near;
  static const PodAntiAffinity apart;
  static const ExistingAntiAffinity others;
  static const std::array<const Rule*, 11> all{&on_the_node[0], &on_the_node[1], &on_the_node[2], &on_the_node[3],
                                               &on_the_node[4], &requests,       &ports,          &spread,
                                               &near,           &apart,          &others};
  return all;
}

const std::vector<std::string_view>& rule_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> out;
    for (const Rule* rule : hard_rules()) out.push_back(rule->name());
    return out;
  }();
  return names;
}

NodeSet RuleBook::feasible(TemplateId id) const {
  NodeSet nodes = state_->known;
  for (const Rule* rule : hard_rules()) rule->keep(*state_, state_->templates[id], nodes);
  return nodes;
}

NodeSet RuleBook::admitted(TemplateId id, std::string_view rule) const {
  const auto found = std::ranges::find(hard_rules(), rule, &Rule::name);
  QM_ASSERT(found != hard_rules().end(), "there is no rule {}", rule);
  NodeSet nodes = state_->known;
  (*found)->keep(*state_, state_->templates[id], nodes);
  return nodes;
}

std::optional<Rejection> RuleBook::why_not(TemplateId id, NodeIndex node) const {
  QM_ASSERT(state_->known.contains(node), "there is no node {}", node);
  const Template& like = state_->templates[id];
  for (const Rule* rule : hard_rules()) {
    NodeSet one;
    one.insert(node);
    rule->keep(*state_, like, one);
    if (!one.contains(node)) return Rejection{rule->name(), rule->words(*state_, like, node)};
  }
  return std::nullopt;
}

namespace {

/// Calls fn(rule, node) with the first rule that rejects each node.
template <class Fn>
void each_refusal(const RuleBook::State& s, const Template& like, Fn&& fn) {
  NodeSet left = s.known;
  for (const Rule* rule : hard_rules()) {
    NodeSet kept = left;
    rule->keep(s, like, kept);
    left -= kept;
    left.each([&](NodeIndex node) { fn(*rule, node); });
    left = std::move(kept);
  }
}

}  // namespace

std::vector<std::string> RuleBook::why_not(TemplateId id) const {
  const Template& like = state_->templates[id];
  std::vector<std::string> out(state_->slots.size());
  each_refusal(*state_, like, [&](const Rule& rule, NodeIndex node) { out[node] = rule.words(*state_, like, node); });
  return out;
}

std::map<std::string, std::int64_t> RuleBook::explain(TemplateId id) const {
  const Template& like = state_->templates[id];
  std::map<std::string, std::int64_t> out;
  each_refusal(*state_, like, [&](const Rule& rule, NodeIndex node) { ++out[rule.words(*state_, like, node)]; });
  return out;
}

bool RuleBook::repelled(TemplateId id) const {
  const State& s = *state_;
  return std::ranges::any_of(s.label_sets[s.templates[id].labels].matching, [&](PartId selector) {
    return std::ranges::any_of(s.selectors[selector].claims,
                               [&](PartId claim) { return !s.claims[claim].forbidden.empty(); });
  });
}

RuleBook::RuleBook() : state_(std::make_unique<State>()) {}
RuleBook::~RuleBook() = default;
RuleBook::RuleBook(RuleBook&&) noexcept = default;
RuleBook& RuleBook::operator=(RuleBook&&) noexcept = default;

void RuleBook::put_node(const NodeView& node) { state_->put_node(node); }
void RuleBook::drop_node(const NodeName& name) { state_->drop_node(name); }
void RuleBook::put_namespace(const Namespace& ns, const Labels& labels) { state_->put_namespace(ns, &labels); }
void RuleBook::drop_namespace(const Namespace& ns) { state_->put_namespace(ns, nullptr); }
void RuleBook::keep(const std::string& label) { state_->keep(label); }
void RuleBook::keep(const PodTemplate& pods) {
  const PodRules& r = pods.rules;
  for (const auto& spread : r.spread) state_->keep(spread.topology_key);
  for (const auto* terms : {&r.affinity, &r.anti_affinity}) {
    for (const auto& term : *terms) state_->keep(term.topology_key);
  }
  for (const auto* terms : {&r.preferred_affinity, &r.preferred_anti_affinity}) {
    for (const auto& term : *terms) state_->keep(term.term.topology_key);
  }
}
TemplateId RuleBook::hold(const PodTemplate& pods) { return state_->hold(pods); }
void RuleBook::release(TemplateId id) { state_->release(id); }
void RuleBook::put_pod(const PodView& pod) { state_->put_pod(pod); }
void RuleBook::drop_pod(const std::string& uid) { state_->drop_pod(uid); }

const NodeSet& RuleBook::nodes() const { return state_->known; }

std::optional<NodeIndex> RuleBook::index_of(const NodeName& name) const {
  const NodeIndex* found = state_->by_name.find(name);
  if (found == nullptr || !state_->slots[*found].known) return std::nullopt;
  return *found;
}

const NodeName& RuleBook::name_of(NodeIndex node) const { return state_->slots[node].view.name; }

RuleBook::Sizes RuleBook::sizes() const {
  const State& s = *state_;
  return {s.by_name.size(),    s.record_count,     s.templates.size(),
          s.label_sets.size(), s.selectors.size(), s.tallies.size() + s.claims.size(),
          s.balances.size(),   s.keys.size()};
}

}  // namespace qm::kube_rules
