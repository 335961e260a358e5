// Compiles a template for its first holder, and releases its parts with the last holder.
#include "print.hpp"
#include "state.hpp"

#include <algorithm>

namespace qm::kube_rules {
namespace {

/// The weight by which the required affinity of existing pods attracts the pods that it selects:
/// the scheduler's default.
constexpr std::int64_t kRequiredAffinityDraws = 1;

Term term_of(const PodTerm& term, const Namespace& own) {
  Term out{term.namespaces, term.namespace_selector, term.pods};
  if (out.namespaces.empty() && !out.namespace_selector) out.namespaces = {own.value()};
  return out;
}

Term term_of(const Spread& spread, const Namespace& own) {
  Term out{{own.value()}, {}, spread.pods};
  if (spread.pods && spread.pods->requirements.empty()) out.pods.reset();  // the scheduler counts no pods in this case
  return out;
}

std::string print_of(const std::vector<Term>& terms) {
  Print print;
  for (const Term& term : terms) print.add(term.namespaces).add(term.namespace_selector).add(term.pods);
  return print.text();
}

std::string print_of(const PodTemplate& pods) {
  const PodRules& r = pods.rules;
  Print print;
  print.add(pods.ns.value()).add(pods.labels);
  for (const NodeRule* rule : node_rules()) print.add(rule->concerns(r));
  print.each(r.preferred).each(r.spread).each(r.affinity).each(r.anti_affinity);
  print.each(r.preferred_affinity).each(r.preferred_anti_affinity).each(r.ports).add(r.requests);
  // Tolerations and volumes are included already: node rules printed them.
  return print.text();
}

}  // namespace

ResourceId RuleBook::State::resource_id(const std::string& name) {
  const auto found = std::ranges::find(resources, name);
  if (found == resources.end()) resources.push_back(name);
  return static_cast<ResourceId>(std::ranges::find(resources, name) - resources.begin());
}

PartId RuleBook::State::hold_key(const std::string& name) {
  const auto [id, fresh] = keys.hold(name);
  if (!fresh) return id;
  keys[id].name = name;
  known.each([&, key = &keys[id]](NodeIndex node) { key->join(node, slots[node].view.labels); });
  return id;
}

PartId RuleBook::State::hold_admission(std::size_t rule, const std::shared_ptr<const PodTemplate>& pods) {
  const NodeRule* asked = node_rules()[rule];
  const auto [id, fresh] = admissions.hold(fmt::format("{}:{}", rule, asked->concerns(pods->rules)));
  if (!fresh) return id;
  Admission& admission = admissions[id];
  admission.rule = asked;
  admission.pods = pods;
  known.each([&](NodeIndex node) { judge(admission, node); });
  return id;
}

PartId RuleBook::State::hold_gauge(const NodePreference& preference, const std::shared_ptr<const PodTemplate>& pods) {
  const auto [id, fresh] = gauges.hold(fmt::format("{}:{}", preference.name(), preference.concerns(pods->rules)));
  if (!fresh) return id;
  Gauge& gauge = gauges[id];
  gauge.preference = &preference;
  gauge.pods = pods;
  known.each([&](NodeIndex node) { judge(gauge, node); });
  return id;
}

PartId RuleBook::State::hold_ask(const Amounts& requests) {
  const auto [id, fresh] = asks.hold(Print().add(requests).text());
  if (!fresh) return id;
  Ask& ask = asks[id];
  ask.amounts.emplace_back(kPods, 1);
  for (const auto& [resource, amount] : requests) {
    if (amount > 0) ask.amounts.emplace_back(resource_id(resource), amount);
  }
  known.each([&](NodeIndex node) { judge(ask, node); });
  return id;
}

PartId RuleBook::State::hold_selector(std::vector<Term> terms) {
  const auto [id, fresh] = selectors.hold(print_of(terms));
  if (!fresh) return id;
  selectors[id].terms = std::move(terms);
  label_sets.each([&, part = id](PartId, LabelSet& labels) {
    if (!matches(selectors[part], labels)) return;
    labels.matching.insert(std::ranges::lower_bound(labels.matching, part), part);
  });
  return id;
}

/// Calls fn(node, count) for the pods that the selector matches.
template <class Fn>
void RuleBook::State::each_count(PartId selector, Fn&& fn) {
  label_sets.each([&](PartId, const LabelSet& labels) {
    if (!std::ranges::binary_search(labels.matching, selector)) return;
    for (const auto& [node, by] : labels.at) fn(node, by);
  });
}

PartId RuleBook::State::hold_tally(std::vector<Term> terms, const std::string& key) {
  const auto [id, fresh] = tallies.hold(Print().add(print_of(terms)).add(key).text());
  if (!fresh) return id;
  Tally& tally = tallies[id];
  tally.selector = hold_selector(std::move(terms));
  tally.key = hold_key(key);
  each_count(tally.selector, [&](NodeIndex node, const LabelSet::Count& by) { count(tally, node, by.all); });
  selectors[tally.selector].tallies.push_back(id);
  return id;
}

PartId RuleBook::State::hold_claim(Term term, const std::string& key) {
  std::vector<Term> terms{std::move(term)};
  const auto [id, fresh] = claims.hold(Print().add(print_of(terms)).add(key).text());
  if (!fresh) return id;
  Claim& claim = claims[id];
  claim.selector = hold_selector(std::move(terms));
  claim.key = hold_key(key);
  selectors[claim.selector].claims.push_back(id);  // no pod makes this claim yet
  return id;
}

/// If a pod has several constraints of one kind, only nodes with the labels of all of them count for each.
PartId RuleBook::State::hold_counted(const Template& like, const Spread& spread) {
  std::vector<PartId> asked;
  for (std::size_t rule = 0; rule < kNodeRules; ++rule) {
    const auto name = node_rules()[rule]->name();
    if ((name == "taints" && spread.honor_taints) ||
        ((name == "selector" || name == "affinity") && spread.honor_affinity)) {
      asked.push_back(like.admissions[rule]);
    }
  }
  std::vector<std::string> names;
  for (const Spread& other : like.pods->rules.spread) {
    if (other.required == spread.required) names.push_back(other.topology_key);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const auto [id, fresh] = counted.hold(fmt::format("{};{}", fmt::join(asked, ","), Print().add(names).text()));
  if (!fresh) return id;
  Counted& part = counted[id];
  for (const PartId admission : asked) admissions.hold(admission);
  part.admissions = std::move(asked);
  for (const auto& name : names) part.keys.push_back(hold_key(name));
  known.each([&](NodeIndex node) { judge(part, node); });
  return id;
}

PartId RuleBook::State::hold_balance(const Template& like, const Spread& spread) {
  const PartId part = hold_counted(like, spread);
  std::vector<Term> terms{term_of(spread, like.pods->ns)};
  const auto [id, fresh] = balances.hold(Print().add(print_of(terms)).add(spread.topology_key).add(part).text());
  if (!fresh) {
    release_counted(part);
    return id;
  }
  Balance& balance = balances[id];
  balance.counted = part;
  balance.selector = hold_selector(std::move(terms));
  balance.key = hold_key(spread.topology_key);
  known.each([&](NodeIndex node) { join(balance, node); });
  each_count(balance.selector, [&](NodeIndex node, const LabelSet::Count& by) { count(balance, node, by.staying); });
  selectors[balance.selector].balances.push_back(id);
  return id;
}

PartId RuleBook::State::hold_labels(const Namespace& ns, const Labels& labels) {
  const auto [id, fresh] = label_sets.hold(Print().add(ns.value()).add(labels).text());
  if (!fresh) return id;
  LabelSet& set = label_sets[id];
  set.ns = ns;
  set.labels = labels;
  selectors.each([&](PartId selector, const Selector& s) {
    if (matches(s, set)) set.matching.push_back(selector);
  });
  return id;
}

TemplateId RuleBook::State::hold(const PodTemplate& pods) {
  const auto [id, fresh] = templates.hold(print_of(pods));
  if (!fresh) return id;
  Template& out = templates[id];
  out.pods = std::make_shared<const PodTemplate>(pods);
  const PodRules& rules = out.pods->rules;
  const Namespace& ns = pods.ns;
  out.labels = hold_labels(ns, pods.labels);
  for (std::size_t rule = 0; rule < kNodeRules; ++rule) out.admissions[rule] = hold_admission(rule, out.pods);
  out.preferred = hold_gauge(preferred_affinity(), out.pods);
  out.soft_taints = hold_gauge(soft_taints(), out.pods);
  out.ask = hold_ask(rules.requests);

  std::vector<Term> all;
  for (const PodTerm& term : rules.affinity) all.push_back(term_of(term, ns));
  for (const PodTerm& term : rules.affinity) out.affinity.push_back(hold_tally(all, term.topology_key));
  for (const PodTerm& term : rules.anti_affinity) {
    out.apart.push_back(hold_tally({term_of(term, ns)}, term.topology_key));
  }
  const auto add_preferred = [&](const WeightedPodTerm& term, std::int64_t sign) {
    out.preferred_pods.push_back({hold_tally({term_of(term.term, ns)}, term.term.topology_key), sign * term.weight});
    out.claims.push_back({hold_claim(term_of(term.term, ns), term.term.topology_key), 0, sign * term.weight});
  };
  for (const auto& term : rules.preferred_affinity) add_preferred(term, 1);
  for (const auto& term : rules.preferred_anti_affinity) add_preferred(term, -1);
  for (const PodTerm& term : rules.affinity) {
    out.claims.push_back({hold_claim(term_of(term, ns), term.topology_key), 0, kRequiredAffinityDraws});
  }
  for (const PodTerm& term : rules.anti_affinity) {
    out.claims.push_back({hold_claim(term_of(term, ns), term.topology_key), 1, 0});
  }
  for (std::size_t i = 0; i < rules.spread.size(); ++i) {
    const Spread& spread = rules.spread[i];
    out.even.push_back({hold_balance(out, spread), i, spread.pods && spread.pods->matches(pods.labels)});
  }
  return id;
}

void RuleBook::State::release_key(PartId id) {
  keys.release(id, [](Key&) {});
}

void RuleBook::State::release_admission(PartId id) {
  admissions.release(id, [](Admission&) {});
}

void RuleBook::State::release_selector(PartId id) {
  selectors.release(
      id, [&](Selector&) { label_sets.each([&](PartId, LabelSet& labels) { std::erase(labels.matching, id); }); });
}

void RuleBook::State::release_tally(PartId id) {
  tallies.release(id, [&](Tally& tally) {
    std::erase(selectors[tally.selector].tallies, id);
    release_selector(tally.selector);
    release_key(tally.key);
  });
}

void RuleBook::State::release_counted(PartId id) {
  counted.release(id, [&](Counted& part) {
    for (const PartId admission : part.admissions) release_admission(admission);
    for (const PartId key : part.keys) release_key(key);
  });
}

void RuleBook::State::release_balance(PartId id) {
  balances.release(id, [&](Balance& balance) {
    std::erase(selectors[balance.selector].balances, id);
    release_selector(balance.selector);
    release_key(balance.key);
    release_counted(balance.counted);
  });
}

void RuleBook::State::release(TemplateId id) {
  templates.release(id, [&](Template& like) {
    for (const auto& even : like.even) release_balance(even.balance);
    for (const auto& own : like.claims) {
      claims.release(own.claim, [&](Claim& claim) {
        std::erase(selectors[claim.selector].claims, own.claim);
        release_selector(claim.selector);
        release_key(claim.key);
      });
    }
    for (const auto& preferred_term : like.preferred_pods) release_tally(preferred_term.tally);
    for (const PartId tally : like.apart) release_tally(tally);
    for (const PartId tally : like.affinity) release_tally(tally);
    asks.release(like.ask, [](Ask&) {});
    for (const PartId gauge : {like.preferred, like.soft_taints}) gauges.release(gauge, [](Gauge&) {});
    for (const PartId admission : like.admissions) release_admission(admission);
    label_sets.release(like.labels, [](LabelSet&) {});
  });
}

}  // namespace qm::kube_rules
