#pragma once
#include "qm/kube_rules/node_rules.hpp"
#include "qm/kube_rules/rule_book.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace qm::kube_rules::testing {

/// A cluster as plain lists, and the result of the scheduler's filters when they evaluate everything each time.
struct World {
  struct Pod {
    PodTemplate like;
    NodeName node;
    bool terminating = false;
  };
  std::map<NodeName, NodeView> nodes;
  std::map<Namespace, Labels> namespaces;
  std::map<std::string, Pod> pods;

  [[nodiscard]] Labels labels_of(const Namespace& ns) const {
    const auto found = namespaces.find(ns);
    return found == namespaces.end() ? Labels() : found->second;
  }

  /// True if a term of `owner` selects a pod.
  [[nodiscard]] bool selects(const PodTemplate& owner, const PodTerm& term, const PodTemplate& pod) const {
    if (!term.pods || !term.pods->matches(pod.labels)) return false;
    if (term.namespaces.empty() && !term.namespace_selector) return owner.ns == pod.ns;
    if (std::ranges::find(term.namespaces, pod.ns.value()) != term.namespaces.end()) return true;
    return term.namespace_selector && term.namespace_selector->matches(labels_of(pod.ns));
  }
  [[nodiscard]] bool selects_all(const PodTemplate& owner, const PodTemplate& pod) const {
    return std::ranges::all_of(owner.rules.affinity, [&](const PodTerm& t) { return selects(owner, t, pod); });
  }

  /// Calls fn(node, pod) for each pod on a node that exists.
  template <class Fn>
  void each_pod(Fn&& fn) const {
    for (const auto& [uid, pod] : pods) {
      if (const auto node = nodes.find(pod.node); node != nodes.end()) fn(node->second, pod);
    }
  }
  static bool same_domain(const NodeView& a, const NodeView& b, const std::string& key) {
    return a.labels.contains(key) && b.labels.contains(key) && a.labels.at(key) == b.labels.at(key);
  }

  [[nodiscard]] bool fits(const PodTemplate& pod, const NodeView& node) const {
    std::map<std::string, std::int64_t> free = node.allocatable;
    each_pod([&](const NodeView& at, const Pod& other) {
      if (at.name != node.name) return;
      --free["pods"];
      for (const auto& [resource, amount] : other.like.rules.requests) free[resource] -= amount;
    });
    return free["pods"] >= 1 && std::ranges::all_of(pod.rules.requests, [&](const auto& ask) {
             return ask.second == 0 || ask.second <= free[ask.first];
           });
  }

  [[nodiscard]] bool ports_free(const PodTemplate& pod, const NodeView& node) const {
    bool out = true;
    each_pod([&](const NodeView& at, const Pod& other) {
      if (at.name != node.name) return;
      for (const HostPort& a : pod.rules.ports) {
        for (const HostPort& b : other.like.rules.ports) {
          const bool address = a.ip == b.ip || a.ip == "0.0.0.0" || b.ip == "0.0.0.0";
          out = out && !(address && a.port == b.port && a.protocol == b.protocol);
        }
      }
    });
    return out;
  }

  [[nodiscard]] bool counts(const PodTemplate& pod, const Spread& spread, const NodeView& node) const {
    for (const Spread& other : pod.rules.spread) {
      if (other.required == spread.required && !node.labels.contains(other.topology_key)) return false;
    }
    for (const NodeRule* rule : node_rules()) {
      const bool asked = rule->name() == "taints"
                             ? spread.honor_taints
                             : spread.honor_affinity && (rule->name() == "selector" || rule->name() == "affinity");
      if (asked && !rule->admits(pod.rules, node)) return false;
    }
    return true;
  }

  [[nodiscard]] bool even(const PodTemplate& pod, const Spread& spread, const NodeView& node) const {
    const auto label = node.labels.find(spread.topology_key);
    if (label == node.labels.end()) return false;
    std::map<std::string, std::int64_t> domains;
    for (const auto& [name, other] : nodes) {
      if (counts(pod, spread, other)) domains.try_emplace(other.labels.at(spread.topology_key));
    }
    each_pod([&](const NodeView& at, const Pod& other) {
      const bool counted = spread.pods && !spread.pods->requirements.empty() && other.like.ns == pod.ns &&
                           !other.terminating && spread.pods->matches(other.like.labels);
      if (counted && counts(pod, spread, at)) ++domains[at.labels.at(spread.topology_key)];
    });
    std::int64_t least = 0;
    if (!domains.empty() && static_cast<std::int64_t>(domains.size()) >= spread.min_domains) {
      least = std::ranges::min_element(domains, {}, [](const auto& d) { return d.second; })->second;
    }
    const std::int64_t itself = spread.pods && spread.pods->matches(pod.labels) ? 1 : 0;
    const auto found = domains.find(label->second);
    return (found == domains.end() ? 0 : found->second) + itself - least <= spread.max_skew;
  }

  [[nodiscard]] bool near(const PodTemplate& pod, const NodeView& node) const {
    const auto& terms = pod.rules.affinity;
    if (terms.empty()) return true;
    bool any = false;
    std::vector<bool> met(terms.size());
    each_pod([&](const NodeView& at, const Pod& other) {
      if (!selects_all(pod, other.like)) return;
      for (std::size_t i = 0; i < terms.size(); ++i) {
        any = any || at.labels.contains(terms[i].topology_key);
        met[i] = met[i] || same_domain(at, node, terms[i].topology_key);
      }
    });
    if (std::ranges::all_of(met, [](bool m) { return m; })) return true;
    const bool labelled =
        std::ranges::all_of(terms, [&](const PodTerm& t) { return node.labels.contains(t.topology_key); });
    return labelled && !any && selects_all(pod, pod);
  }

  [[nodiscard]] bool apart(const PodTemplate& pod, const NodeView& node) const {
    bool out = true;
    each_pod([&](const NodeView& at, const Pod& other) {
      for (const PodTerm& term : pod.rules.anti_affinity) {
        out = out && !(same_domain(at, node, term.topology_key) && selects(pod, term, other.like));
      }
      for (const PodTerm& term : other.like.rules.anti_affinity) {
        out = out && !(same_domain(at, node, term.topology_key) && selects(other.like, term, pod));
      }
    });
    return out;
  }

  [[nodiscard]] bool admits(const PodTemplate& pod, const NodeView& node) const {
    return std::ranges::all_of(node_rules(), [&](const NodeRule* r) { return r->admits(pod.rules, node); }) &&
           fits(pod, node) && ports_free(pod, node) &&
           std::ranges::all_of(pod.rules.spread, [&](const Spread& s) { return !s.required || even(pod, s, node); }) &&
           near(pod, node) && apart(pod, node);
  }

  [[nodiscard]] std::set<std::string> feasible(const PodTemplate& pod) const {
    std::set<std::string> out;
    for (const auto& [name, node] : nodes) {
      if (admits(pod, node)) out.insert(name.value());
    }
    return out;
  }
};

inline std::set<std::string> names(const RuleBook& book, const NodeSet& nodes) {
  std::set<std::string> out;
  nodes.each([&](NodeIndex node) { out.insert(book.name_of(node).value()); });
  return out;
}

}  // namespace qm::kube_rules::testing
