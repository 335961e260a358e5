#include "qm/admission/kueue/flavors.hpp"

#include <algorithm>
#include <array>

namespace qm::admission::kueue {

std::optional<std::size_t> QueueRules::Group::index_of(Resource r) const {
  const auto found = std::ranges::find(resources, r);
  if (found == resources.end()) return std::nullopt;
  return static_cast<std::size_t>(found - resources.begin());
}

const QueueRules::Group* QueueRules::group_of(Resource r) const {
  const auto found = std::ranges::find_if(groups, [&](const Group& g) { return g.index_of(r).has_value(); });
  return found == groups.end() ? nullptr : &*found;
}

int Scan::next(std::size_t pod_set, Resource r) const {
  if (pod_set >= tried.size()) return 0;
  for (const auto& [resource, last] : tried[pod_set]) {
    if (resource == r) return last + 1;
  }
  return 0;
}

bool Scan::unfinished() const {
  return std::ranges::any_of(tried, [](const auto& set) {
    return std::ranges::any_of(set, [](const auto& one) { return one.second != -1; });
  });
}

Mode Assignment::mode() const {
  Mode worst = Mode::kFit;
  for (const auto& set : sets) {
    if (set.fits_nothing) return Mode::kNoFit;
    if (set.taken_to_fit) continue;
    for (const auto& choice : set.flavors) {
      worst = std::min(worst, choice.mode == Mode::kFit ? Mode::kFit : Mode::kPreempt);
    }
  }
  return worst;
}

std::string_view name_of(NoFit reason) {
  switch (reason) {
    case NoFit::kNone:
      return "";
    case NoFit::kNoMatchingFlavor:
      return "NoMatchingFlavor";
    case NoFit::kExceedsMaxQuota:
      return "ExceedsMaxQuota";
    case NoFit::kWaitingForQuota:
      return "WaitingForQuota";
    case NoFit::kTopologyPlacementFailed:
      return "TopologyPlacementFailed";
  }
  return "";
}

NoFit Assignment::no_fit() const {
  NoFit out = NoFit::kNone;
  for (const auto& set : sets) {
    if (set.fits_nothing) out = std::max(out, set.no_fit);
  }
  return out;
}

std::optional<Flavor> Assignment::flavor_of(std::size_t set, Resource resource) const {
  if (set >= sets.size()) return std::nullopt;
  const auto found = std::ranges::find(sets[set].flavors, resource, &FlavorChoice::resource);
  if (found == sets[set].flavors.end()) return std::nullopt;
  return found->flavor;
}

void Assignment::Set::block(Flavor flavor, NoFit reason) {
  const auto same = std::ranges::find(blocked, flavor, [](const auto& b) { return b.first; });
  if (same == blocked.end()) {
    blocked.emplace_back(flavor, reason);
  } else {
    same->second = std::max(same->second, reason);
  }
}

std::vector<Cell> Assignment::contested() const {
  std::vector<Cell> out;
  for (const auto& set : sets) {
    for (const auto& choice : set.flavors) {
      if (choice.mode != Mode::kFit) out.push_back(choice.cell);
    }
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// The requests of several pod sets together, without subtracting the slice that they replace.
struct FlavorAssigner::Requests {
  std::vector<std::pair<Resource, std::int64_t>> of;
};

namespace {

constexpr auto first = [](const std::pair<Resource, std::int64_t>& request) { return request.first; };

const PodSet::Before* before_of(const PodSet& set, Resource resource) {
  const auto found = std::ranges::find(set.before, resource, &PodSet::Before::resource);
  return found == set.before.end() ? nullptr : &*found;
}

bool has_option(const QueueRules::Group& group, Flavor flavor) {
  return std::ranges::find(group.options, flavor, &QueueRules::Option::flavor) != group.options.end();
}

/// A flavor of several resource groups counts with its worst result.
void merge(std::vector<Attempt>& to, const std::vector<Attempt>& more) {
  for (const auto& attempt : more) {
    const auto same = std::ranges::find(to, attempt.flavor, &Attempt::flavor);
    if (same == to.end()) {
      to.push_back(attempt);
      continue;
    }
    same->value.mode = std::min(same->value.mode, attempt.value.mode);
    same->value.level = std::max(same->value.level, attempt.value.level);
    same->no_fit = std::max(same->no_fit, attempt.no_fit);
    same->whys.insert(same->whys.end(), attempt.whys.begin(), attempt.whys.end());
  }
}

bool in_several_groups(const QueueRules& rules, Flavor flavor) {
  if (rules.groups.size() < 2) return false;
  return std::ranges::count_if(rules.groups,
                               [&](const QueueRules::Group& group) { return has_option(group, flavor); }) > 1;
}

/// A flavor that the search of another group reached, and that of this group, which has it too, did not, does not
/// provide the resource. `reached`: of the flavors of several groups, those that this search reached.
void leave_out(const QueueRules::Group& group, Resource resource, const std::vector<Flavor>& reached,
               Assignment::Set& made) {
  for (const Flavor flavor : made.reached) {
    if (!has_option(group, flavor) || std::ranges::find(reached, flavor) != reached.end()) continue;
    made.block(flavor, NoFit::kNoMatchingFlavor);
    const auto attempt = std::ranges::find(made.attempts, flavor, &Attempt::flavor);
    if (attempt == made.attempts.end()) continue;
    attempt->value.mode = Mode::kNoFit;
    attempt->no_fit = NoFit::kNoMatchingFlavor;
    attempt->whys.push_back({.kind = Why::Kind::kNotProvided, .flavor = flavor, .resource = resource});
  }
  for (const Flavor flavor : reached) {
    if (std::ranges::find(made.reached, flavor) == made.reached.end()) made.reached.push_back(flavor);
  }
}

}  // namespace

Amounts FlavorAssigner::total_requests(const Work& work, const Assignment& assignment) const {
  const bool replaces = std::ranges::any_of(work.pod_sets, &PodSet::replaces);
  Amounts out;
  for (std::size_t i = 0; i < assignment.sets.size(); ++i) {
    const auto& set = work.pod_sets[i];
    const std::int64_t pods = replaces ? set.count - set.pods_before : assignment.sets[i].count;
    for (const auto& choice : assignment.sets[i].flavors) {
      const auto each = std::ranges::find(set.each, choice.resource, first);
      const std::int64_t of_pod = each != set.each.end() ? each->second : static_cast<int>(choice.resource == pods_);
      if (of_pod * pods != 0) add_to(out, choice.cell, of_pod * pods);
    }
  }
  return out;
}

/// Whether one of several pod sets requests the resource; all of them request pods.
bool FlavorAssigner::asks(const PodSet& set, Resource resource) const {
  return resource == pods_ ||
         std::ranges::find(set.each, resource, [](const auto& r) { return r.first; }) != set.each.end();
}

bool FlavorAssigner::preferred(Fitting a, Fitting b, bool prefers_borrowing) {
  if (a.mode == Mode::kNoFit) return false;
  if (b.mode == Mode::kNoFit) return true;
  if ((a.mode == Mode::kNoCandidates) != (b.mode == Mode::kNoCandidates)) return b.mode == Mode::kNoCandidates;
  if (prefers_borrowing) return a.mode != b.mode ? a.mode > b.mode : a.level < b.level;
  return a.level != b.level ? a.level < b.level : a.mode > b.mode;
}

bool FlavorAssigner::stops(Fitting value) const {
  if (value.mode == Mode::kNoFit || value.mode == Mode::kNoCandidates) return false;
  if (value.mode != Mode::kFit && !rules_.stops_at_preemption) return false;
  return value.level == 0 || rules_.stops_at_borrowing;
}

Fitting FlavorAssigner::fitting(const Work& work, Cell cell, std::int64_t amount) const {
  if (amount > tree_.potential(work.queue, cell)) return {Mode::kNoFit, 0};
  const auto level = tree_.level(work.queue, cell, amount);
  if (amount <= tree_.available(work.queue, cell)) return {Mode::kFit, level.height};
  const bool displaces_while_borrowing =
      rules_.preempts_while_borrowing || (fair_sharing_ && rules_.reclaim_within_cohort != PreemptPolicy::kNever);
  if (amount > tree_.quota(work.queue, cell).nominal && !level.in_part && !displaces_while_borrowing) {
    return {Mode::kNoFit, level.height};
  }
  return oracle_.simulate(work, cell, amount);
}

std::optional<Refusal::Why> FlavorAssigner::against_topology(const PodSet& set, Flavor flavor) const {
  if (set.has_topology()) {
    if (!topologies_->has(flavor)) return std::nullopt;  // one of its own refusals then
    if (!topologies_->has_levels(flavor, *set.nodes->topology)) return Refusal::Why::kNoLevel;
  } else if (!rules_.topology_only && topologies_->has(flavor)) {
    return Refusal::Why::kOnlyTopology;
  }
  return std::nullopt;
}

/// The first obstacle of any of the pod sets. A flavor without a topology may serve a pod set that requests one for
/// resources that only quota counts: if its group has none of the pod's node resources.
std::optional<Refusal> FlavorAssigner::refusal(const Work& work, std::span<const std::size_t> sets,
                                               const QueueRules::Group& group, Flavor flavor) const {
  using Kind = Refusal::Why;
  const auto own = [&](std::size_t set) {
    return std::ranges::equal_range(work.pod_sets[set].refused, flavor, {}, &Refusal::flavor);
  };
  for (const auto set : sets) {
    for (const auto& one : own(set)) {
      if (one.why == Kind::kNotAllowed || one.why == Kind::kNotFound) return one;
    }
  }
  for (const auto set : sets) {
    const auto& pod_set = work.pod_sets[set];
    const auto of_group = [&](Resource r) { return group.index_of(r).has_value(); };
    for (const auto& one : own(set)) {
      if (one.why == Kind::kUnknownTopology) return one;
      if (one.why == Kind::kNoTopology && std::ranges::any_of(pod_set.node_resources, of_group)) return one;
    }
    const bool adrift = std::ranges::find(rules_.adrift, flavor) != rules_.adrift.end();
    if (adrift && !rules_.topology_only && !pod_set.has_topology()) return Refusal{flavor, Kind::kOnlyTopology, {}};
    if (topologies_ != nullptr) {
      if (const auto why = against_topology(pod_set, flavor)) return Refusal{flavor, *why, {}};
    }
    for (const auto& one : own(set)) {
      if (one.why == Kind::kTaint || one.why == Kind::kAffinity) return one;
    }
  }
  return std::nullopt;
}

/// Searches the group of `resource`: the mode of the chosen option, kNoFit if no option has the resource.
Mode FlavorAssigner::choose(const Work& work, std::span<const std::size_t> sets, const Requests& requests,
                            Resource resource, const Assignment* same_as, bool explain, Assignment& out) const {
  const auto* group = rules_.group_of(resource);
  std::vector<Attempt> attempts;
  std::vector<Why> whys;
  bool tried = false;
  std::vector<std::pair<Flavor, NoFit>> blocked;
  std::vector<Flavor> reached;
  const auto come_to = [&](Flavor flavor) {
    tried = true;
    if (in_several_groups(rules_, flavor)) reached.push_back(flavor);
  };
  const auto nothing = [&] {
    for (const auto set : sets) {
      auto& made = out.sets[set];
      made.tried = made.tried || tried;
      for (const auto& [flavor, reason] : blocked) made.block(flavor, reason);
      if (explain) merge(made.attempts, attempts);
      if (explain) made.whys = whys;
      if (tried) leave_out(*group, resource, reached, made);
    }
    return Mode::kNoFit;
  };
  if (group == nullptr) {
    if (explain) whys.push_back({.kind = Why::Kind::kNotCovered, .resource = resource});
    for (const auto set : sets) out.sets[set].no_fit = NoFit::kNoMatchingFlavor;
    return nothing();
  }
  std::vector<FlavorChoice> best;
  Fitting best_value{Mode::kNoFit, 0};
  int looked_at = -1;
  const int last = static_cast<int>(group->options.size()) - 1;
  const bool replaces = std::ranges::any_of(work.pod_sets, &PodSet::replaces);
  std::optional<Flavor> pinned;
  for (std::size_t i = 0; same_as != nullptr && !pinned && i < sets.size(); ++i) {
    pinned = same_as->flavor_of(sets[i], resource);
  }
  for (int i = work.scan && same_as == nullptr ? work.scan->next(sets.front(), resource) : 0; i <= last; ++i) {
    looked_at = i;
    const auto& option = group->options[static_cast<std::size_t>(i)];
    if (pinned && *pinned != option.flavor) {
      if (explain) whys.push_back({.kind = Why::Kind::kNotAsBefore, .flavor = option.flavor, .resource = resource});
      continue;
    }
    if (const auto no = refusal(work, sets, *group, option.flavor)) {
      const bool allowed = no->why != Refusal::Why::kNotAllowed;
      if (allowed) {
        come_to(option.flavor);
        blocked.emplace_back(option.flavor, NoFit::kNoMatchingFlavor);
      }
      if (!explain) continue;
      whys.push_back({.kind = Why::Kind::kRefused, .flavor = option.flavor, .refusal = *no});
      if (allowed) {
        attempts.push_back({option.flavor, {Mode::kNoFit, 0}, NoFit::kNoMatchingFlavor, {whys.back()}});
      }
      continue;
    }
    std::vector<FlavorChoice> choices;
    Attempt attempt{option.flavor, {}, NoFit::kNone, {}};
    Fitting worst;
    NoFit here = NoFit::kNone;
    for (const auto& [wanted, all] : requests.of) {
      const auto index = group->index_of(wanted);
      if (!index) continue;
      const Cell cell = option.cells[*index];
      auto amount = all;
      // A slice scales with the flavors that it has; without any of the resource it cannot scale.
      for (std::size_t k = 0; replaces && k < sets.size(); ++k) {
        const auto* before = before_of(work.pod_sets[sets[k]], wanted);
        if (before != nullptr && before->flavor == option.flavor) {
          amount = minus(amount, before->amount);
          continue;
        }
        worst = {Mode::kNoFit, 0};
        here = NoFit::kNoMatchingFlavor;
        const Refusal no{option.flavor, Refusal::Why::kFlavorOfOtherSlice, {}, before == nullptr ? -1 : before->flavor};
        if (explain) {
          attempt.whys.push_back({.kind = Why::Kind::kRefused, .flavor = option.flavor, .refusal = no});
        }
        break;
      }
      const auto earlier = amount_at(out.usage, cell);
      const bool never = plus(amount, earlier) > tree_.potential(work.queue, cell);
      // If one resource does not fit, only whether the others can ever fit is checked.
      if (worst.mode == Mode::kNoFit && !never && !explain) continue;
      const auto part = fitting(work, cell, plus(amount, earlier));
      if (part.mode == Mode::kNoFit) here = std::max(here, never ? NoFit::kExceedsMaxQuota : NoFit::kWaitingForQuota);
      if (explain) add_refusal(work, cell, wanted, earlier, amount, part, attempt);
      attempt.value.level = std::max(attempt.value.level, part.level);
      // The least preferred cell determines the result. If preemption is preferred to borrowing, that may be a cell
      // that fits by borrowing while another one needs victims.
      if (preferred(worst, part, rules_.prefers_borrowing)) worst = part;
      if (worst.mode != Mode::kNoFit) choices.push_back({wanted, option.flavor, cell, part.mode, part.level, -1});
    }
    come_to(option.flavor);
    if (worst.mode == Mode::kNoFit) blocked.emplace_back(option.flavor, here);
    if (explain) {
      attempt.value.mode = worst.mode;
      attempt.no_fit = here;
      whys.insert(whys.end(), attempt.whys.begin(), attempt.whys.end());
      attempts.push_back(std::move(attempt));
    }
    const bool stop = rules_.fungible ? stops(worst) : worst.mode == Mode::kFit;
    const bool better =
        rules_.fungible ? preferred(worst, best_value, rules_.prefers_borrowing) : worst.mode > best_value.mode;
    if (stop || better) {
      best = std::move(choices);
      best_value = worst;
    }
    if (stop) break;
  }
  if (best_value.mode == Mode::kNoFit) return nothing();
  for (auto& choice : best) choice.tried = looked_at == last ? -1 : looked_at;
  for (const auto set : sets) {
    auto& made = out.sets[set];
    made.tried = true;
    // It may still not fit for another group, or for its nodes.
    const bool may_fail = rules_.groups.size() > 1 || work.pod_sets[set].nodes != nullptr;
    for (std::size_t b = 0; may_fail && b < blocked.size(); ++b) made.block(blocked[b].first, blocked[b].second);
    if (explain) merge(made.attempts, attempts);
    leave_out(*group, resource, reached, made);
    if (explain && best_value.mode != Mode::kFit) made.whys.insert(made.whys.end(), whys.begin(), whys.end());
    for (const auto& choice : best) {
      if (sets.size() > 1 && !asks(work.pod_sets[set], choice.resource)) continue;
      // A resource of two groups gets the flavor of the group that was searched last.
      const auto before = std::ranges::find(made.flavors, choice.resource, &FlavorChoice::resource);
      if (before != made.flavors.end()) {
        *before = choice;
      } else {
        made.flavors.push_back(choice);
      }
    }
  }
  return best_value.mode;
}

Assignment FlavorAssigner::assign(const Work& work, std::span<const std::int32_t> counts,
                                  const Assignment* same_as) const {
  return search(work, counts, same_as, false);
}

Assignment FlavorAssigner::explain(const Work& work, const Assignment* same_as) const {
  return search(work, {}, same_as, true);
}

void FlavorAssigner::add_refusal(const Work& work, Cell cell, Resource resource, std::int64_t earlier,
                                 std::int64_t asked, Fitting part, Attempt& attempt) const {
  if (part.mode == Mode::kFit) return;
  const auto all = plus(earlier, asked), most = tree_.potential(work.queue, cell);
  Why why{.kind = Why::Kind::kInsufficient, .flavor = attempt.flavor, .resource = resource, .earlier = earlier};
  if (all > most) {
    why.kind = Why::Kind::kExceedsMax;
    why.asked = asked;
    why.most = most;
  } else {
    why.asked = minus(all, tree_.available(work.queue, cell));
  }
  attempt.whys.push_back(why);
}

/// Assigns the flavors of pod sets that share them, usually a single one; false if they do not fit.
bool FlavorAssigner::assign_group(const Work& work, std::span<const std::size_t> sets,
                                  std::span<const std::int32_t> counts, const Assignment* same_as, bool explain,
                                  Assignment& out) const {
  Requests requests;
  std::int64_t pods = 0;
  for (const auto set : sets) {
    auto& made = out.sets[set];
    made.taken_to_fit = true;
    made.count = counts.empty() ? work.pod_sets[set].count : counts[set];
    pods += made.count;
    for (const auto& [resource, each] : work.pod_sets[set].each) {
      const auto found = set == sets.front() ? requests.of.end() : std::ranges::find(requests.of, resource, first);
      if (found == requests.of.end()) {
        requests.of.emplace_back(resource, each * made.count);
      } else {
        found->second = plus(found->second, each * made.count);
      }
    }
  }
  if (pods_ && rules_.group_of(*pods_) != nullptr) requests.of.emplace_back(*pods_, pods);
  bool fits = true;
  for (const auto& [resource, amount] : requests.of) {
    const auto chosen = [&, wanted = resource](std::size_t set) {
      return std::ranges::find(out.sets[set].flavors, wanted, &FlavorChoice::resource) != out.sets[set].flavors.end();
    };
    if (std::ranges::any_of(sets, chosen)) continue;
    if ((amount == 0 || rules_.ignores_undeclared) && rules_.group_of(resource) == nullptr) continue;
    const auto mode = choose(work, sets, requests, resource, same_as, explain, out);
    fits = mode != Mode::kNoFit;
    for (const auto set : sets) out.sets[set].taken_to_fit = out.sets[set].taken_to_fit && mode == Mode::kFit;
    if (!fits) break;
  }
  if (fits && sets.size() > 1 && topologies_ != nullptr) inherit_group_tas_flavors(work, sets, out);
  for (const auto set : sets) {
    auto& made = out.sets[set];
    if (!fits) made.flavors.clear();
    made.fits_nothing = !fits;
    for (const auto& choice : made.flavors) {
      out.scan.tried[set].emplace_back(choice.resource, choice.tried);
      out.borrowing = std::max(out.borrowing, choice.level);
      const auto asking = [&](std::size_t other) { return asks(work.pod_sets[other], choice.resource); };
      const bool one_for_all = sets.size() == 1 || *std::ranges::find_if(sets, asking) == set;
      if (!one_for_all) continue;
      auto amount = std::ranges::find(requests.of, choice.resource, first)->second;
      for (const auto other : sets) {
        const auto* before = before_of(work.pod_sets[other], choice.resource);
        if (before != nullptr && asking(other)) amount = minus(amount, before->amount);
      }
      add_to(out.usage, choice.cell, amount);
    }
  }
  return fits;
}

Assignment FlavorAssigner::search(const Work& work, std::span<const std::int32_t> counts, const Assignment* same_as,
                                  bool explain) const {
  Assignment out;
  std::vector<std::size_t> several;
  for (std::size_t i = 0; i < work.pod_sets.size(); ++i) {
    const std::array one{i};
    std::span<const std::size_t> sets(one);
    const auto group = work.pod_sets[i].group;
    if (group >= 0) {
      if (static_cast<std::size_t>(group) < i) continue;
      several.clear();
      for (std::size_t k = i; k < work.pod_sets.size(); ++k) {
        if (work.pod_sets[k].group == group) several.push_back(k);
      }
      sets = several;
    }
    if (out.sets.size() <= sets.back()) {
      out.sets.resize(sets.back() + 1);
      out.scan.tried.resize(sets.back() + 1);
    }
    if (!assign_group(work, sets, counts, same_as, explain, out)) break;
  }
  place(work, out);
  resolve_reasons(out);
  return out;
}

/// Flavors of one resource group are alternatives; groups are all required.
void FlavorAssigner::resolve_reasons(Assignment& out) const {
  for (auto& set : out.sets) {
    if (!set.fits_nothing) continue;
    if (!set.tried) set.no_fit = NoFit::kNoMatchingFlavor;
    for (const auto& group : rules_.groups) {
      std::optional<NoFit> mildest;
      for (const auto& [flavor, reason] : set.blocked) {
        if (!has_option(group, flavor)) continue;
        mildest = mildest ? std::min(*mildest, reason) : reason;
      }
      if (mildest) set.no_fit = std::max(set.no_fit, *mildest);
    }
  }
}

}  // namespace qm::admission::kueue
