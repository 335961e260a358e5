#include "engine/disruption/mig_victim_search.hpp"

#include "engine/disruption/hypothetical_evictions.hpp"
#include "qm/placement/minimal_subset.hpp"

#include <algorithm>
#include <array>
#include <variant>

namespace qm::placement {

namespace {

constexpr std::size_t kMostNodes = 256;       // nodes with options
constexpr std::size_t kMaxAlternatives = 64;  // options in one plan
constexpr std::size_t kMaxVictims = 64;       // in one plan; each is tried without eviction
constexpr std::int64_t kMaxLacking = 512;

/// A workload on a node, with its number of instances there.
struct Holder {
  std::int64_t cost = 0;
  AttemptId id;
  std::int64_t instances = 0;
  friend auto operator<=>(const Holder&, const Holder&) = default;
};

/// The cheapest holders that together have `lacking` instances; empty if all together have fewer.
std::set<AttemptId> cheapest_with(std::int64_t lacking, const std::vector<Holder>& holders) {
  struct Sum {
    std::int64_t cost = 0;
    std::set<AttemptId> victim_ids;
  };
  if (lacking <= 0 || lacking > kMaxLacking) return {};
  std::vector<std::optional<Sum>> best(static_cast<std::size_t>(lacking) + 1);
  best[0] = Sum{};
  for (const Holder& one : holders) {
    for (std::int64_t have = lacking; have > 0; --have) {
      const auto& before = best[static_cast<std::size_t>(std::max<std::int64_t>(0, have - one.instances))];
      auto& after = best[static_cast<std::size_t>(have)];
      if (!before || (after && after->cost <= before->cost + one.cost)) continue;
      Sum sum = *before;
      sum.cost += one.cost;
      sum.victim_ids.insert(one.id);
      after = std::move(sum);
    }
  }
  return best.back() ? best.back()->victim_ids : std::set<AttemptId>();
}

}  // namespace

MigVictimSearch::MigVictimSearch(const State& state, const Victims& victims, const RepartitionSearch& search,
                                 const Capacities& capacities, const MigLayouts& layouts, WorkloadUid uid,
                                 const std::set<AttemptId>& terminating)
    : state_(state),
      victims_(victims),
      search_(search),
      capacities_(capacities),
      layouts_(layouts),
      uid_(std::move(uid)),
      sets_(state.tables.workloads.find(uid_)->spec.pod_sets),
      offers_(state, capacities, layouts) {
  for (const auto& [id, row] : state.tables.assignments) {
    if (terminating.contains(id) || !victims.may_preempt(id, row, uid_, true)) continue;
    bool uses = false;
    for (const Member& member : row.members) {
      if (!member.live() || row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu.none()) continue;
      users_[member.node].insert(id);
      uses = true;
    }
    if (uses) losses_.emplace(id, loss_of(state, id));
  }
}

MigVictimSearch::Loss MigVictimSearch::loss_of(const State& state, const AttemptId& id) {
  const Assignment& row = *state.tables.assignments.find(id);
  std::vector<std::int64_t> pods(row.pod_sets.size());
  for (const Member& member : row.members) {
    if (member.live()) ++pods[static_cast<std::size_t>(member.set)];
  }
  std::int64_t milli = 0;
  for (std::size_t set = 0; set < pods.size(); ++set) milli += row.pod_sets[set].shape.gpu.total_milli(pods[set]);
  const auto& rules = state.options.preemption;
  const Duration time =
      std::max(Duration{}, state.last_now - HypotheticalEvictions::work_since(state.tables, id)) + rules.restart;
  const auto work = static_cast<plan::Wide>(milli) * time.count();
  return {static_cast<std::int64_t>(work / 1'000'000),
          static_cast<std::int64_t>(work * rules.micro_usd_gpu_second / (std::int64_t{1000} * 1'000'000))};
}

std::optional<MigVictimSearch::Found> MigVictimSearch::cheapest(bool may_repartition) {
  std::vector<std::pair<std::int64_t, NodeName>> nodes;  // the least lost work first
  for (const auto& [name, capacity] : state_.index.free_capacity) {
    fits_[name] = fits_in(capacity);
    const auto users = users_.find(name);
    if (users != users_.end()) {
      nodes.emplace_back(lost(users->second), name);
    } else if (may_repartition && search_.why_not(name, without({})).empty()) {
      nodes.emplace_back(0, name);
    }
  }
  std::ranges::sort(nodes);
  if (nodes.size() > kMostNodes) nodes.resize(kMostNodes);
  for (const auto& [work, name] : nodes) alternatives_[name] = options_of(name, {}, may_repartition);
  constexpr std::array<std::pair<bool, bool>, 3> kKinds{{{true, false}, {false, true}, {true, true}}};
  std::optional<Found> best;
  for (const auto& [with_evictions, with_repartitions] : kKinds) {
    if (with_repartitions && !may_repartition) continue;
    auto found = run(with_evictions, with_repartitions);
    if (found && (!best || found->cost() < best->cost())) best = std::move(found);
  }
  return best;
}

MigVictimSearch::Fits MigVictimSearch::fits_in(const NodeCapacity& capacity) const {
  Fits out;
  for (const PodSet& set : sets_) out.push_back(instance_pods_that_fit(capacity, set));
  return out;
}

HypotheticalState MigVictimSearch::without(std::set<AttemptId> victims) const {
  return {.attempts = std::move(victims), .holds = {uid_}, .defrag = true};
}

std::int64_t MigVictimSearch::lost(const std::set<AttemptId>& victims) const {
  std::int64_t out = 0;
  for (const AttemptId& id : victims) out += loss(id).micro_usd;
  return out;
}

NodeCapacity MigVictimSearch::capacity(const NodeName& name, const Hypothesis& hypothesis) {
  const auto repartition = hypothesis.repartitions.find(name);
  const HypotheticalState hypothetical = without(hypothesis.victims);
  if (repartition == hypothesis.repartitions.end()) return capacities_.capacity_of(name, hypothetical);
  return offers_.capacity(name, *offers_.layout(state_.tables.nodes.find(name)->facts, repartition->second),
                          hypothetical);
}

std::int64_t MigVictimSearch::missing(const Fits& sum) const {
  std::int64_t out = 0;
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    if (sets_[set].shape.gpu.mig_count > 0) out += std::max<std::int64_t>(0, minimum_of(sets_[set]) - sum[set]);
  }
  return out;
}

std::vector<MigVictimSearch::Alternative> MigVictimSearch::options_of(const NodeName& name,
                                                                      const Hypothesis& hypothesis,
                                                                      bool may_repartition) {
  std::vector<Alternative> out;
  if (hypothesis.repartitions.contains(name)) return out;
  const auto here = users_.find(name);
  const std::set<AttemptId> no_users;
  const auto& users = here == users_.end() ? no_users : here->second;
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    if (sets_[set].shape.gpu.mig_count == 0 || users.empty()) continue;
    if (auto alternative = release(name, set, users, hypothesis)) out.push_back(std::move(*alternative));
  }
  if (may_repartition) repartition(name, users, hypothesis, out);
  return out;
}

std::optional<MigVictimSearch::Alternative> MigVictimSearch::release(const NodeName& name, std::size_t set,
                                                                     const std::set<AttemptId>& users,
                                                                     const Hypothesis& hypothesis) {
  const GpuShape& wanted = sets_[set].shape.gpu;
  std::vector<Holder> holders;
  for (const AttemptId& id : users) {
    if (hypothesis.victims.contains(id)) continue;
    const Assignment& row = *state_.tables.assignments.find(id);
    std::int64_t instances = 0;
    for (const Member& member : row.members) {
      const GpuShape& has = row.pod_sets[static_cast<std::size_t>(member.set)].shape.gpu;
      if (member.live() && member.node == name && has.mig_profile == wanted.mig_profile) instances += has.mig_count;
    }
    if (instances > 0) holders.push_back({loss(id).micro_usd, id, instances});
  }
  if (holders.empty()) return std::nullopt;
  std::ranges::sort(holders);
  const NodeCapacity now = capacity(name, hypothesis);
  const auto before = instance_pods_that_fit(now, sets_[set]);
  if (before == sets_[set].count) return std::nullopt;
  const auto idle = now.extended.find(std::string(words::kMigPrefix) + wanted.mig_profile);
  const auto lacking = (before + 1) * wanted.mig_count - (idle == now.extended.end() ? 0 : idle->second);

  Alternative alternative;
  alternative.node = name;
  alternative.victims = cheapest_with(lacking, holders);
  Hypothesis then = hypothesis;
  const auto enough = [&](const std::set<AttemptId>& victims) {
    then.victims = hypothesis.victims;
    then.victims.insert(victims.begin(), victims.end());
    return instance_pods_that_fit(capacity(name, then), sets_[set]) > before;
  };
  // If another resource is short, more victims have to leave; not all of the former ones may be needed
  // then.
  for (const Holder& one : holders) {
    if (enough(alternative.victims)) break;
    alternative.victims.insert(one.id);
  }
  if (!enough(alternative.victims)) return std::nullopt;
  std::vector<AttemptId> needed;  // the holders with the least lost work first
  for (const Holder& one : holders) {
    if (alternative.victims.contains(one.id)) needed.push_back(one.id);
  }
  needed = minimal_subset(std::move(needed), [&](const std::vector<AttemptId>& fewer) {
    return enough({fewer.begin(), fewer.end()});
  });
  alternative.victims = {needed.begin(), needed.end()};
  (void)enough(alternative.victims);
  alternative.fits = fits_in(capacity(name, then));
  alternative.cost = lost(alternative.victims);
  return alternative;
}

void MigVictimSearch::repartition(const NodeName& name, const std::set<AttemptId>& users, const Hypothesis& hypothesis,
                                  std::vector<Alternative>& out) {
  Hypothesis then = hypothesis;
  then.victims.insert(users.begin(), users.end());
  const HypotheticalState hypothetical = without(then.victims);
  if (!search_.why_not(name, hypothetical).empty()) return;
  Alternative alternative;
  alternative.node = name;
  std::ranges::set_difference(users, hypothesis.victims, std::inserter(alternative.victims, alternative.victims.end()));
  const NodeFacts& facts = state_.tables.nodes.find(name)->facts;
  const auto lost_work = lost(alternative.victims);
  for (const std::string& layout : offers_.names(*mig::model_of(facts.model))) {
    const auto* made = offers_.layout(facts, layout);
    const auto cost = made == nullptr ? 0 : offers_.cost(name, *made);
    if (cost == 0) continue;
    alternative.layout = layout;
    alternative.cost = lost_work + cost;
    alternative.fits = fits_in(offers_.capacity(name, *made, hypothetical));
    out.push_back(alternative);
  }
}

const MigVictimSearch::Alternative* MigVictimSearch::best_of(
    const std::map<NodeName, std::vector<Alternative>>& alternatives, const std::map<NodeName, Fits>& fits,
    const Fits& sum, bool with_evictions, bool with_repartitions) const {
  const Alternative* best = nullptr;
  plan::Wide most = 0;
  const auto lacking = missing(sum);
  for (const auto& [name, here] : alternatives) {
    const Fits& before = fits.at(name);
    for (const Alternative& alternative : here) {
      if (alternative.layout.empty() ? !with_evictions : !with_repartitions) continue;
      Fits then = sum;
      std::int64_t more = 0;
      for (std::size_t set = 0; set < then.size(); ++set) {
        then[set] += alternative.fits[set] - before[set];
        more += std::max<std::int64_t>(0, alternative.fits[set] - before[set]);
      }
      // If the counts are enough and the placement still fails, any additional capacity may help.
      const auto gain = lacking > 0 ? lacking - missing(then) : more;
      if (gain <= 0) continue;
      if (best != nullptr && alternative.cost * most >= static_cast<plan::Wide>(best->cost) * gain) continue;
      best = &alternative;
      most = gain;
    }
  }
  return best;
}

std::optional<MigVictimSearch::Found> MigVictimSearch::run(bool with_evictions, bool with_repartitions) {
  Hypothesis hypothesis;
  auto fits = fits_;
  auto alternatives = alternatives_;
  Fits sum(sets_.size());
  const auto count = [&](const NodeName& name, int sign) {
    for (std::size_t set = 0; set < sum.size(); ++set) sum[set] += sign * fits.at(name)[set];
  };
  for (const auto& [name, here] : fits) count(name, 1);
  for (std::size_t taken = 0; taken <= kMaxAlternatives && hypothesis.victims.size() <= kMaxVictims; ++taken) {
    if (missing(sum) == 0) {
      auto placed = victims_.placed_with_layouts(uid_, hypothesis.victims, hypothesis.repartitions);
      if (placed.plan) return fewest(std::move(hypothesis), std::move(placed.plan->members));
    }
    const Alternative* best = best_of(alternatives, fits, sum, with_evictions, with_repartitions);
    if (best == nullptr) return std::nullopt;
    std::set<NodeName> touched{best->node};
    hypothesis.victims.insert(best->victims.begin(), best->victims.end());
    if (!best->layout.empty()) hypothesis.repartitions[best->node] = best->layout;
    for (const AttemptId& id : best->victims) {
      for (const Member& member : state_.tables.assignments.find(id)->members) {
        if (member.live()) touched.insert(member.node);
      }
    }
    for (const NodeName& name : touched) {
      if (!fits.contains(name)) continue;
      count(name, -1);
      fits[name] = fits_in(capacity(name, hypothesis));
      count(name, 1);
      if (alternatives.contains(name)) alternatives[name] = options_of(name, hypothesis, with_repartitions);
    }
  }
  return std::nullopt;
}

std::optional<MigVictimSearch::Found> MigVictimSearch::fewest(Hypothesis hypothesis,
                                                              std::vector<Member> members) const {
  using Item = std::variant<AttemptId, NodeName>;  // a victim, or a node to repartition
  const auto part = [&](const std::vector<Item>& items) {
    Hypothesis out;
    for (const Item& item : items) {
      if (const auto* id = std::get_if<AttemptId>(&item)) {
        out.victims.insert(*id);
      } else {
        out.repartitions.insert(*hypothesis.repartitions.find(std::get<NodeName>(item)));
      }
    }
    return out;
  };
  std::vector<std::pair<std::int64_t, AttemptId>> most_expensive;
  for (const AttemptId& id : hypothesis.victims) most_expensive.emplace_back(-loss(id).micro_usd, id);
  std::ranges::sort(most_expensive);
  std::vector<Item> items;  // the last is dropped first: repartitions, then the most expensive victims
  for (auto victim = most_expensive.rbegin(); victim != most_expensive.rend(); ++victim)
    items.emplace_back(victim->second);
  const auto& nodes = hypothesis.repartitions;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) items.emplace_back(node->first);
  // Dropping one may make another unnecessary.
  for (std::size_t before = items.size() + 1; before != items.size();) {
    before = items.size();
    items = minimal_subset(std::move(items), [&](const std::vector<Item>& fewer) {
      const Hypothesis tried = part(fewer);
      auto placed = victims_.placed_with_layouts(uid_, tried.victims, tried.repartitions);
      if (!placed.plan) return false;
      members = std::move(placed.plan->members);
      return true;
    });
  }
  hypothesis = part(items);
  Found out{std::move(hypothesis.victims), std::move(hypothesis.repartitions), std::move(members), 0, 0};
  if (out.victims.empty()) return std::nullopt;  // no victims needed: not a case for a proposal
  out.lost = lost(out.victims);
  MigLayoutCatalog offers(state_, capacities_, layouts_);
  for (const auto& [name, layout] : out.repartitions) {
    if (std::ranges::find(out.members, name, &Member::node) == out.members.end()) return std::nullopt;
    out.repartition_cost += offers.cost(name, *offers.layout(state_.tables.nodes.find(name)->facts, layout));
  }
  return out;
}

}  // namespace qm::placement
