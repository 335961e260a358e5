// Searches the level of each group and the pod count of an elastic set. Both are found by checking
// whether a gang of fixed counts fits at fixed levels. The finders answer that check.
#include "many_sets.hpp"
#include "qm/base/assert.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace qm::placement::gang {
namespace {

using Counts = std::vector<std::int32_t>;
using Levels = std::vector<Level>;

class Search {
 public:
  Search(Fleet& fleet, const Request& request, const Options& options)
      : fleet_(fleet),
        request_(request),
        options_(options),
        shape_(flatten(request, fleet.tree())),
        weights_(weights_of(options, fleet.tree().depth())) {
    for (const auto& team : shape_.teams) required_.push_back(team.required);
    for (const auto& set : shape_.sets) {
      full_.push_back(set.asked.count);
      least_.push_back(set.asked.min_count > 0 ? set.asked.min_count : set.asked.count);
    }
  }

  Answer run() {
    Levels levels;
    auto plan = closest(full_, levels);
    if (!plan && least_ != full_) plan = closest(as_many_as_fit(), levels);
    Answer answer;
    answer.exact = exact_;
    if (plan) {
      answer.levels = outermost(levels);
      answer.cost = plan->cost;
      answer.members = members(*plan);
    } else {
      say_why(answer);
    }
    return answer;
  }

  bool has_place() { return fits(least_, required_); }

 private:
  [[nodiscard]] const Tree& tree() const { return fleet_.tree(); }
  [[nodiscard]] std::int32_t run_of(std::size_t set) const { return shape_.sets[set].asked.slices.size; }
  /// The one level that applies to a set: the deepest of the groups that it belongs to.
  [[nodiscard]] Level level_of(std::size_t set, const Levels& levels) const {
    Level level = kFleet;
    for (auto team = shape_.sets[set].group; team >= 0; team = shape_.teams[static_cast<std::size_t>(team)].parent)
      level = std::max(level, levels[static_cast<std::size_t>(team)]);
    return level;
  }
  /// A group that lies within one domain also lies within one domain of every level above.
  [[nodiscard]] Levels outermost(Levels levels) const {
    for (std::size_t t = 1; t < levels.size(); ++t)
      levels[t] = std::max(levels[t], levels[static_cast<std::size_t>(shape_.teams[t].parent)]);
    return levels;
  }

  /// The best placement of so many pods with the groups at these levels.
  std::optional<Plan> solve(const Counts& counts, const Levels& levels) {
    Plan plan;
    if (shape_.sets.size() == 1) {
      OneSet one(fleet_, shape_.sets[0], counts[0], weights_, options_.effort);
      const auto best = best_domain(tree(), one, weights_, {}, level_of(0, levels));
      if (!best) return std::nullopt;
      for (const auto& [node, pods] : one.plan(best->domain, best->cost - outer(best->domain)))
        plan.loads.push_back({node, {pods}});
      plan.exact = one.exact();
      plan.cost = cost_of(tree(), weights_, plan.loads);
      QM_ASSERT(!plan.exact || plan.cost == best->cost, "a plan costs {} and not {}", plan.cost, best->cost);
    } else {
      ManySets many(fleet_, shape_, levels, counts, weights_, options_.effort);
      const auto best = best_domain(tree(), many, weights_, {}, levels[0]);
      exact_ = exact_ && many.exact();
      if (!best) return std::nullopt;
      plan.loads = many.plan(best->domain);
      plan.exact = many.exact();
      plan.cost = cost_of(tree(), weights_, plan.loads);
    }
    exact_ = exact_ && plan.exact;
    return plan;
  }
  /// True if any placement exists.
  bool fits(const Counts& counts, const Levels& levels) {
    if (shape_.sets.size() == 1) {
      const OneSet one(fleet_, shape_.sets[0], counts[0], weights_, options_.effort);
      const Level level = level_of(0, levels);
      for (std::uint32_t i = 0; i < tree().size(level); ++i) {
        if (one.takes_alone({level, i}) >= counts[0]) return true;
      }
      return false;
    }
    ManySets many(fleet_, shape_, levels, counts, weights_, options_.effort, true);
    const bool found = best_domain(tree(), many, weights_, {}, levels[0], true).has_value();
    exact_ = exact_ && (found || many.exact());
    return found;
  }
  [[nodiscard]] std::int64_t outer(Domain domain) const {
    std::int64_t sum = 0;
    for (Level level = 1; level <= domain.level; ++level) sum += weights_[at(level)];
    return sum;
  }

  /// The same with each group as deep as possible, group by group.
  std::optional<Plan> closest(const Counts& counts, Levels& levels) {
    levels = required_;
    std::optional<Plan> plan;
    for (std::size_t t = 0; t < levels.size(); ++t) {
      for (levels[t] = shape_.teams[t].preferred; levels[t] > required_[t]; --levels[t]) {
        if (auto found = solve(counts, levels)) {
          plan = std::move(found);
          break;
        }
      }
      if (!plan) plan = solve(counts, levels);
      if (!plan) return std::nullopt;
    }
    return plan;
  }

  /// The most pods of a set, from `low` up to below `high`, with which all sets fit; 0 if not even
  /// `low` fits.
  std::int32_t most_of(std::size_t set, Counts counts, std::int32_t low, std::int32_t high) {
    const auto run = run_of(set);
    const auto fit = [&](std::int32_t pods) {
      counts[set] = pods;
      return fits(counts, required_);
    };
    if (low >= high || !fit(low)) return 0;
    while (high - low > run) {
      const auto middle = low + (high - low) / run / 2 * run;
      (fit(middle) ? low : high) = middle;
    }
    return low;
  }

  Counts as_many_as_fit() {
    Counts counts = least_;
    for (std::size_t set = 0; set < counts.size(); ++set) {
      if (least_[set] == full_[set]) continue;
      const auto most = most_of(set, counts, least_[set], full_[set] + run_of(set));
      if (most == 0) break;
      counts[set] = most;
    }
    return counts;
  }

  // ---- the answer ----

  std::vector<Member> members(Plan& plan) const {
    std::ranges::sort(plan.loads, [&](const Load& a, const Load& b) { return tree().before(a.node, b.node); });
    std::vector<Member> out;
    Counts ranks(shape_.sets.size(), 0);
    for (const auto& load : plan.loads) {
      const auto devices = devices_for(fleet_.policy(), shape_, fleet_.state(load.node), load.pods);
      QM_ASSERT(devices.has_value(), "node {} has no devices for its pods", load.node);
      for (std::size_t set = 0; set < load.pods.size(); ++set) {
        for (const auto device : (*devices)[set])
          out.push_back({static_cast<std::int32_t>(set), ranks[set]++, load.node, device});
      }
    }
    std::ranges::stable_sort(out, {}, &Member::set);
    return out;
  }

  void say_why(Answer& answer) {
    answer.shortfall = alone();
    const bool together = !answer.shortfall;
    if (together) answer.shortfall = all_together();
    const auto set = static_cast<std::size_t>(std::max(0, answer.shortfall->set));
    // Wider: the groups of the set, the tightest first; or all groups.
    std::vector<std::int32_t> teams;
    if (together) {
      for (std::size_t t = 0; t < shape_.teams.size(); ++t) teams.push_back(static_cast<std::int32_t>(t));
    } else {
      for (auto t = shape_.sets[set].group; t >= 0; t = shape_.teams[static_cast<std::size_t>(t)].parent)
        teams.push_back(t);
    }
    const auto tighter = [&](std::int32_t team) { return required_[static_cast<std::size_t>(team)]; };
    std::ranges::stable_sort(teams, std::greater<>(), tighter);
    for (const auto team : teams) {
      auto levels = required_;
      auto& level = levels[static_cast<std::size_t>(team)];
      while (level > kFleet) {
        --level;
        if (!fits(least_, levels)) continue;
        answer.relaxations.push_back({Relaxation::What::kWider, team, level, 0});
        break;
      }
      if (!answer.relaxations.empty()) break;
    }
    if (request_.exclusive) {
      Request shared = request_;
      shared.exclusive = false;
      Search other(fleet_, shared, options_);
      if (other.fits(least_, required_)) answer.relaxations.push_back({Relaxation::What::kShared, 0, kFleet, 0});
    }
    // Fewer: the set itself; or one of the largest.
    constexpr std::size_t kTried = 4;
    std::vector<std::size_t> sets{set};
    if (together) {
      sets.resize(least_.size());
      std::iota(sets.begin(), sets.end(), std::size_t{0});
      std::ranges::stable_sort(sets, std::greater<>(),
                               [&](std::size_t one) { return demand(shape_.sets[one], least_[one]); });
      sets.resize(std::min(sets.size(), kTried));
    }
    for (const auto one : sets) {
      const auto fewer = most_of(one, least_, run_of(one), least_[one]);
      if (fewer == 0) continue;
      answer.relaxations.push_back({Relaxation::What::kFewer, static_cast<std::int32_t>(one), kFleet, fewer});
      break;
    }
  }

  /// The first set that does not fit even by itself, and the domain that fits most of it.
  std::optional<Shortfall> alone() {
    for (std::size_t set = 0; set < shape_.sets.size(); ++set) {
      const OneSet one(fleet_, shape_.sets[set], least_[set], weights_, options_.effort);
      const Level level = level_of(set, required_);
      Shortfall best{{level, 0}, static_cast<std::int32_t>(set), 0, least_[set]};
      for (std::uint32_t i = 0; i < tree().size(level); ++i) {
        if (const auto takes = one.takes_alone({level, i}); takes > best.takes)
          best.domain.index = i, best.takes = takes;
      }
      if (best.takes < best.asked) return best;
    }
    return std::nullopt;
  }

  /// The domain that would fit most pods if each set were alone there, and how many pods fit there
  /// together.
  Shortfall all_together() {
    const Level level = required_[0];
    Shortfall best{{level, 0}, -1, 0, 0};
    std::vector<OneSet> sets;
    for (std::size_t set = 0; set < shape_.sets.size(); ++set) {
      sets.emplace_back(fleet_, shape_.sets[set], least_[set], weights_, options_.effort);
      best.asked += least_[set];
    }
    for (std::uint32_t i = 0; i < tree().size(level); ++i) {
      std::int32_t sum = 0;
      for (std::size_t set = 0; set < sets.size(); ++set) sum += std::min(least_[set], sets[set].takes({level, i}));
      if (sum > best.takes) best.domain.index = i, best.takes = sum;
    }
    best.takes = ManySets(fleet_, shape_, required_, least_, weights_, options_.effort).one_after_another(best.domain);
    return best;
  }

  Fleet& fleet_;
  const Request& request_;
  const Options& options_;
  Shape shape_;
  std::vector<std::int64_t> weights_;
  Levels required_;
  Counts full_, least_;
  bool exact_ = true;
};

}  // namespace

Result<Answer> place(Fleet& fleet, const Request& request, const Options& options) {
  QM_TRY(check(request, fleet.tree()));
  const auto levels = static_cast<std::size_t>(fleet.tree().depth());
  if (!options.weights.empty() &&
      (options.weights.size() != levels || std::ranges::any_of(options.weights, [](auto w) { return w < 1; })))
    return fail(Code::kInvalid, "{} weights for {} levels: each level needs one of at least 1", options.weights.size(),
                levels);
  return Search(fleet, request, options).run();
}

bool has_place(Fleet& fleet, const Request& request, const Options& options) {
  return Search(fleet, request, options).has_place();
}

void book(Fleet& fleet, const Request& request, const Answer& answer) {
  const auto shape = flatten(request, fleet.tree());
  // Whole devices before shares, in the order in which they were chosen.
  for (const bool shares : {false, true}) {
    for (const auto& [set, rank, node, device] : answer.members) {
      const auto& pod = shape.sets[static_cast<std::size_t>(set)].kind.pod;
      if (pod.shares() != shares) continue;
      fleet.set(node, pack::with(fleet.state(node), pod, pod.shares() ? device : pack::kDevice));
      if (request.exclusive) fleet.close(node);
    }
  }
}

}  // namespace qm::placement::gang
