// Finds what would admit a pending workload. Each kind of change is applied to the field itself, tried, and reverted.
#include "qm/admission/kueue/unlocks.hpp"

#include "flavor_choices.hpp"
#include "qm/admission/kueue/any_fit.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace qm::admission::kueue {
namespace {

constexpr std::size_t kMostUnlockCombinations = 64;
constexpr std::size_t kMostHolders = 512;
constexpr std::size_t kMostPriorities = 32;

std::int32_t least_of(const PodSet& pods) { return pods.min_count.value_or(pods.count); }

/// The minimum usage of the workload for one combination of flavors; empty if one of them refuses it.
std::optional<Amounts> usage_under(const QuotaState& field, const Work& work,
                                   const std::vector<FlavorOptions>& choices) {
  const auto& rules = field.rules[static_cast<std::size_t>(work.queue)];
  Amounts out;
  const auto add = [&](std::size_t set, Resource resource, std::int64_t amount) {
    const auto* group = rules.group_of(resource);
    const auto choice = std::ranges::find_if(choices, [&](const FlavorOptions& c) {
      return c.group == group && std::ranges::find(c.sets, set) != c.sets.end();
    });
    if (group == nullptr || choice == choices.end()) return false;
    const auto& option = group->options[choice->option];
    const auto& refused = work.pod_sets[set].refused;
    if (std::ranges::find(refused, option.flavor, &Refusal::flavor) != refused.end()) return false;
    add_to(out, option.cells[*group->index_of(resource)], amount);
    return true;
  };
  for (std::size_t set = 0; set < work.pod_sets.size(); ++set) {
    const auto& pods = work.pod_sets[set];
    const auto count = least_of(pods);
    for (const auto& [resource, each] : pods.each) {
      if (!add(set, resource, each * count)) return std::nullopt;
    }
    if (field.pods && rules.group_of(*field.pods) != nullptr && !add(set, *field.pods, count)) return std::nullopt;
  }
  return out;
}

class Finder {
 public:
  Finder(QuotaState& field, const Work& work) : field_(field), work_(work) {}

  std::vector<QuotaRemedy> find() {
    if (any_fit(field_, work_)) return {};
    keep(more(QuotaRemedy::Kind::kQuota));
    keep(more(QuotaRemedy::Kind::kBorrowingLimit));
    keep(priority());
    keep(victims());
    flavors();
    keep(fewer_pods());
    return std::move(out_);
  }

 private:
  void keep(std::optional<QuotaRemedy> unlock) {
    if (unlock) out_.push_back(std::move(*unlock));
  }

  /// The missing amount of each cell; empty if more of this kind does not help.
  [[nodiscard]] std::optional<Amounts> missing(const Amounts& usage, QuotaRemedy::Kind kind) const {
    const auto& tree = field_.tree;
    Amounts out;
    for (const auto& [cell, amount] : usage) {
      const auto left = tree.left(work_.queue, cell);
      if (amount <= left) continue;
      if (kind == QuotaRemedy::Kind::kBorrowingLimit) {
        // The cohort has enough; only the borrowing limit of the queue forbids it.
        if (!tree.quota(work_.queue, cell).borrowing_limit || work_.queue == 0) return std::nullopt;
        const auto there = plus(tree.local_available(work_.queue, cell), tree.left(tree.parent(work_.queue), cell));
        if (amount > there) return std::nullopt;
      }
      out.push_back({cell, minus(amount, left)});
    }
    return out;
  }

  /// The total request for a resource, for any flavors.
  [[nodiscard]] std::int64_t asked(Resource resource) const {
    std::int64_t sum = 0;
    for (const auto& pods : work_.pod_sets) {
      if (resource == field_.pods) sum += least_of(pods);
      for (const auto& [one, each] : pods.each) sum += one == resource ? each * least_of(pods) : 0;
    }
    return sum;
  }

  [[nodiscard]] std::optional<QuotaRemedy> more(QuotaRemedy::Kind kind) {
    auto choices = choices_of(field_.rules[static_cast<std::size_t>(work_.queue)], work_, 1);
    std::optional<Amounts> best;
    std::pair<std::size_t, double> least;
    for (std::size_t tried = 0; tried < kMostUnlockCombinations; ++tried) {
      if (const auto usage = usage_under(field_, work_, choices)) {
        if (auto lacks = missing(*usage, kind); lacks && !lacks->empty()) {
          double part = 0;
          for (const auto& [cell, amount] : *lacks) {
            part = std::max(part, static_cast<double>(amount) / static_cast<double>(asked(field_.tree.resource(cell))));
          }
          const std::pair cost(lacks->size(), part);
          if (!best || cost < least) {
            best = std::move(lacks);
            least = cost;
          }
        }
      }
      if (!advance(choices)) break;
    }
    if (!best || !fits_with(*best, kind)) return std::nullopt;
    return QuotaRemedy{.kind = kind, .more = std::move(*best)};
  }

  [[nodiscard]] bool fits_with(const Amounts& more, QuotaRemedy::Kind kind) {
    auto& tree = field_.tree;
    std::vector<std::pair<Cell, Quota>> before;
    for (const auto& [cell, amount] : more) {
      Quota quota = tree.quota(work_.queue, cell);
      before.emplace_back(cell, quota);
      auto& raised = kind == QuotaRemedy::Kind::kQuota ? quota.nominal : *quota.borrowing_limit;
      raised = plus(raised, amount);
      tree.set_quota(work_.queue, cell, quota);
    }
    const bool fits = any_fit(field_, work_).has_value();
    for (const auto& [cell, quota] : before) tree.set_quota(work_.queue, cell, quota);
    return fits;
  }

  [[nodiscard]] std::optional<QuotaRemedy> priority() {
    std::set<std::int64_t> others;
    for (const auto& holders : field_.holders) {
      for (const auto* holder : holders) {
        if (holder->effective_priority() >= work_.priority) others.insert(holder->effective_priority());
      }
    }
    Work stronger = work_;
    std::size_t tried = 0;
    for (const auto one : others) {
      if (one >= std::numeric_limits<std::int32_t>::max() || ++tried > kMostPriorities) break;
      stronger.priority = static_cast<std::int32_t>(one + 1);
      const auto made = nominate(field_, stronger);
      if (!made.good() || made.targets.empty()) continue;
      QuotaRemedy out{.kind = QuotaRemedy::Kind::kPriority, .priority = stronger.priority};
      for (const auto& target : made.targets) out.works.push_back(target.work->id);
      return out;
    }
    return std::nullopt;
  }

  /// The smallest single holder that suffices; otherwise the largest together, without the unnecessary ones.
  [[nodiscard]] std::optional<QuotaRemedy> victims() {
    std::vector<const Work*> holders;
    for (const auto& of_queue : field_.holders) {
      for (const auto* holder : of_queue) {
        if (!holder->evicted) holders.push_back(holder);
      }
    }
    const auto size = [&](const Work* w) {
      double sum = 0;
      for (const auto& [cell, amount] : w->usage) {
        const auto all = field_.tree.subtree(0, cell);
        if (all > 0) sum += static_cast<double>(amount) / static_cast<double>(all);
      }
      return sum;
    };
    std::ranges::sort(holders, {}, [&](const Work* w) { return std::pair(size(w), w->uid); });
    const auto gone = [&](const Work* w) { field_.give_back(w->queue, w->usage, w->on_nodes); };
    const auto back = [&](const Work* w) { field_.take(w->queue, w->usage, w->on_nodes); };
    const auto fits = [&] { return any_fit(field_, work_).has_value(); };
    for (std::size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
      gone(holders[i]);
      const bool enough = fits();
      back(holders[i]);
      if (enough) return QuotaRemedy{.kind = QuotaRemedy::Kind::kVictims, .works = {holders[i]->id}};
    }
    std::vector<const Work*> taken;
    bool enough = false;
    for (auto it = holders.rbegin(); it != holders.rend() && taken.size() < kMostHolders && !enough; ++it) {
      gone(*it);
      taken.push_back(*it);
      enough = fits();
    }
    QuotaRemedy out{.kind = QuotaRemedy::Kind::kVictims};
    for (const auto* one : taken) {
      back(one);
      if (!enough || fits()) continue;  // it is not needed
      gone(one);
      out.works.push_back(one->id);
    }
    for (const auto* one : taken) {
      if (std::ranges::find(out.works, one->id) != out.works.end()) back(one);
    }
    if (!enough) return std::nullopt;
    return out;
  }

  void flavors() {
    std::set<Flavor> tried;
    for (const auto& set : work_.pod_sets) {
      for (const auto& refusal : set.refused) {
        if (refusal.why == Refusal::Why::kNotFound || !tried.insert(refusal.flavor).second) continue;
        Work welcome = work_;
        for (auto& pods : welcome.pod_sets) {
          std::erase_if(pods.refused, [&](const Refusal& r) { return r.flavor == refusal.flavor; });
        }
        if (any_fit(field_, welcome)) out_.push_back({.kind = QuotaRemedy::Kind::kFlavor, .refusal = refusal});
      }
    }
  }

  /// For the pod set with the most pods.
  [[nodiscard]] std::optional<QuotaRemedy> fewer_pods() {
    const auto largest = std::ranges::max_element(work_.pod_sets, {}, least_of);
    if (largest == work_.pod_sets.end()) return std::nullopt;
    const auto set = static_cast<std::size_t>(largest - work_.pod_sets.begin());
    Work smaller = work_;
    std::int32_t fits = 0, too_many = least_of(*largest);
    while (fits + 1 < too_many) {
      const auto middle = fits + (too_many - fits) / 2;
      smaller.pod_sets[set].count = middle;
      smaller.pod_sets[set].min_count.reset();
      (any_fit(field_, smaller) ? fits : too_many) = middle;
    }
    if (fits == 0) return std::nullopt;
    return QuotaRemedy{.kind = QuotaRemedy::Kind::kFewerPods, .set = set, .count = fits};
  }

  QuotaState& field_;
  const Work& work_;
  std::vector<QuotaRemedy> out_;
};

}  // namespace

std::vector<QuotaRemedy> quota_remedies(QuotaState& field, const Work& work) { return Finder(field, work).find(); }

}  // namespace qm::admission::kueue
