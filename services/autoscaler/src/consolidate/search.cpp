// Removal sets, from the most promising nodes on:
//
//   singles   each candidate
//   pairs     of the first ones: two nodes onto one, where neither pays alone
//   prefixes  of 2, 4, 8, ... candidates, and between the last that pays and the first that does not
//   growth    of the best set, by one more candidate while the value rises
#include "qm/autoscaler/consolidate/plan.hpp"
#include "removal.hpp"
#include "value.hpp"

#include <algorithm>
#include <tuple>

namespace qm::autoscaler::consolidate {
namespace {

constexpr std::size_t kPaired = 12;  // candidates that are tried in pairs, and that a set grows by

class Search {
 public:
  explicit Search(const Problem& problem) : problem_(problem), removal_(problem) {}

  std::optional<Plan> run() {
    order_candidates();
    const std::size_t singles = std::min(candidates_.size(), problem_.rules.most_trials / 2);
    for (std::size_t i = 0; i < singles; ++i) (void)pays({candidates_[i]});
    prefixes();
    const std::size_t first = std::min(candidates_.size(), kPaired);
    for (std::size_t a = 0; a < first; ++a) {
      for (std::size_t b = a + 1; b < first; ++b) (void)pays({candidates_[a], candidates_[b]});
    }
    grow();
    return std::move(best_);
  }

 private:
  // By price for each unit of cost, the highest first.
  void order_candidates() {
    std::vector<std::pair<double, std::size_t>> rated;
    for (std::size_t i = 0; i < problem_.nodes.size(); ++i) {
      const Node& node = problem_.nodes[i];
      if (!node.held.empty() || std::ranges::all_of(node.pods, &Pod::stays)) continue;
      const auto cost = static_cast<double>(move_cost(problem_, node).nano()) + 1;
      rated.emplace_back(-static_cast<double>(node.per_hour.nano()) / cost, i);
    }
    std::ranges::sort(rated);
    for (const auto& [rate, node] : rated) candidates_.push_back(node);
  }

  bool pays(std::vector<std::size_t> nodes) {
    if (trials_ >= problem_.rules.most_trials) return false;
    std::ranges::sort(nodes);
    if (!refusal_of(problem_, nodes).empty()) return false;
    ++trials_;
    auto plan = removal_.try_remove(nodes);
    if (!plan) return false;
    const auto rank = [](const Plan& one) { return std::tuple(-one.value.nano(), one.removed.size(), one.removed); };
    if (!best_ || rank(*plan) < rank(*best_)) best_ = std::move(*plan);
    return true;
  }

  // Candidates that budgets allow together.
  [[nodiscard]] std::vector<std::size_t> allowed_together() const {
    std::vector<std::size_t> out;
    for (const std::size_t node : candidates_) {
      if (out.size() >= problem_.rules.most_nodes) break;
      out.push_back(node);
      if (!refusal_of(problem_, out).empty()) out.pop_back();
    }
    return out;
  }

  void prefixes() {
    const auto all = allowed_together();
    const auto try_first = [&](std::size_t count) {
      return pays({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count)});
    };
    std::size_t pays_with = 0, fails_with = all.size() + 1;
    for (std::size_t count = 2; count <= all.size(); count *= 2) {
      if (!try_first(count)) {
        fails_with = count;
        break;
      }
      pays_with = count;
    }
    if (pays_with == 0) return;
    while (fails_with - pays_with > 1) {
      const std::size_t middle = pays_with + (fails_with - pays_with) / 2;
      (try_first(middle) ? pays_with : fails_with) = middle;
    }
  }

  void grow() {
    for (bool grown = best_.has_value(); grown && trials_ < problem_.rules.most_trials;) {
      grown = false;
      const auto base = best_->removed;
      const Money value = best_->value;
      std::size_t tried = 0;
      for (const std::size_t node : candidates_) {
        if (tried >= kPaired) break;
        if (std::ranges::binary_search(base, node)) continue;
        ++tried;
        auto more = base;
        more.push_back(node);
        (void)pays(std::move(more));
      }
      grown = best_->value > value;
    }
  }

  const Problem& problem_;
  Removal removal_;
  std::vector<std::size_t> candidates_;
  std::optional<Plan> best_;
  std::size_t trials_ = 0;
};

}  // namespace

std::optional<Plan> plan(const Problem& problem) { return Search(problem).run(); }

Result<Plan> plan_removal(const Problem& problem, std::span<const std::size_t> nodes) {
  std::vector<std::size_t> ascending(nodes.begin(), nodes.end());
  std::ranges::sort(ascending);
  return Removal(problem).try_remove(ascending);
}

}  // namespace qm::autoscaler::consolidate
