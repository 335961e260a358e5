// Chooses the victims. Free capacity does not add up gang by gang: eight gangs of one GPU free a slot
// of eight only after the last of them has left, and a gang on many nodes frees capacity on all of
// them for one price. Therefore a set is built in two ways: by removing gangs from the set of all,
// the most expensive capacity first, and by adding the cheapest slot node by node. The better set is
// improved by exchanges. If there are few gangs, every set is tried that a bound does not exclude.
#include "cover.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <queue>

namespace qm::placement::plan {
namespace {

constexpr MicroUsd kNoGain = std::numeric_limits<MicroUsd>::max() / 4096;  // price of capacity that adds no slot
constexpr std::size_t kFew = 24;                                           // up to so many gangs, all sets are tried
constexpr std::size_t kExchanged = 48;  // with at most so many victims, single exchanges are tried
constexpr std::int64_t kParts = 1024;   // of a micro-dollar, in the price of a slot

class Search {
 public:
  Search(FeasibilityCheck& check, std::span<const Victim> victims, std::int64_t& effort)
      : q_(check), victims_(victims), effort_(effort), out_(victims.size(), 1) {
    for (std::size_t v = 0; v < victims_.size(); ++v) {
      for (const auto& placement : q_.model().gang(victims_[v].gang).placements)
        on_[placement.node].push_back({v, placement});
    }
  }

  std::optional<VictimSet> run() {
    if (!fits()) return std::nullopt;
    drop_unneeded(most_expensive_first());
    keep_better();
    if (q_.additive()) {
      add_cheapest_slots();
      keep_better();
    }
    set_to(best_);
    if (evicted_count() <= kExchanged) exchange();
    VictimSet chosen;
    chosen.exact = victims_.size() <= kFew && every_set();
    set_to(best_);
    // After exchanges or the bound: remove every victim that is not needed.
    drop_unneeded(by_cost());
    keep_better();
    for (std::size_t v = 0; v < victims_.size(); ++v) {
      if (best_[v] != 0) chosen.victims.push_back(victims_[v]);
    }
    chosen.cost = best_cost_;
    set_to(std::vector<std::uint8_t>(victims_.size(), 1));
    std::ranges::sort(chosen.victims, {}, &Victim::gang);
    return chosen;
  }

 private:
  using Set = std::vector<std::uint8_t>;  // by victim: true if it is evicted or migrated

  void apply_eviction(std::size_t v) {
    --effort_;
    out_[v] = 1;
    q_.apply_eviction(victims_[v].gang);
  }
  void revert_eviction(std::size_t v) {
    --effort_;
    out_[v] = 0;
    q_.revert_eviction(victims_[v].gang);
  }
  bool fits() {
    effort_ -= q_.price();
    return q_.fits();
  }
  void set_to(const Set& set) {
    for (std::size_t v = 0; v < set.size(); ++v) {
      if (set[v] == out_[v]) continue;
      if (set[v] != 0) {
        apply_eviction(v);
      } else {
        revert_eviction(v);
      }
    }
  }
  [[nodiscard]] std::size_t evicted_count() const {
    return static_cast<std::size_t>(std::ranges::count(out_, std::uint8_t{1}));
  }
  [[nodiscard]] MicroUsd cost() const {
    MicroUsd sum = 0;
    for (std::size_t v = 0; v < victims_.size(); ++v) sum += out_[v] != 0 ? victims_[v].cost : 0;
    return sum;
  }
  void keep_better() {
    if (const auto now = cost(); best_.empty() || now < best_cost_) {
      best_ = out_;
      best_cost_ = now;
    }
  }

  /// Removes from the victims, in this order, every gang that may stay. Several gangs are tried
  /// together, so that few checks are made if many gangs stay.
  void drop_unneeded(const std::vector<std::size_t>& order) {
    std::size_t size = q_.additive() ? 1 : std::max<std::size_t>(1, order.size() / 4);
    for (std::size_t i = 0; i < order.size();) {
      const auto end = std::min(order.size(), i + size);
      for (auto k = i; k < end; ++k) revert_eviction(order[k]);
      if (fits()) {
        i = end;
        if (!q_.additive()) size *= 2;
        continue;
      }
      for (auto k = end; k-- > i;) apply_eviction(order[k]);
      if (end - i == 1) {
        ++i;  // this gang must leave
      } else {
        size = (end - i) / 2;
      }
    }
  }

  /// The victims, most expensive first.
  [[nodiscard]] std::vector<std::size_t> by_cost() const {
    std::vector<std::size_t> order;
    for (std::size_t v = 0; v < victims_.size(); ++v) {
      if (out_[v] != 0) order.push_back(v);
    }
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return victims_[a].cost > victims_[b].cost; });
    return order;
  }

  [[nodiscard]] std::int64_t weight(std::size_t v, const PodPlacement& placement) {
    return q_.model().pod(victims_[v].gang, placement.set).total_milli() + 1;
  }
  [[nodiscard]] std::int64_t whole_weight(std::size_t v) {
    const auto gang = victims_[v].gang;
    return q_.model().gpu_milli(gang) + static_cast<std::int64_t>(q_.model().gang(gang).placements.size());
  }
  /// The share of a gang's cost that belongs to a node, in proportion to the capacity that it holds there.
  [[nodiscard]] MicroUsd share(std::size_t v, std::int64_t weight_there) {
    return static_cast<MicroUsd>(static_cast<Wide>(victims_[v].cost) * weight_there / whole_weight(v));
  }

  /// Returns all gangs, those with the highest cost for each slot first; gangs of one node are
  /// adjacent. Requires that all hypothetical evictions are applied.
  std::vector<std::size_t> most_expensive_first() {
    std::vector<Wide> price(victims_.size(), 0);
    std::vector<NodeId> first(victims_.size(), std::numeric_limits<NodeId>::max());
    auto& model = q_.model();
    for (const auto& [node, tenants] : on_) {
      const auto slots = q_.slots(node);
      MicroUsd sum = 0;
      for (const auto& [v, placement] : tenants) {
        sum += share(v, weight(v, placement));
        model.add_pod(victims_[v].gang, placement);
      }
      const auto gained = slots - q_.slots(node);
      for (const auto& [v, placement] : tenants) model.remove_pod(victims_[v].gang, placement);
      const auto of_slot = gained > 0 ? std::min(kNoGain, sum * kParts / gained) : kNoGain;
      for (const auto& [v, placement] : tenants) {
        price[v] += static_cast<Wide>(of_slot) * weight(v, placement);
        first[v] = std::min(first[v], node);
      }
    }
    for (std::size_t v = 0; v < victims_.size(); ++v) price[v] /= whole_weight(v);
    std::vector<std::size_t> order(victims_.size());
    for (std::size_t v = 0; v < order.size(); ++v) order[v] = v;
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      if (price[a] != price[b]) return price[a] > price[b];
      // Among equal prices, gangs on later nodes stay, node after node: victims are on adjacent nodes.
      if (first[a] != first[b]) return first[a] > first[b];
      return victims_[a].cost > victims_[b].cost;
    });
    return order;
  }

  // ---- slot by slot ----

  struct Offer {  // of a node: the gangs that must leave for its cheapest slots
    MicroUsd price = kNoGain;
    std::vector<std::size_t> go;
  };
  Offer offer(NodeId node) {
    auto& model = q_.model();
    std::map<std::size_t, std::int64_t> held;
    const auto& tenants = on_[node];
    for (const auto& [v, placement] : tenants) {
      if (out_[v] == 0) held[v] += weight(v, placement);
    }
    std::vector<std::pair<MicroUsd, std::size_t>> order;  // cheapest first, for the capacity held
    for (const auto& [v, there] : held) order.push_back({share(v, there) * kParts / there, v});
    std::ranges::sort(order);
    const auto before = q_.slots(node);
    Offer best;
    MicroUsd sum = 0;
    std::size_t taken = 0, best_taken = 0;
    for (const auto& [price, v] : order) {
      for (const auto& [w, placement] : tenants) {
        if (w == v) model.remove_pod(victims_[v].gang, placement);
      }
      sum += share(v, held[v]);
      ++taken;
      const auto gained = q_.slots(node) - before;
      if (gained > 0 && sum * kParts / gained < best.price) {
        best.price = sum * kParts / gained;
        best_taken = taken;
      }
    }
    for (const auto& [price, v] : order) {
      for (const auto& [w, placement] : tenants) {
        if (w == v) model.add_pod(victims_[v].gang, placement);
      }
    }
    for (std::size_t i = 0; i < best_taken; ++i) best.go.push_back(order[i].second);
    return best;
  }

  void add_cheapest_slots() {
    set_to(Set(victims_.size(), 0));
    using Entry = std::pair<MicroUsd, NodeId>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
    std::map<NodeId, Offer> offers;
    const auto renew = [&](NodeId node) {
      auto made = offer(node);
      if (!made.go.empty()) heap.push({made.price, node});
      offers[node] = std::move(made);
    };
    for (const auto& [node, tenants] : on_) renew(node);
    while (!fits() && !heap.empty()) {
      const auto [price, node] = heap.top();
      heap.pop();
      const auto& now = offers[node];
      if (now.price != price || now.go.empty()) continue;
      const auto go = now.go;
      for (const auto v : go) {
        if (out_[v] != 0) continue;
        apply_eviction(v);
        NodeId last = std::numeric_limits<NodeId>::max();
        for (const auto& placement : q_.model().gang(victims_[v].gang).placements) {
          if (placement.node != node && placement.node != last) renew(placement.node);
          last = placement.node;
        }
      }
      renew(node);
    }
    // This method does not find slots that need gangs on several nodes to leave at once.
    if (!fits()) set_to(best_);
    drop_unneeded(by_cost());
  }

  // ---- improvement ----

  /// Exchanges one gang that stays for victims that can then stay.
  void exchange() {
    for (bool again = true; again && effort_ > 0;) {
      again = false;
      for (std::size_t v = 0; v < victims_.size() && effort_ > 0; ++v) {
        if (best_[v] != 0 || victims_[v].cost >= best_cost_) continue;
        set_to(best_);
        auto order = by_cost();
        apply_eviction(v);
        drop_unneeded(order);
        const auto before = best_cost_;
        keep_better();
        again = again || best_cost_ < before;
      }
    }
  }

  /// Returns true if every set that could be cheaper was tried.
  bool every_set() {
    order_.clear();
    for (std::size_t v = 0; v < victims_.size(); ++v) order_.push_back(v);
    std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) { return victims_[a].cost > victims_[b].cost; });
    set_to(Set(victims_.size(), 1));
    return branch(0, 0);
  }
  bool branch(std::size_t i, MicroUsd spent) {
    if (spent >= best_cost_) return true;
    if (effort_ <= 0) return false;
    // All gangs are decided, and this set costs less than the best one so far.
    if (i == order_.size()) {
      best_ = out_;
      best_cost_ = spent;
      return true;
    }
    const auto v = order_[i];
    revert_eviction(v);
    const bool without = !fits() || branch(i + 1, spent);
    apply_eviction(v);
    return branch(i + 1, spent + victims_[v].cost) && without;
  }

  FeasibilityCheck& q_;
  std::span<const Victim> victims_;
  std::int64_t& effort_;
  Set out_, best_;
  MicroUsd best_cost_ = 0;
  std::map<NodeId, std::vector<std::pair<std::size_t, PodPlacement>>> on_;
  std::vector<std::size_t> order_;
};

}  // namespace

// ---- feasibility checks ----

CountedCapacity::CountedCapacity(ClusterModel& model, const gang::Kind& kind, std::int32_t count, Domain domain)
    : FeasibilityCheck(model), kind_(kind), count_(count), domain_(domain), slots_(model.nodes(), 0) {
  const auto& tree = model.tree();
  std::vector<Domain> open{domain};
  while (!open.empty()) {
    const auto here = open.back();
    open.pop_back();
    if (here.level == tree.depth()) {
      slots_[here.index] = slots(here.index);
      sum_ += slots_[here.index];
      continue;
    }
    for (const auto part : tree.parts(here)) open.push_back({here.level + 1, part});
  }
}

std::int32_t CountedCapacity::slots(NodeId node) const {
  if (!model_.tree().within({model_.tree().depth(), node}, domain_)) return 0;
  return model_.pods_that_fit(node, kind_);
}

void CountedCapacity::recount(GangId gang) {
  NodeId last = std::numeric_limits<NodeId>::max();
  for (const auto& placement : model_.gang(gang).placements) {
    if (placement.node == last) continue;
    last = placement.node;
    const auto now = slots(last);
    sum_ += now - slots_[last];
    slots_[last] = now;
  }
}

void CountedCapacity::apply_eviction(GangId gang) {
  model_.apply_eviction(gang);
  recount(gang);
}

void CountedCapacity::revert_eviction(GangId gang) {
  model_.revert_eviction(gang);
  recount(gang);
}

bool FleetQuery::fits() {
  model_.sync();
  return gang::has_place(model_.fleet(), least_);
}

std::int32_t FleetQuery::slots(NodeId node) const { return model_.state(node).idle(); }

std::optional<gang::Kind> counted_kind(const gang::Request& request, const gang::Tree& tree) {
  const auto& group = request.gang;
  if (group.sets.size() != 1 || !group.children.empty()) return std::nullopt;
  const auto& set = group.sets[0];
  gang::Kind kind{.pod = set.pod, .gates = set.gates, .exclusive = request.exclusive};
  if (set.slices.size > 1) {
    if (set.slices.level != tree.depth()) return std::nullopt;
    kind.run = set.slices.size;
  }
  if (set.spread.most > 0) {
    if (set.spread.level != tree.depth()) return std::nullopt;
    kind.most = set.spread.most;
  }
  return kind;
}

namespace {
void make_least(gang::Group& group) {
  for (auto& set : group.sets) {
    if (set.min_count > 0) set.count = set.min_count;
    set.min_count = 0;
  }
  for (auto& child : group.children) make_least(child);
}
}  // namespace

gang::Request minimum_of(const gang::Request& request) {
  auto out = request;
  make_least(out.gang);
  return out;
}

std::optional<VictimSet> cover(FeasibilityCheck& check, std::span<const Victim> victims, std::int64_t& effort) {
  return Search(check, victims, effort).run();
}

}  // namespace qm::placement::plan
