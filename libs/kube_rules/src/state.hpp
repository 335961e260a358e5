#pragma once
// The state of a RuleBook. Each part is stored on a shelf: templates with equal conditions share it.
//
//   template -> admissions   sets of nodes, one for each rule on the node alone
//            -> gauges       numbers by node, one for each preference on the node alone
//            -> ask          its requests, and the nodes that have as much free
//            -> tallies      pods that a selector matches, by domain of a key      (its own affinity to pods)
//            -> balances     nodes grouped by that number, for counted nodes       (its own spread)
//            -> claims       affinity of its pods to others, by domain of a key    (applied to pods that match)
//            -> labels       its labels, and the selectors that match them
//
// A selector knows the tallies, balances and claims that depend on it; labels know the selectors that match them.
#include "qm/base/lookup.hpp"
#include "qm/kube_rules/node_rules.hpp"
#include "qm/kube_rules/rule_book.hpp"
#include "shelf.hpp"

#include <array>
#include <set>

namespace qm::kube_rules {

using PartId = std::uint32_t;
using Domain = std::int32_t;
using ResourceId = std::uint32_t;
inline constexpr Domain kNowhere = -1;
inline constexpr ResourceId kPods = 0;
inline constexpr std::size_t kNodeRules = 5;

/// A label of nodes that divides them into domains, one for each value.
struct Key {
  std::string name;
  Lookup<std::string, Domain> domains;
  std::vector<Domain> of;                       ///< by node
  std::vector<std::vector<NodeIndex>> members;  ///< by domain
  std::vector<Domain> spare;
  NodeSet having;  ///< nodes with the label

  [[nodiscard]] Domain domain_of(NodeIndex node) const { return node < of.size() ? of[node] : kNowhere; }
  void join(NodeIndex node, const Labels& labels);
  void leave(NodeIndex node, const Labels& labels);
};

struct Admission {
  const NodeRule* rule = nullptr;
  std::shared_ptr<const PodTemplate> pods;  ///< one of the templates with this condition
  NodeSet nodes;
};
struct Gauge {
  const NodePreference* preference = nullptr;
  std::shared_ptr<const PodTemplate> pods;
  std::vector<std::int64_t> of;  ///< by node; missing entries are zero
  NodeSet telling;               ///< nodes with a nonzero value
  [[nodiscard]] std::int64_t at(NodeIndex node) const { return node < of.size() ? of[node] : 0; }
};
struct Ask {
  std::vector<std::pair<ResourceId, std::int64_t>> amounts;
  NodeSet fits;
};

/// The pods that an affinity term selects.
struct Term {
  std::vector<std::string> namespaces;
  std::optional<LabelSelector> namespace_selector, pods;
  [[nodiscard]] bool matches(const Namespace& ns, const Labels& ns_labels, const Labels& labels) const;
};
struct Selector {
  std::vector<Term> terms;  ///< all must match
  std::vector<PartId> tallies, balances, claims;
};

/// Numbers by domain; the list grows on demand.
class ByDomain {
 public:
  [[nodiscard]] std::int64_t operator[](Domain domain) const {
    const auto at = static_cast<std::size_t>(domain);
    return at < of_.size() ? of_[at] : 0;
  }
  std::int64_t add(Domain domain, std::int64_t by) {
    const auto at = static_cast<std::size_t>(domain);
    if (at >= of_.size()) of_.resize(at + 1);
    return of_[at] += by;
  }

 private:
  std::vector<std::int64_t> of_;
};

/// The number of pods that the selector matches, by domain.
struct Tally {
  PartId selector = 0, key = 0;
  ByDomain pods;
  std::int64_t total = 0;  ///< in all domains
  NodeSet near;            ///< nodes whose domain has such a pod
};
/// What existing pods require or prefer about pods that the selector matches, by the domain of the existing pods.
struct Claim {
  PartId selector = 0, key = 0;
  ByDomain forbids;          ///< pods with required anti-affinity
  ByDomain weights;          ///< sum of the weights of affinity, less that of anti-affinity
  std::int64_t telling = 0;  ///< domains whose sum is not zero
  NodeSet forbidden;
};
/// The nodes that count for a spread constraint.
struct Counted {
  std::vector<PartId> admissions, keys;  ///< admitted by all, with all labels
  NodeSet nodes;
};
/// Counted nodes grouped by the number of pods in their domain that the selector matches.
struct Balance {
  PartId selector = 0, key = 0, counted = 0;
  ByDomain pods, members;  ///< of counted nodes
  std::int64_t domains = 0;
  struct Level {
    std::int64_t domains = 0;
    NodeSet nodes;
  };
  std::map<std::int64_t, Level> levels;
};

struct LabelSet {
  Namespace ns;
  Labels labels;
  std::vector<PartId> matching;  ///< selectors, sorted
  struct Count {
    std::int64_t all = 0, staying = 0;  ///< staying: not terminating
  };
  std::map<NodeIndex, Count> at;
};

struct Template {
  std::shared_ptr<const PodTemplate> pods;
  PartId labels = 0;
  std::array<PartId, kNodeRules> admissions{};
  PartId preferred = 0, soft_taints = 0;  ///< gauges
  PartId ask = 0;
  std::vector<PartId> affinity;  ///< tallies, one for each term, of the pods that match all terms
  std::vector<PartId> apart;     ///< tallies, one for each term of anti-affinity
  struct PreferredPods {
    PartId tally;
    std::int64_t weight;
  };
  std::vector<PreferredPods> preferred_pods;
  struct Even {
    PartId balance;
    std::size_t constraint;  ///< index in the rules
    bool counts_itself;
  };
  std::vector<Even> even;
  struct Own {
    PartId claim;
    std::int64_t forbids, weight;
  };
  std::vector<Own> claims;
};

struct PodRecord {
  TemplateId like = 0;
  NodeIndex node = 0;
  std::size_t at = 0;  ///< index among the node's pods
  bool terminating = false;
};
struct NodeSlot {
  NodeView view;
  bool known = false;  ///< false: only pods refer to it
  std::vector<PodRecord*> pods;
  std::vector<std::int64_t> free;  ///< by resource; missing entries are zero
};
struct PortUsers {
  std::map<NodeIndex, std::int64_t> pods;
  NodeSet nodes;
};
/// Users of a port by protocol and number, then by address.
using Ports = std::map<std::pair<std::string, std::int32_t>, std::map<std::string, PortUsers>>;

class RuleBook::State {
 public:
  // nodes.cpp
  void put_node(const NodeView& view);
  void drop_node(const NodeName& name);
  NodeIndex slot_of(const NodeName& name);
  void free_slot(NodeIndex node);

  // templates.cpp
  TemplateId hold(const PodTemplate& pods);
  void release(TemplateId id);
  void keep(const std::string& label) {
    if (kept.size() < kMostKept && kept.insert(label).second) hold_key(label);
  }

  // pods.cpp
  void put_pod(const PodView& pod);
  void drop_pod(const std::string& uid);
  void put_namespace(const Namespace& ns, const Labels* labels);

  static constexpr std::size_t kMostKept = 16;
  std::set<std::string> kept;  // labels that are held for the lifetime of this object
  NodeSet known;
  Lookup<NodeName, NodeIndex> by_name;
  std::deque<NodeSlot> slots;
  std::map<Namespace, Labels> namespaces;
  Shelf<Template> templates;
  Shelf<Key> keys;
  Shelf<Admission> admissions;
  Shelf<Gauge> gauges;
  Shelf<Ask> asks;
  Shelf<Selector> selectors;
  Shelf<Tally> tallies;
  Shelf<Claim> claims;
  Shelf<Counted> counted;
  Shelf<Balance> balances;
  Shelf<LabelSet> label_sets;
  Lookup<std::string, PodRecord> records;
  std::size_t record_count = 0;
  Ports ports;
  std::vector<std::string> resources{"pods"};  ///< names by id

 private:
  void attach(NodeIndex node);
  void detach(NodeIndex node);
  void judge(Admission& admission, NodeIndex node) const;
  void judge(Gauge& gauge, NodeIndex node) const;
  void judge(Counted& part, NodeIndex node) const;
  void judge(Ask& ask, NodeIndex node) const;
  void join(Balance& balance, NodeIndex node);
  void leave(Balance& balance, NodeIndex node);

  PartId hold_key(const std::string& name);
  PartId hold_admission(std::size_t rule, const std::shared_ptr<const PodTemplate>& pods);
  PartId hold_gauge(const NodePreference& preference, const std::shared_ptr<const PodTemplate>& pods);
  PartId hold_ask(const Amounts& requests);
  PartId hold_selector(std::vector<Term> terms);
  PartId hold_tally(std::vector<Term> terms, const std::string& key);
  PartId hold_claim(Term term, const std::string& key);
  PartId hold_counted(const Template& like, const Spread& spread);
  PartId hold_balance(const Template& like, const Spread& spread);
  PartId hold_labels(const Namespace& ns, const Labels& labels);
  ResourceId resource_id(const std::string& name);
  void release_key(PartId id);
  void release_selector(PartId id);
  void release_admission(PartId id);
  void release_tally(PartId id);
  void release_counted(PartId id);
  void release_balance(PartId id);

  [[nodiscard]] const Labels& labels_of(const Namespace& ns) const;
  [[nodiscard]] bool matches(const Selector& selector, const LabelSet& labels) const;
  template <class Fn>
  void each_count(PartId selector, Fn&& fn);
  void count(PodRecord& pod, std::int64_t sign);
  void count(PartId selector, NodeIndex node, const LabelSet::Count& by);
  void count(Tally& tally, NodeIndex node, std::int64_t by);
  void count(Balance& balance, NodeIndex node, std::int64_t by);
  void count(Claim& claim, NodeIndex node, std::int64_t forbids, std::int64_t weight);
  void count_ports(const PodRules& rules, NodeIndex node, std::int64_t sign);
  void count_requests(const Template& like, NodeIndex node, std::int64_t sign);
  void settle(PodRecord& pod, NodeIndex node);
  void unsettle(PodRecord& pod);

  std::vector<NodeIndex> spare_slots_;
};

}  // namespace qm::kube_rules
