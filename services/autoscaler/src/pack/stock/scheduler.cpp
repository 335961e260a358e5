#include "stock/scheduler.hpp"

#include "qm/base/parse.hpp"

#include <algorithm>
#include <cmath>

namespace qm::autoscaler::pack {
namespace {

constexpr std::int64_t kMostScore = 100;
constexpr std::int64_t kDefaultCpu = 100, kDefaultMemory = 200 * (std::int64_t{1} << 20);  // of pods without requests
constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;
constexpr std::size_t kLeastSample = 100, kLeastPercent = 5;

/// How many feasible nodes the scheduler looks for before it scores them.
std::size_t sample_of(std::size_t nodes) {
  if (nodes < kLeastSample) return nodes;
  const std::size_t percent = std::max(kLeastPercent, nodes / 125 >= 50 ? 0 : 50 - nodes / 125);
  return std::max(kLeastSample, nodes * percent / 100);
}

kube_rules::Requirement converted(const NodeRequirement& from) {
  using Op = kube_rules::Requirement::Op;
  const auto shifted = [&](std::int64_t by) {
    return std::vector<std::string>{std::to_string(whole_number(from.values.front()).value_or(0) + by)};
  };
  switch (from.op) {
    case Operator::kIn:
      return {from.key, Op::kIn, from.values};
    case Operator::kNotIn:
      return {from.key, Op::kNotIn, from.values};
    case Operator::kExists:
      return {from.key, Op::kExists, {}};
    case Operator::kDoesNotExist:
      return {from.key, Op::kDoesNotExist, {}};
    case Operator::kGt:
      return {from.key, Op::kGt, from.values};
    case Operator::kLt:
      return {from.key, Op::kLt, from.values};
    case Operator::kGte:
      return {from.key, Op::kGt, shifted(-1)};
    case Operator::kLte:
      return {from.key, Op::kLt, shifted(1)};
  }
  return {};
}

kube_rules::SelectorTerm converted(const NodeTerm& from) {
  kube_rules::SelectorTerm out;
  for (const auto& one : from) out.labels.push_back(converted(one));
  return out;
}

kube_rules::PodTemplate template_of(const Pod& pod) {
  kube_rules::PodTemplate out{Namespace(pod.name_space), pod.labels, {}};
  out.rules.node_selector = pod.node_selector;
  out.rules.tolerations = pod.tolerations;
  if (!pod.required.empty()) {
    out.rules.required.emplace();
    for (const auto& term : pod.required) out.rules.required->push_back(converted(term));
  }
  for (const auto& one : pod.preferred) out.rules.preferred.push_back({one.weight, converted(one.term)});
  for (const auto& one : pod.spread) {
    kube_rules::Spread spread{one.topology_key};
    spread.max_skew = one.max_skew, spread.required = one.required, spread.pods = one.pods;
    out.rules.spread.push_back(std::move(spread));
  }
  for (const auto& one : pod.affinity) out.rules.affinity.push_back({one.topology_key, one.pods, {}, {}});
  for (const auto& one : pod.anti_affinity) out.rules.anti_affinity.push_back({one.topology_key, one.pods, {}, {}});
  return out;
}

NodeName name_of_slot(std::size_t slot) { return NodeName("n" + std::to_string(slot)); }

std::int64_t free_percent(std::int64_t requested, std::int64_t allocatable) {
  return allocatable <= 0 || requested > allocatable ? 0 : (allocatable - requested) * kMostScore / allocatable;
}

/// The score of BalancedAllocation for CPU and memory.
std::int64_t balance_of(const Load& used, const Load& room) {
  const auto part = [&](std::size_t r) {
    return std::min(1.0, static_cast<double>(used[r]) / static_cast<double>(room[r]));
  };
  const double deviation = room[0] > 0 && room[1] > 0 ? std::abs(part(0) - part(1)) / 2 : 0;
  return static_cast<std::int64_t>((1 - deviation) * static_cast<double>(kMostScore));
}

}  // namespace

StockScheduler::StockScheduler(const Problem& problem, const Model& model) : problem_(problem), model_(model) {
  for (const auto& one : model.classes) {
    for (const auto pod : one.pods) pods_.push_back({pod, {}, one.load, 0});
  }
  std::ranges::sort(pods_, {}, &PodEntry::pod);
  for (auto& entry : pods_) {
    entry.uid = std::to_string(entry.pod);
    entry.rules = book_.hold(template_of(problem.pods[entry.pod]));
  }
}

void StockScheduler::put_node(std::size_t slot, std::size_t offer) {
  kube_rules::NodeView view{name_of_slot(slot), model_.offers.list[offer].labels, problem_.pool.taints, false, {}};
  view.allocatable["pods"] = kNoLimit;  // capacity is judged here, on integers without names
  view.labels[std::string(kHostLabel)] = view.name.value();
  book_.put_node(view);
  slots_[slot] = {offer, *book_.index_of(view.name)};
  if (slots_[slot].index >= slot_of_.size()) slot_of_.resize(slots_[slot].index + 1);
  slot_of_[slots_[slot].index] = slot;
}

void StockScheduler::set_nodes(const Fleet& fleet) {
  for (const auto entry : bound_) book_.drop_pod(pods_[entry].uid);
  bound_.clear();
  for (; slots_.size() > fleet.size(); slots_.pop_back()) book_.drop_node(name_of_slot(slots_.size() - 1));
  for (std::size_t i = 0; i < fleet.size(); ++i) {
    const bool fresh = i == slots_.size();
    if (fresh) slots_.emplace_back();
    if (fresh || slots_[i].offer != fleet[i]) put_node(i, fleet[i]);
  }
  // The scheduler takes one node of each zone in turn.
  std::vector<std::vector<std::size_t>> by_zone(model_.offers.zones.size());
  for (std::size_t i = 0; i < fleet.size(); ++i) by_zone[model_.offers.list[fleet[i]].zone].push_back(i);
  order_.clear();
  for (std::size_t round = 0; order_.size() < fleet.size(); ++round) {
    for (const auto& zone : by_zone) {
      if (round < zone.size()) order_.push_back(zone[round]);
    }
  }
  states_.assign(fleet.size(), {});
  for (std::size_t i = 0; i < fleet.size(); ++i) {
    states_[i].room = model_.masks.room_of(fleet[i]);
    states_[i].balance = kMostScore;
  }
  start_ = 0;
  wanted_ = sample_of(fleet.size());
}

/// One of the best slots of candidates_.
std::size_t StockScheduler::chosen(const PodEntry& pod) {
  const std::int64_t cpu = pod.load[0] > 0 ? pod.load[0] : kDefaultCpu;
  const std::int64_t memory = pod.load[1] > 0 ? pod.load[1] : kDefaultMemory;
  const bool best_effort = pod.load[0] == 0 && pod.load[1] == 0;
  scores_.assign(candidates_.size(), 0);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const NodeState& node = states_[candidates_[i]];
    scores_[i] = (free_percent(node.cpu + cpu, node.room[0]) + free_percent(node.memory + memory, node.room[1])) / 2;
    if (best_effort) continue;
    const Load with{node.used[0] + pod.load[0], node.used[1] + pod.load[1]};
    scores_[i] += kMostScore / 2 + (kMostScore / 2 + balance_of(with, node.room) - node.balance) / 2;
  }
  if (!book_.indifferent(pod.rules)) {
    kube_rules::NodeSet among;
    for (const auto slot : candidates_) among.insert(slots_[slot].index);
    std::vector<std::int64_t> soft(states_.size(), 0);
    for (const auto& one : book_.preferences(pod.rules, among)) soft[slot_of_[one.node]] = one.score;
    for (std::size_t i = 0; i < candidates_.size(); ++i) scores_[i] += soft[candidates_[i]];
  }
  std::size_t best = 0;
  std::size_t ties = 1;
  for (std::size_t i = 1; i < candidates_.size(); ++i) {
    if (scores_[i] > scores_[best]) {
      best = i, ties = 1;
    } else if (scores_[i] == scores_[best] && random_.below(++ties) == 0) {
      best = i;
    }
  }
  return candidates_[best];
}

bool StockScheduler::bind(const PodEntry& pod, Outcome& out) {
  const auto feasible = book_.feasible(pod.rules);
  candidates_.clear();
  std::size_t seen = 0;
  for (; seen < order_.size() && candidates_.size() < wanted_; ++seen) {
    const std::size_t at = start_ + seen, slot = order_[at < order_.size() ? at : at - order_.size()];
    const NodeState& node = states_[slot];
    bool fits = true;
    for (std::size_t r = 0; r < model_.resources && fits; ++r) fits = node.used[r] + pod.load[r] <= node.room[r];
    if (fits && feasible.contains(slots_[slot].index)) candidates_.push_back(slot);
  }
  start_ = order_.empty() ? 0 : (start_ + seen) % order_.size();
  if (candidates_.empty()) return false;
  const std::size_t slot = chosen(pod);
  NodeState& node = states_[slot];
  for (std::size_t r = 0; r < model_.resources; ++r) node.used[r] += pod.load[r];
  node.cpu += pod.load[0] > 0 ? pod.load[0] : kDefaultCpu;
  node.memory += pod.load[1] > 0 ? pod.load[1] : kDefaultMemory;
  node.balance = balance_of(node.used, node.room);
  book_.put_pod({pod.uid, name_of_slot(slot), pod.rules});
  bound_.push_back(static_cast<std::size_t>(&pod - pods_.data()));
  out.node_of[pod.pod] = static_cast<std::uint32_t>(slot);
  return true;
}

StockScheduler::Outcome StockScheduler::run(const Fleet& fleet, std::uint64_t seed) {
  set_nodes(fleet);
  random_ = Random(seed);
  Outcome out;
  out.node_of.assign(problem_.pods.size(), kUnbound);
  std::vector<const PodEntry*> pending, again;
  for (const auto& pod : pods_) {
    if (!bind(pod, out)) pending.push_back(&pod);
  }
  for (bool progress = true; progress && !pending.empty(); pending.swap(again)) {
    progress = false;
    again.clear();
    for (const auto* pod : pending) {
      if (bind(*pod, out)) {
        progress = true, out.in_order = false;
      } else {
        again.push_back(pod);
      }
    }
  }
  for (const auto* pod : pending) out.unbound.push_back(pod->pod);
  return out;
}

}  // namespace qm::autoscaler::pack
