#include "qm/admission/exact/flavors.hpp"

#include <algorithm>

namespace qm::admission::exact {

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
  }
  return "";
}

NoFit Assignment::no_fit() const {
  const auto found = std::ranges::find_if(sets, &Set::fits_nothing);
  return found == sets.end() ? NoFit::kNone : found->no_fit;
}

std::optional<Flavor> Assignment::flavor_of(std::size_t set, Resource resource) const {
  if (set >= sets.size()) return std::nullopt;
  const auto found = std::ranges::find(sets[set].flavors, resource, &FlavorChoice::resource);
  if (found == sets[set].flavors.end()) return std::nullopt;
  return found->flavor;
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

struct FlavorAssigner::Requests {
  std::vector<std::pair<Resource, std::int64_t>> of;
};

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

/// The group of `resource`: the mode of the option taken, kNoFit where no option has it.
Mode FlavorAssigner::choose(const Work& work, std::size_t set, const Requests& requests, Resource resource,
                            const Assignment* same_as, bool explain, Assignment& out) const {
  const auto* group = rules_.group_of(resource);
  std::vector<Attempt> attempts;
  std::vector<Why> whys;
  NoFit no_fit = NoFit::kNoMatchingFlavor;
  const auto nothing = [&] {
    out.sets[set].no_fit = no_fit;
    out.sets[set].attempts = std::move(attempts);
    out.sets[set].whys = std::move(whys);
    return Mode::kNoFit;
  };
  if (group == nullptr) {
    if (explain) whys.push_back({.kind = Why::Kind::kNotCovered, .resource = resource});
    return nothing();
  }
  const auto& refused = work.pod_sets[set].refused;
  std::vector<FlavorChoice> best;
  Fitting best_value{Mode::kNoFit, 0};
  int looked_at = -1;
  const int last = static_cast<int>(group->options.size()) - 1;
  const auto pinned = same_as == nullptr ? std::nullopt : same_as->flavor_of(set, resource);
  for (int i = work.scan && same_as == nullptr ? work.scan->next(set, resource) : 0; i <= last; ++i) {
    looked_at = i;
    const auto& option = group->options[static_cast<std::size_t>(i)];
    const auto refusal = std::ranges::lower_bound(refused, option.flavor, {}, &Refusal::flavor);
    if (refusal != refused.end() && refusal->flavor == option.flavor) {
      if (!explain) continue;
      whys.push_back({.kind = Why::Kind::kRefused, .flavor = option.flavor, .refusal = *refusal});
      if (refusal->why == Refusal::Why::kNotAllowed) continue;
      attempts.push_back({option.flavor, {Mode::kNoFit, 0}, NoFit::kNoMatchingFlavor, {whys.back()}});
      continue;
    }
    if (pinned && *pinned != option.flavor) {
      if (explain) whys.push_back({.kind = Why::Kind::kNotAsBefore, .flavor = option.flavor, .resource = resource});
      continue;
    }
    std::vector<FlavorChoice> choices;
    Attempt attempt{option.flavor, {}, NoFit::kNone, {}};
    Fitting worst;
    NoFit here = NoFit::kNone;
    for (const auto& [wanted, amount] : requests.of) {
      const auto index = group->index_of(wanted);
      if (!index) continue;
      const Cell cell = option.cells[*index];
      const auto earlier = amount_at(out.usage, cell);
      const bool never = plus(amount, earlier) > tree_.potential(work.queue, cell);
      // What one resource has no room for is settled; of the others it counts only whether there can ever be room.
      if (worst.mode == Mode::kNoFit && !never && !explain) continue;
      const auto part = fitting(work, cell, plus(amount, earlier));
      if (part.mode == Mode::kNoFit && here != NoFit::kExceedsMaxQuota) {
        here = never ? NoFit::kExceedsMaxQuota : NoFit::kWaitingForQuota;
      }
      if (explain) tell(work, cell, wanted, earlier, amount, part, attempt);
      // Of the cells the one counts that would be liked least. Where preemption is liked better than borrowing, that may be
      // one that fits by borrowing while another needs victims.
      if (preferred(worst, part, rules_.prefers_borrowing)) worst = part;
      if (worst.mode != Mode::kNoFit) choices.push_back({wanted, option.flavor, cell, part.mode, part.level, -1});
    }
    no_fit = std::max(no_fit, here);
    if (explain) {
      attempt.value = worst;
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
  auto& made = out.sets[set];
  made.attempts.insert(made.attempts.end(), attempts.begin(), attempts.end());
  if (best_value.mode != Mode::kFit) made.whys.insert(made.whys.end(), whys.begin(), whys.end());
  for (auto& choice : best) {
    choice.tried = looked_at == last ? -1 : looked_at;
    made.flavors.push_back(choice);
  }
  return best_value.mode;
}

Assignment FlavorAssigner::assign(const Work& work, std::span<const std::int32_t> counts,
                                  const Assignment* same_as) const {
  return search(work, counts, same_as, false);
}

Assignment FlavorAssigner::explain(const Work& work) const { return search(work, {}, nullptr, true); }

void FlavorAssigner::tell(const Work& work, Cell cell, Resource resource, std::int64_t earlier, std::int64_t asked,
                          Fitting part, Attempt& attempt) const {
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

Assignment FlavorAssigner::search(const Work& work, std::span<const std::int32_t> counts, const Assignment* same_as,
                                  bool explain) const {
  Assignment out;
  for (std::size_t i = 0; i < work.pod_sets.size(); ++i) {
    const auto& set = work.pod_sets[i];
    auto& made = out.sets.emplace_back();
    made.taken_to_fit = true;
    made.count = counts.empty() ? set.count : counts[i];
    Requests requests;
    for (const auto& [resource, each] : set.each) requests.of.emplace_back(resource, each * made.count);
    if (pods_ && rules_.group_of(*pods_) != nullptr) requests.of.emplace_back(*pods_, made.count);
    for (const auto& [resource, amount] : requests.of) {
      const auto done = [&, wanted = resource](const FlavorChoice& c) { return c.resource == wanted; };
      if (std::ranges::any_of(made.flavors, done)) continue;
      if (amount == 0 && rules_.group_of(resource) == nullptr) continue;
      const auto mode = choose(work, i, requests, resource, same_as, explain, out);
      if (mode == Mode::kNoFit) {
        made.flavors.clear();
        made.fits_nothing = true;
        break;
      }
      made.taken_to_fit = made.taken_to_fit && mode == Mode::kFit;
    }
    auto& tried = out.scan.tried.emplace_back();
    for (const auto& choice : made.flavors) {
      tried.emplace_back(choice.resource, choice.tried);
      out.borrowing = std::max(out.borrowing, choice.level);
      const auto amount =
          std::ranges::find(requests.of, choice.resource, [](const auto& r) { return r.first; })->second;
      add_to(out.usage, choice.cell, amount);
    }
    if (made.fits_nothing) break;
  }
  return out;
}

}  // namespace qm::admission::exact
