// Nodes are emptied one at a time, the cheapest first. A gang that already moves in an earlier step
// may be placed again at no cost: the plan is not carried out yet, so the gang moves straight to
// its last placement. This is possible at once, because nodes in use only fill up: the last target
// has the capacity in earlier steps, too. For the same reason a node that could not be emptied is
// not tried again. A step makes another node cheaper only if a gang has pods on both; such steps
// are joined until the nodes gained for each unit of cost fall from step to step.
#include "qm/placement/plan/consolidate.hpp"

#include "qm/base/assert.hpp"
#include "resettle.hpp"

#include <algorithm>
#include <queue>
#include <set>

namespace qm::placement::plan {
namespace {

/// Checks whether a defragmentation plan, which serves no pending gang, may move the gang.
Status may_move(const Gang& gang, const Terms& terms) {
  if (!gang.touchable || !gang.movable || !gang.slices.empty())
    return fail(Code::kAborted, "{} may not be moved", gang.name);
  if (gang.stays_until > terms.now)
    return fail(Code::kAborted, "{} has its minimum run time until {}", gang.name, to_rfc3339(gang.stays_until));
  return {};
}

std::int64_t gpu_seconds_of(const Scene& scene, GangId gang, const Terms& terms) {
  const auto& one = scene.gang(gang);
  const auto time = std::max(Duration{}, terms.now - one.checkpoint) + one.restart;
  return static_cast<std::int64_t>(static_cast<Wide>(scene.gpu_milli(gang)) * time.count() / pack::kDevice / 1'000'000);
}

class Consolidator {
 public:
  /// With `dear`, pods go to the nodes that are most expensive to empty, otherwise to those with the least left over.
  Consolidator(const Scene& scene, const Terms& terms, const Budget& budget, const pack::Fragmentation* mix, bool dear)
      : scene_(scene), terms_(terms), budget_(budget), mix_(mix), dear_(dear) {}

  Tidy run() {
    out_.free_before = free_nodes();
    out_.fragment_before = fragment();
    for (NodeId node = 0; node < scene_.nodes(); ++node) offer(node);
    for (NodeId node = 0; node < scene_.nodes(); ++node) {
      if (!scene_.on(node).empty()) in_use_.push_back(node);
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
    return scene_.empty(node).gpus > 0 && !scene_.lost(node) && !scene_.spare(node) && scene_.on(node).empty();
  }
  [[nodiscard]] std::int64_t free_nodes() const {
    std::int64_t count = 0;
    for (NodeId node = 0; node < scene_.nodes(); ++node) count += is_free(node) ? 1 : 0;
    return count;
  }
  [[nodiscard]] std::int64_t fragment(NodeId node) const {
    return scene_.lost(node) ? 0 : mix_->of(scene_.state(node));
  }
  [[nodiscard]] std::int64_t fragment() const {
    std::int64_t sum = 0;
    for (NodeId node = 0; mix_ != nullptr && node < scene_.nodes(); ++node) sum += fragment(node);
    return sum;
  }

  /// The lost work of all gangs on the node if they move; nothing if the node cannot be emptied.
  [[nodiscard]] std::optional<MicroUsd> price_of(NodeId node) const {
    if (scene_.empty(node).gpus == 0 || scene_.lost(node) || scene_.spare(node)) return std::nullopt;
    const auto gangs = scene_.on(node);
    if (gangs.empty()) return std::nullopt;
    MicroUsd sum = 0;
    for (const auto gang : gangs) {
      if (!may_move(scene_.gang(gang), terms_)) return std::nullopt;
      if (!moved_.contains(gang)) sum += lost_by(scene_, gang, terms_);
    }
    return sum;
  }
  void offer(NodeId node) {
    if (const auto price = price_of(node)) queue_.push({*price, node});
  }

  /// Moves the gangs of the node one by one, the largest first. Reverts all moves if one of them
  /// does not fit elsewhere.
  void empty(NodeId node) {
    Emptying step;
    step.nodes.push_back(node);
    Targets targets;
    targets.empty_nodes = false;
    targets.nearest = false;
    targets.among = &in_use_;
    if (dear_) targets.dear = &price_;
    auto gangs = scene_.on(node);
    std::ranges::stable_sort(gangs, std::greater<>(), [&](GangId gang) { return largest(gang, node); });
    bool done = true;
    for (const auto gang : gangs) {
      auto seats = resettle(scene_, gang, node, targets);
      if (done = seats.has_value(); !done) break;
      step.moves.push_back({Step::What::kMigrate, gang, scene_.gang(gang).seats, *seats, {}, {}, {}});
      scene_.move({{gang, std::move(*seats)}});
    }
    if (done && keep(step)) return;
    undo(step);
  }
  void undo(const Emptying& step) {
    for (auto i = step.moves.size(); i-- > 0;) scene_.move({{step.moves[i].gang, step.moves[i].from}});
  }
  [[nodiscard]] std::int64_t largest(GangId gang, NodeId node) const {
    std::int64_t milli = 0;
    for (const auto& seat : scene_.gang(gang).seats) {
      if (seat.node == node) milli = std::max(milli, scene_.pod(gang, seat.set).total_milli());
    }
    return milli;
  }
  /// Keeps the step if it is within the budget and does not increase the fragment. `tried` also has
  /// the gangs that moved in an earlier step.
  bool keep(const Emptying& tried) {
    Emptying step;
    step.nodes = tried.nodes;
    for (const auto& move : tried.moves) {
      if (moved_.contains(move.gang)) continue;
      auto own = move;
      own.cost.lost_work = lost_by(scene_, move.gang, terms_);
      step.gpu_seconds += gpu_seconds_of(scene_, move.gang, terms_);
      step.cost.lost_work += own.cost.lost_work;
      step.pods += static_cast<std::int64_t>(own.from.size());
      step.moves.push_back(std::move(own));
    }
    if (out_.pods + step.pods > budget_.pods || out_.gpu_seconds + step.gpu_seconds > budget_.gpu_seconds ||
        out_.cost.total() + step.cost.total() > budget_.cost || loses(tried))
      return false;
    for (const auto& move : tried.moves) {
      if (const auto [at, fresh] = moved_.try_emplace(move.gang, out_.steps.size()); !fresh) go_on(at->second, move);
    }
    for (const auto& move : step.moves) {
      for (const auto& seat : move.from) {
        if (seat.node != step.nodes[0]) offer(seat.node);
      }
    }
    out_.pods += step.pods;
    out_.gpu_seconds += step.gpu_seconds;
    out_.cost.lost_work += step.cost.lost_work;
    out_.steps.push_back(std::move(step));
    return true;
  }
  void go_on(std::size_t step, const Step& move) {
    const auto own = std::ranges::find(out_.steps[step].moves, move.gang, &Step::gang);
    QM_ASSERT(own != out_.steps[step].moves.end(), "{} moves in no step", scene_.gang(move.gang).name);
    own->seats = move.seats;
  }
  bool loses(const Emptying& step) {
    if (mix_ == nullptr) return false;
    std::set<NodeId> touched;
    for (const auto& move : step.moves) {
      for (const auto* seats : {&move.from, &move.seats}) {
        for (const auto& seat : *seats) touched.insert(seat.node);
      }
    }
    std::int64_t after = 0, before = 0;
    for (const auto node : touched) after += fragment(node);
    undo(step);
    for (const auto node : touched) before += fragment(node);
    for (const auto& move : step.moves) scene_.move({{move.gang, move.seats}});
    return after > before;
  }

  /// Joins adjacent steps if the later one would gain more nodes for its cost.
  void join() {
    std::vector<Emptying> joined;
    for (auto& step : out_.steps) {
      joined.push_back(std::move(step));
      while (joined.size() > 1 && wins_more(joined.back(), joined[joined.size() - 2])) {
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
        const auto more = topology_cost(scene_.tree(), move.seats) - topology_cost(scene_.tree(), move.from);
        move.cost.topology = terms_.domain * std::max<std::int64_t>(0, more);
        step.cost.topology += move.cost.topology;
      }
      out_.cost.topology += step.cost.topology;
    }
    out_.steps = std::move(joined);
  }
  static bool wins_more(const Emptying& a, const Emptying& b) {
    return static_cast<Wide>(a.nodes.size()) * b.cost.lost_work > static_cast<Wide>(b.nodes.size()) * a.cost.lost_work;
  }

  Scene scene_;  // a copy
  const Terms& terms_;
  const Budget& budget_;
  const pack::Fragmentation* mix_;
  bool dear_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
  std::vector<NodeId> in_use_;
  std::vector<MicroUsd> price_;          // of each node before any move
  std::map<GangId, std::size_t> moved_;  // index of the step
  Tidy out_;
};

}  // namespace

Tidy consolidate(const Scene& scene, const Terms& terms, const Budget& budget, const pack::Fragmentation* mix) {
  auto tight = Consolidator(scene, terms, budget, mix, false).run();
  auto dear = Consolidator(scene, terms, budget, mix, true).run();
  if (tight.free_after != dear.free_after) return tight.free_after > dear.free_after ? tight : dear;
  return tight.cost.total() <= dear.cost.total() ? tight : dear;
}

Status still_holds(Scene& scene, const Emptying& step, const Terms& terms) {
  std::set<GangId> moving;
  for (const auto& move : step.moves) moving.insert(move.gang);
  for (const auto node : step.nodes) {
    for (const auto gang : scene.on(node)) {
      if (!moving.contains(gang)) return fail(Code::kAborted, "{} has come to the node", scene.gang(gang).name);
    }
  }
  QM_TRY(moves_hold(scene, step.moves));
  for (const auto gang : moving) QM_TRY(may_move(scene.gang(gang), terms));
  for (const auto& move : step.moves) {
    for (const auto& seat : move.seats) {
      const bool stays = std::ranges::find(move.from, seat) != move.from.end();
      if (!stays && scene.on(seat.node).empty())
        return fail(Code::kAborted, "node {} is empty now, nothing would be won", seat.node);
    }
  }
  return {};
}

}  // namespace qm::placement::plan
