// Nodes are emptied one at a time, the cheapest first. A gang that already moves in an earlier step
// may be placed again at no cost: the plan is not carried out yet, so the gang moves straight to
// its last placement. This is possible at once, because nodes in use only fill up: the last target
// has the capacity in earlier steps, too. For the same reason a node that could not be emptied is
// not tried again. A step makes another node cheaper only if a gang has pods on both; such steps
// are joined until the nodes gained for each unit of cost fall from step to step.
#include "qm/placement/plan/consolidate.hpp"

#include "qm/base/assert.hpp"
#include "replace_pods.hpp"

#include <algorithm>
#include <queue>
#include <set>

namespace qm::placement::plan {
namespace {

/// Checks whether a defragmentation plan, which serves no pending gang, may move the gang.
Status may_move(const Gang& gang, const CostModel& cost_model) {
  if (!gang.preemptible || !gang.movable) return fail(Code::kAborted, "{} may not be moved", gang.name);
  if (gang.min_runtime_until > cost_model.now)
    return fail(Code::kAborted, "{} has its minimum run time until {}", gang.name, to_rfc3339(gang.min_runtime_until));
  return {};
}

std::int64_t gpu_seconds_of(const ClusterModel& model, GangId gang, const CostModel& cost_model) {
  const auto& one = model.gang(gang);
  const auto time = std::max(Duration{}, cost_model.now - one.checkpoint) + one.restart;
  return static_cast<std::int64_t>(static_cast<Wide>(model.gpu_milli(gang)) * time.count() / pack::kDevice / 1'000'000);
}

class Consolidator {
 public:
  /// With `by_cost`, pods go to the nodes that are most expensive to empty, otherwise to those with the least left over.
  Consolidator(const ClusterModel& model, const CostModel& cost_model, const Budget& budget,
               const pack::Fragmentation* mix, bool by_cost)
      : model_(model), cost_model_(cost_model), budget_(budget), mix_(mix), by_cost_(by_cost) {}

  DefragPlan run() {
    out_.free_before = free_nodes();
    out_.fragment_before = fragment();
    for (NodeId node = 0; node < model_.nodes(); ++node) enqueue(node);
    for (NodeId node = 0; node < model_.nodes(); ++node) {
      if (!model_.on(node).empty()) in_use_.push_back(node);
      price_.push_back(price_of(node).value_or(std::numeric_limits<MicroUsd>::max()));
    }
    while (!queue_.empty()) {
      const auto [price, node] = queue_.top();
      queue_.pop();
      if (price_of(node) != price) continue;  // the queue has another entry with the node's current price
      if (out_.cost.total() + price > budget_.cost) break;
      empty(node);
    }
    join();
    out_.free_after = free_nodes();
    out_.fragment_after = fragment();
    return std::move(out_);
  }

 private:
  using Entry = std::pair<MicroUsd, NodeId>;

  [[nodiscard]] bool is_free(NodeId node) const {
    return model_.empty(node).gpus > 0 && !model_.closed(node) && model_.on(node).empty();
  }
  [[nodiscard]] std::int64_t free_nodes() const {
    std::int64_t count = 0;
    for (NodeId node = 0; node < model_.nodes(); ++node) count += is_free(node) ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::int64_t fragment(NodeId node) const {
    return model_.closed(node) ? 0 : mix_->of(model_.state(node));
  }
  [[nodiscard]] std::int64_t fragment() const {
    std::int64_t sum = 0;
    for (NodeId node = 0; mix_ != nullptr && node < model_.nodes(); ++node) sum += fragment(node);
    return sum;
  }

  /// The lost work of all gangs on the node if they move; nothing if the node cannot be emptied.
  [[nodiscard]] std::optional<MicroUsd> price_of(NodeId node) const {
    if (model_.empty(node).gpus == 0 || model_.closed(node)) return std::nullopt;
    const auto gangs = model_.on(node);
    if (gangs.empty()) return std::nullopt;
    MicroUsd sum = 0;
    for (const auto gang : gangs) {
      if (!may_move(model_.gang(gang), cost_model_)) return std::nullopt;
      if (!moved_.contains(gang)) sum += lost_by(model_, gang, cost_model_);
    }
    return sum;
  }
  void enqueue(NodeId node) {
    if (const auto price = price_of(node)) queue_.push({*price, node});
  }

  /// Moves the gangs of the node one by one, the largest first. Reverts all moves if one of them
  /// does not fit elsewhere.
  void empty(NodeId node) {
    NodeReclaim step;
    step.nodes.push_back(node);
    const Targets targets{in_use_, by_cost_ ? &price_ : nullptr};
    auto gangs = model_.on(node);
    std::ranges::stable_sort(gangs, std::greater<>(), [&](GangId gang) { return largest(gang, node); });
    bool done = true;
    for (const auto gang : gangs) {
      auto placements = replace_pods(model_, gang, node, targets);
      if (done = placements.has_value(); !done) break;
      step.moves.push_back({Step::What::kMigrate, gang, model_.gang(gang).placements, *placements, {}});
      model_.move({{gang, std::move(*placements)}});
    }
    if (done && keep(step)) return;
    undo(step);
  }
  void undo(const NodeReclaim& step) {
    for (auto i = step.moves.size(); i-- > 0;) model_.move({{step.moves[i].gang, step.moves[i].from}});
  }
  [[nodiscard]] std::int64_t largest(GangId gang, NodeId node) const {
    std::int64_t milli = 0;
    for (const auto& placement : model_.gang(gang).placements) {
      if (placement.node == node) milli = std::max(milli, model_.pod(gang, placement.set).total_milli());
    }
    return milli;
  }
  /// Keeps the step if it is within the budget and does not increase the fragment. `tried` also has
  /// the gangs that moved in an earlier step.
  bool keep(const NodeReclaim& tried) {
    NodeReclaim step;
    step.nodes = tried.nodes;
    for (const auto& move : tried.moves) {
      if (moved_.contains(move.gang)) continue;
      auto own = move;
      own.cost.lost_work = lost_by(model_, move.gang, cost_model_);
      step.gpu_seconds += gpu_seconds_of(model_, move.gang, cost_model_);
      step.cost.lost_work += own.cost.lost_work;
      step.pods += static_cast<std::int64_t>(own.from.size());
      step.moves.push_back(std::move(own));
    }
    if (out_.pods + step.pods > budget_.pods || out_.gpu_seconds + step.gpu_seconds > budget_.gpu_seconds ||
        out_.cost.total() + step.cost.total() > budget_.cost || loses(tried))
      return false;
    for (const auto& move : tried.moves) {
      if (const auto [at, fresh] = moved_.try_emplace(move.gang, out_.steps.size()); !fresh)
        extend_move(at->second, move);
    }
    for (const auto& move : step.moves) {
      for (const auto& placement : move.from) {
        if (placement.node != step.nodes[0]) enqueue(placement.node);
      }
    }
    out_.pods += step.pods;
    out_.gpu_seconds += step.gpu_seconds;
    out_.cost.lost_work += step.cost.lost_work;
    out_.steps.push_back(std::move(step));
    return true;
  }
  void extend_move(std::size_t step, const Step& move) {
    const auto own = std::ranges::find(out_.steps[step].moves, move.gang, &Step::gang);
    QM_ASSERT(own != out_.steps[step].moves.end(), "{} is part of no step", model_.gang(move.gang).name);
    own->placements = move.placements;
  }
  bool loses(const NodeReclaim& step) {
    if (mix_ == nullptr) return false;
    std::set<NodeId> touched;
    for (const auto& move : step.moves) {
      for (const auto* placements : {&move.from, &move.placements}) {
        for (const auto& placement : *placements) touched.insert(placement.node);
      }
    }
    std::int64_t after = 0, before = 0;
    for (const auto node : touched) after += fragment(node);
    undo(step);
    for (const auto node : touched) before += fragment(node);
    for (const auto& move : step.moves) model_.move({{move.gang, move.placements}});
    return after > before;
  }

  /// Joins adjacent steps if the later one would gain more nodes for its cost.
  void join() {
    std::vector<NodeReclaim> joined;
    for (auto& step : out_.steps) {
      joined.push_back(std::move(step));
      while (joined.size() > 1 && reclaims_more(joined.back(), joined[joined.size() - 2])) {
        auto last = std::move(joined.back());
        joined.pop_back();
        auto& into = joined.back();
        into.nodes.insert(into.nodes.end(), last.nodes.begin(), last.nodes.end());
        std::ranges::move(last.moves, std::back_inserter(into.moves));
        into.pods += last.pods;
        into.gpu_seconds += last.gpu_seconds;
        into.cost.lost_work += last.cost.lost_work;
      }
    }
    for (auto& step : joined) {
      std::ranges::sort(step.nodes);
      for (auto& move : step.moves) {
        const auto more = topology_cost(model_.tree(), move.placements) - topology_cost(model_.tree(), move.from);
        move.cost.topology = cost_model_.domain * std::max<std::int64_t>(0, more);
        step.cost.topology += move.cost.topology;
      }
      out_.cost.topology += step.cost.topology;
    }
    out_.steps = std::move(joined);
  }
  static bool reclaims_more(const NodeReclaim& a, const NodeReclaim& b) {
    return static_cast<Wide>(a.nodes.size()) * b.cost.lost_work > static_cast<Wide>(b.nodes.size()) * a.cost.lost_work;
  }

  ClusterModel model_;  // a copy
  const CostModel& cost_model_;
  const Budget& budget_;
  const pack::Fragmentation* mix_;
  bool by_cost_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<NodeId> in_use_;
  std::vector<MicroUsd> price_;          // of each node before any move
  std::map<GangId, std::size_t> moved_;  // index of the step
  DefragPlan out_;
};

}  // namespace

DefragPlan consolidate(const ClusterModel& model, const CostModel& cost_model, const Budget& budget,
                       const pack::Fragmentation* mix) {
  auto tight = Consolidator(model, cost_model, budget, mix, false).run();
  auto by_cost = Consolidator(model, cost_model, budget, mix, true).run();
  if (tight.free_after != by_cost.free_after) return tight.free_after > by_cost.free_after ? tight : by_cost;
  return tight.cost.total() <= by_cost.cost.total() ? tight : by_cost;
}

Status still_holds(ClusterModel& model, const NodeReclaim& step, const CostModel& cost_model) {
  std::set<GangId> moving;
  for (const auto& move : step.moves) moving.insert(move.gang);
  for (const auto node : step.nodes) {
    for (const auto gang : model.on(node)) {
      if (!moving.contains(gang))
        return fail(Code::kAborted, "{} is on the node and not part of the step", model.gang(gang).name);
    }
  }
  QM_TRY(validate_moves(model, step.moves));
  for (const auto gang : moving) QM_TRY(may_move(model.gang(gang), cost_model));
  for (const auto& move : step.moves) {
    for (const auto& placement : move.placements) {
      const bool stays = std::ranges::find(move.from, placement) != move.from.end();
      if (!stays && model.on(placement.node).empty())
        return fail(Code::kAborted, "node {} is empty now, so the step would free no more nodes than it uses",
                    placement.node);
    }
  }
  return {};
}

}  // namespace qm::placement::plan
