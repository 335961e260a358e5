// The problem of the packing library from demand, NodePools and offerings, and its plan as instances.
#include "launch/joint.hpp"

#include "launch/fit.hpp"
#include "offers/avoided.hpp"
#include "qm/autoscaler/pack/plan.hpp"
#include "qm/autoscaler/requirements/keys.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace qm::autoscaler {
namespace {

constexpr std::size_t kMostPods = 5'000;  // of one plan: a step ends within a fraction of a second
constexpr double kNano = 1e9;

double usd(const Money& money) { return static_cast<double>(money.nano()) / kNano; }
Money money(double value) { return Money::nano(static_cast<std::int64_t>(value * kNano)); }

std::optional<kube_rules::PodTemplate> template_of(const PodSet& set) {
  return set.rules.empty() ? std::nullopt : kube_rules::template_of(set.rules);
}

bool is_known(const kube_rules::PodTerm& term, bool hosts) {
  const bool own_namespace = term.namespaces.empty() && !term.namespace_selector;
  return own_namespace && (term.topology_key == words::kZone || (hosts && term.topology_key == kHostname));
}

void append(const Requirements& from, pack::NodeTerm& to) {
  for (const auto& [key, requirement] : from.by_key()) {
    for (auto& expression : expressions(requirement)) to.push_back(std::move(expression));
  }
}

pack::NodeTerm preference_of(const kube_rules::SelectorTerm& term) {
  pack::NodeTerm out;
  for (const auto& expression : term.labels) out.push_back(expression_of(expression));
  return out;
}

/// Constraints on zones count only where the zone of a node is known before its launch.
void add_pod_rules(const kube_rules::PodRules& rules, bool zones, pack::Pod& out) {
  const auto acts = [&](const auto& one) { return one.pods && (zones || one.topology_key != words::kZone); };
  for (const auto& one : rules.spread) {
    if (one.required && acts(one)) out.spread.push_back({one.topology_key, one.max_skew, *one.pods, true});
  }
  for (const auto& one : rules.affinity) {
    if (acts(one)) out.affinity.push_back({one.topology_key, *one.pods});
  }
  for (const auto& one : rules.anti_affinity) {
    if (acts(one)) out.anti_affinity.push_back({one.topology_key, *one.pods});
  }
  for (const auto& one : rules.preferred) {
    if (one.term.fields.empty() && !one.term.labels.empty())
      out.preferred.push_back({one.weight, preference_of(one.term)});
  }
}

pack::Pod pod_of(const DemandUpdated::Item& item, const PodSet& set, const PodNeeds& needs, bool zones) {
  pack::Pod out;
  out.uid = item.id.uid.value() + "/" + set.name;
  out.name_space = needs.ns.empty() ? item.ns : needs.ns.value();
  out.labels = needs.labels;
  out.cpu_milli = set.shape.cpu_milli;
  out.memory_bytes = set.shape.memory_bytes;
  for (const auto& [resource, amount] : set.shape.extended) {
    if (amount > 0 && resource != "ephemeral-storage") out.extended[resource] = amount;
  }
  if (set.shape.gpu.whole > 0) out.extended[std::string(words::kGpuResource)] = set.shape.gpu.whole;
  out.tolerations = set.shape.tolerations;
  pack::NodeTerm common;
  append(needs.selector, common);
  if (!set.shape.gpu.models.empty())
    common.push_back({std::string(words::kGpuProduct), Operator::kIn, set.shape.gpu.models, {}});
  for (const auto& term : needs.terms) append(term, out.required.emplace_back(common));
  if (needs.terms.empty() && !common.empty()) out.required.push_back(std::move(common));
  if (const auto like = template_of(set)) add_pod_rules(like->rules, zones, out);
  return out;
}

}  // namespace

bool JointPlanner::plans(const DemandUpdated::Item& item) const {
  const auto pods = std::accumulate(item.pod_sets.begin(), item.pod_sets.end(), std::int64_t{0},
                                    [](auto sum, const PodSet& set) { return sum + set.count; });
  if (pods != 1 && !item.runs) return false;
  // Then each item's own properties decide the NodePool or the capacity type.
  if (!options_.expanders.empty() || options_.balance_similar_pools || options_.reliability != Reliability::kByPrice)
    return false;
  return std::ranges::all_of(item.pod_sets, [&](const PodSet& set) {
    if (set.shape.gpu.milli > 0 || set.shape.gpu.mig_count > 0 || nodes_.needs(set).impossible) return false;
    const auto like = template_of(set);
    if (!like) return true;
    const auto& rules = like->rules;
    const auto known = [](bool hosts) { return [hosts](const auto& term) { return is_known(term, hosts); }; };
    const auto placed = [](const kube_rules::Spread& one) {
      return !one.required || one.topology_key == words::kZone || one.topology_key == kHostname;
    };
    return std::ranges::all_of(rules.affinity, known(false)) && std::ranges::all_of(rules.anti_affinity, known(true)) &&
           std::ranges::all_of(rules.spread, placed);
  });
}

bool JointPlanner::is_of(const Pool& pool, const std::string& type, Types types) const {
  const LaunchFault* fault = facts_.fault(type, pool);
  if (types == Types::kWithoutFault) return fault == nullptr;
  return fault != nullptr && fault->count < Avoided::kMostLaunches;
}

bool JointPlanner::has_any(const Pool& pool, Types types) const {
  return std::ranges::any_of(pool.instance_types, [&](const auto& type) { return is_of(pool, type, types); });
}

// DaemonSets may run in one zone or market only: offerings with different capacity are types of their own.
void JointPlanner::add_types(const Pool& pool, Types types, const std::vector<PodSet>& sets, Problem& out) const {
  const Labels labels = nodes_.chosen_labels(pool, {}).value_or(Labels{});
  for (const auto& name : pool.instance_types) {
    const auto found = state_.catalog.find(name);
    if (found == state_.catalog.end() || !is_of(pool, name, types)) continue;
    const InstanceType& t = found->second;
    const std::size_t first = out.types.size();
    for (auto& [offering, rate] : offers_.available(pool, t, sets)) {
      const FreeCapacity capacity = nodes_.empty({pool, labels, t, offering.zone, offering.market});
      if (capacity.cpu_milli < 0 || capacity.memory_bytes < 0 || capacity.pods <= 0) continue;
      pack::InstanceType type;
      type.name = t.name;
      type.cpu_milli = capacity.cpu_milli;
      type.memory_bytes = capacity.memory_bytes;
      type.pods = capacity.pods;
      type.extended = capacity.extended;
      type.extended[std::string(words::kGpuResource)] = capacity.gpus;
      for (const auto& [key, label] : t.labels.by_key()) {
        if (label.op() == Operator::kDoesNotExist) continue;
        for (auto& expression : expressions(label)) type.requirements.push_back(std::move(expression));
      }
      if (t.labels.find(std::string(words::kGpuProduct)) == nullptr && t.gpus > 0)
        type.requirements.push_back({std::string(words::kGpuProduct), Operator::kIn, {t.gpu_product}, {}});
      if (const auto region = region_of(offering.zone); !region.empty())
        type.requirements.push_back({std::string(kRegion), Operator::kIn, {region}, {}});
      std::size_t at = first;
      const auto same = [&](const pack::InstanceType& other) {
        return other.cpu_milli == type.cpu_milli && other.memory_bytes == type.memory_bytes &&
               other.pods == type.pods && other.extended == type.extended && other.requirements == type.requirements;
      };
      while (at < out.types.size() && !same(out.problem.types[at])) ++at;
      if (at == out.types.size()) {
        out.types.push_back({&t, {}});
        out.problem.types.push_back(std::move(type));
      }
      out.problem.types[at].offerings.push_back(
          {offering.zone, std::string(name_of(offering.market)), usd(rate.per_hour), true});
      out.types[at].offerings.push_back(std::move(offering));
    }
  }
}

JointPlanner::Problem JointPlanner::problem_of(const Pool& pool, Types types, const Items& items,
                                               const std::vector<Pending>& pending) const {
  Problem out;
  out.problem.pool.labels = pool.labels;
  out.problem.pool.labels[std::string(words::kNodePool)] = pool.name;
  for (const auto& rule : pool.rules) {
    for (auto& expression : expressions(rule)) out.problem.pool.requirements.push_back(std::move(expression));
  }
  out.problem.pool.taints = pool.taints;
  std::vector<PodSet> sets;
  for (const auto* item : items) sets.insert(sets.end(), item->pod_sets.begin(), item->pod_sets.end());
  add_types(pool, types, sets, out);
  const bool zones = std::ranges::all_of(out.types, [](const Problem::Type& type) {
    return std::ranges::none_of(type.offerings, [](const Offering& offering) { return offering.zone.empty(); });
  });
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const auto [item, set] = pending[i];
    const bool again = i > 0 && pending[i - 1].item == item && pending[i - 1].set == set;
    const PodSet& pods = items[item]->pod_sets[static_cast<std::size_t>(set)];
    out.problem.pods.push_back(again ? out.problem.pods.back() : pod_of(*items[item], pods, nodes_.needs(pods), zones));
  }
  return out;
}

// The constraints as the rest of the engine evaluates them.
bool JointPlanner::fits(const Node& node, const Items& items) const {
  const NodeSide side{*node.offer.pool, node.offer.labels, *node.offer.type, node.offer.offering.zone,
                      node.offer.offering.market};
  FreeCapacity capacity = nodes_.empty(side);
  return std::ranges::all_of(node.pods, [&](const Node::Pods& pods) {
    const PodSet& set = items[pods.item]->pod_sets[static_cast<std::size_t>(pods.set)];
    return nodes_.accepts(set, side) && capacity.take(set.shape, nodes_.needs(set), pods.count) == pods.count;
  });
}

bool JointPlanner::plan_pool(const Pool& pool, Types types, const Items& items, Usage& in_use,
                             std::vector<Pending>& pending, Sum& out) const {
  Problem made = problem_of(pool, types, items, pending);
  if (made.types.empty()) return true;
  const auto packed = pack::pack(made.problem, {usd(options_.node_price), {}, {}});
  if (!packed) return false;
  for (const auto& planned : packed->nodes) {
    const auto& type = made.types[planned.type];
    const auto& priced = made.problem.types[planned.type].offerings[planned.offering];
    Node node{{&pool, type.type, type.offerings[planned.offering], 1, money(priced.price), {}}, {}};
    std::vector<PodSet> sets;
    for (const std::size_t pod : planned.pods) {
      const auto [item, set] = pending[pod];
      if (node.pods.empty() || node.pods.back().item != item || node.pods.back().set != set) {
        node.pods.push_back({item, set, 0});
        sets.push_back(items[item]->pod_sets[static_cast<std::size_t>(set)]);
      }
      ++node.pods.back().count;
    }
    const auto labels = nodes_.chosen_labels(pool, sets);
    if (!labels) return false;
    node.offer.labels = *labels;
    in_use.add(*type.type, 1);
    if (!in_use.beyond(pool).empty() || !fits(node, items)) return false;
    out.plan.nodes.push_back(std::move(node));
  }
  out.plan.per_hour += money(packed->price);
  out.cost += packed->cost, out.bound += packed->bound;
  std::vector<Pending> left;
  for (const auto& one : packed->unplaced) left.push_back(pending[one.pod]);
  pending = std::move(left);
  return true;
}

JointPlanner::Plan JointPlanner::plan(const Items& items, const std::map<std::string, Usage>& usage) const {
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (std::size_t set = 0; set < items[i]->pod_sets.size(); ++set) {
      for (std::int32_t pod = 0; pod < items[i]->pod_sets[set].count && pending.size() < kMostPods; ++pod)
        pending.push_back({i, static_cast<std::int32_t>(set)});
    }
  }
  Sum out;
  for (const Pool* pool : offers_.pools_in_order()) {
    if (pending.empty()) break;
    if (!pool->min_values.empty()) return {};
    const auto known = usage.find(pool->name);
    Usage in_use = known == usage.end() ? Usage{} : known->second;
    for (const Types types : {Types::kWithoutFault, Types::kWithFault}) {
      const bool any = !pending.empty() && has_any(*pool, types);
      if (any && !plan_pool(*pool, types, items, in_use, pending, out)) return {};
    }
  }
  out.plan.gap = out.bound > 0 ? out.cost / out.bound - 1 : 0;
  std::ranges::stable_sort(out.plan.nodes, {}, [](const Node& node) { return node.pods.front().item; });
  return std::move(out.plan);
}

}  // namespace qm::autoscaler
