#include "qm/admission/kueue/cheapest.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace qm::admission::kueue {
namespace {

__extension__ typedef __int128 Wide;

std::int64_t loss_of(const Work& work, std::int64_t now) { return work.evicted ? 0 : work.stake.loss(now); }

class BranchAndBound {
 public:
  BranchAndBound(CheapestSearch thrift, Plan first, const std::function<Plan(const Spared&)>& search)
      : thrift_(thrift), now_(thrift.field.now), search_(search), best_loss_(loss(first, now_)) {
    out_.plan = std::move(first);
    const auto& [work, contested, usage, node_requests] = thrift.contest;
    for (const auto& [cell, amount] : usage) {
      const auto missing = minus(amount, thrift.field.tree.available(work.queue, cell));
      if (missing <= 0) continue;
      auto& shortage = shortages_.emplace_back(Shortage{missing, {}});
      for (const auto* candidate : thrift.candidates) {
        const auto gives = amount_at(candidate->usage, cell);
        if (gives > 0) shortage.reclaim_candidates.push_back({candidate, gives, loss_of(*candidate, now_)});
      }
      std::ranges::stable_sort(shortage.reclaim_candidates, [](const ReclaimCandidate& a, const ReclaimCandidate& b) {
        return Wide{a.loss} * b.gives < Wide{b.loss} * a.gives;
      });
    }
  }

  Cheapest run() {
    out_.proven = true;
    begin_with_cheapest();
    split(Plan(out_.plan));
    return std::move(out_);
  }

 private:
  struct ReclaimCandidate {
    const Work* work = nullptr;
    std::int64_t gives = 0, loss = 0;
  };
  /// The missing amount of a cell, and its candidates, least expensive per amount first.
  struct Shortage {
    std::int64_t missing = 0;
    std::vector<ReclaimCandidate> reclaim_candidates;
  };

  Plan search() {
    ++searches_;
    auto found = search_(spared_);
    if (const auto lost = loss(found, now_); found.enough && lost < best_loss_) {
      best_loss_ = lost;
      out_.plan = found;
    }
    return found;
  }

  /// By bisection: the smallest sufficient number of the least expensive candidates, all others spared. This proves
  /// nothing, but lowers the best loss early.
  void begin_with_cheapest() {
    if (shortages_.empty()) return;
    const auto& reclaim_candidates = shortages_.front().reclaim_candidates;
    std::size_t low = 0, high = reclaim_candidates.size();
    while (low < high && searches_ < thrift_.most && best_loss_ > 0) {
      const auto middle = low + (high - low) / 2;
      for (std::size_t i = middle; i < reclaim_candidates.size(); ++i) spared_.insert(reclaim_candidates[i].work);
      search().enough ? high = middle : low = middle + 1;
      spared_.clear();
    }
  }

  /// The cases that remain for a plan.
  void split(Plan plan) {
    std::ranges::stable_sort(plan.targets, [&](const Target& a, const Target& b) {
      return std::tuple(-loss_of(*a.work, now_), a.work->uid, a.work->id) <
             std::tuple(-loss_of(*b.work, now_), b.work->uid, b.work->id);
    });
    std::vector<const Work*> required_here;
    for (const auto& target : plan.targets) {
      if (required_.contains(target.work)) continue;
      spared_.insert(target.work);
      if (promising()) {
        if (searches_ == thrift_.most) out_.proven = false;
        if (!out_.proven) break;
        split(search());
        if (!out_.proven) break;
      }
      spared_.erase(target.work);
      required_.insert(target.work);
      required_here.push_back(target.work);
    }
    for (const auto& target : plan.targets) spared_.erase(target.work);
    for (const auto* work : required_here) required_.erase(work);
  }

  /// Whether a plan with all required and no spared candidates might lose less than the best plan.
  [[nodiscard]] bool promising() const {
    std::int64_t required = 0;
    for (const auto* work : required_) required = plus(required, loss_of(*work, now_));
    if (required >= best_loss_) return false;
    for (const auto& [missing, reclaim_candidates] : shortages_) {
      std::int64_t left = missing;
      for (const auto& candidate_node : reclaim_candidates) {
        if (required_.contains(candidate_node.work)) left -= std::min(left, candidate_node.gives);
      }
      std::int64_t more = 0;
      for (const auto& candidate_node : reclaim_candidates) {
        if (left == 0) break;
        if (required_.contains(candidate_node.work) || spared_.contains(candidate_node.work)) continue;
        const auto part = std::min(left, candidate_node.gives);
        more = plus(more, static_cast<std::int64_t>(Wide{candidate_node.loss} * part / candidate_node.gives));
        left -= part;
      }
      if (left > 0 || plus(required, more) >= best_loss_) return false;
    }
    return true;
  }

  CheapestSearch thrift_;
  std::int64_t now_;
  const std::function<Plan(const Spared&)>& search_;
  std::vector<Shortage> shortages_;
  Cheapest out_;
  std::int64_t best_loss_;
  Spared spared_, required_;
  int searches_ = 0;
};

}  // namespace

std::int64_t Stake::loss(std::int64_t now) const {
  constexpr std::int64_t kMicrosPerMilli = 1000;
  const auto lost_ms = (at_least_zero(minus(now, saved)) + at_least_zero(restart_us)) / kMicrosPerMilli;
  const auto lost = Wide{gpu_milli} * lost_ms;  // milli-GPU times milliseconds
  return lost > kUnlimited ? kUnlimited : static_cast<std::int64_t>(lost);
}

std::int64_t loss(const Plan& plan, std::int64_t now) {
  std::int64_t out = 0;
  for (const auto& target : plan.targets) out = plus(out, loss_of(*target.work, now));
  return out;
}

std::int64_t strongest_of(const std::vector<Target>& targets) {
  auto out = std::numeric_limits<std::int64_t>::min();
  for (const auto& target : targets) {
    if (!target.work->evicted) out = std::max(out, target.work->effective_priority());
  }
  return out;
}

Cheapest cheapest(const CheapestSearch& thrift, Plan first, const std::function<Plan(const Spared&)>& search) {
  const auto strongest = strongest_of(first.targets);
  Spared stronger;
  std::vector<const Work*> others;
  for (const auto* candidate : thrift.candidates) {
    if (!candidate->evicted && candidate->effective_priority() > strongest) {
      stronger.insert(candidate);
    } else {
      others.push_back(candidate);
    }
  }
  const std::function<Plan(const Spared&)> among_others = [&](const Spared& spared) {
    Spared all = stronger;
    all.insert(spared.begin(), spared.end());
    return search(all);
  };
  return BranchAndBound({thrift.field, thrift.contest, others, thrift.most}, std::move(first), among_others).run();
}

}  // namespace qm::admission::kueue
