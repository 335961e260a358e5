// The stock scheduler spreads pods over all nodes, so a tight plan has no room left for large pods that come late. Each
// new node also attracts earlier pods, so a change of the nodes is judged by running the scheduler. First, nodes for the
// unbound pods are added until nearly all are bound. Then simulated annealing looks for cheaper nodes. Last, nodes are
// added again until fresh runs confirm the result.
#include "stock/fleet.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace qm::autoscaler::pack {
namespace {

constexpr double kMostUnbound = 0.0025;  // of the pods, in the mean of some runs: half of what may remain unbound
constexpr std::size_t kSearchRuns = 2, kConfirmRuns = 16;
constexpr std::uint64_t kConfirmSeed = 1'000, kReportSeed = 2'000;
constexpr double kUnboundCost = 1.5;                  // of an unbound pod, in costs of a node for it alone
constexpr double kStartHeat = 0.3, kEndHeat = 0.005;  // of the mean cost of a node
constexpr double kSearchWork = 150e6;                 // pairs of pods and nodes over all runs, without a time limit
constexpr double kLeastStepWork = 1e5;                // of a step in the same unit: small problems end after fewer runs
constexpr std::size_t kMostChanges = 3;               // of one step
constexpr std::size_t kMostRounds = 500;              // of adding nodes

/// The shapes of one family of offers, by ascending cost; none has at most the room of an earlier one.
struct Family {
  std::vector<std::size_t> offer;
  std::vector<double> cost;
};

/// A node of the search.
struct Member {
  std::size_t family = 0, shape = 0;
};

class FleetSearch {
 public:
  FleetSearch(const Problem& problem, Model& model, StockScheduler& scheduler)
      : model_(model), scheduler_(scheduler), class_of_(problem.pods.size(), nullptr) {
    for (const auto& one : model.classes) {
      for (const auto pod : one.pods) class_of_[pod] = &one;
    }
    every_zone_ = std::ranges::any_of(problem.pods, [](const Pod& pod) {
      return std::ranges::any_of(pod.spread,
                                 [](const auto& one) { return one.required && one.topology_key == kZoneLabel; });
    });
    member_of_.resize(model.offers.list.size());
    for (std::size_t f = 0; f < model.masks.families(); ++f) read_family(f);
  }

  /// Nodes of the first of `starts` are cheap; if they suffice, nothing is left to gain.
  Result<StockFleet> run(const std::vector<Fleet>& starts, const std::function<bool()>& stop,
                         const std::function<double()>& progress) {
    std::vector<Member> best;
    for (const auto& fleet : starts) {
      members_.clear();
      for (const auto offer : fleet) members_.push_back(member_of_[offer]);
      add_zones();
      const std::size_t nodes = members_.size();
      grow();
      if (best.empty() && members_.size() == nodes) return confirmed();
      if (best.empty() || cost_of(members_) < cost_of(best)) best = members_;
    }
    members_ = std::move(best);
    anneal(stop, progress);
    return confirmed();
  }

 private:
  void read_family(std::size_t number) {
    Masks::Bits bits(model_.masks.families() / 64 + 1, 0);
    bits[number / 64] = std::uint64_t{1} << number % 64;
    const auto mask = model_.masks.intern(bits);
    const auto& table = model_.masks.table(mask);
    const auto offers = model_.masks.offers(mask);
    Family out;
    for (std::size_t shape = 0; shape < table.cost.size(); ++shape) {
      out.offer.push_back(offer_of(offers, table, shape));
      out.cost.push_back(table.cost[shape]);
    }
    for (const auto offer : offers) {
      member_of_[offer] = {number, table.cheapest(model_.masks.room_of(offer), model_.resources)};
    }
    families_.push_back(std::move(out));
  }

  [[nodiscard]] std::size_t offer_of(const std::vector<std::size_t>& offers, const ShapeTable& table,
                                     std::size_t shape) const {
    return *std::ranges::find_if(offers, [&](const std::size_t offer) {
      return model_.offers.list[offer].price + model_.node_price <= table.cost[shape] &&
             model_.masks.room_of(offer) == table.room[shape];
    });
  }

  [[nodiscard]] double cost_of(const Member& member) const { return families_[member.family].cost[member.shape]; }
  [[nodiscard]] std::size_t offer_of(const Member& member) const {
    return families_[member.family].offer[member.shape];
  }
  [[nodiscard]] double cost_of(const std::vector<Member>& members) const {
    double sum = 0;
    for (const auto& one : members) sum += cost_of(one);
    return sum;
  }
  [[nodiscard]] Fleet offers(const std::vector<Member>& members) const {
    Fleet out;
    for (const auto& one : members) out.push_back(offer_of(one));
    return out;
  }

  [[nodiscard]] bool few(double unbound) const {
    return unbound <= kMostUnbound * static_cast<double>(scheduler_.pods());
  }

  /// Without a node in a zone, the scheduler ignores the zone in topology spread; a plan does not.
  void add_zones() {
    for (std::size_t zone = 0; every_zone_ && zone < model_.offers.zones.size(); ++zone) {
      if (in_zone(members_, zone)) continue;
      Member least;
      double cost = kNever;
      for (std::size_t f = 0; f < families_.size(); ++f) {
        if (zone_of({f, 0}) == zone && families_[f].cost[0] < cost) least = {f, 0}, cost = families_[f].cost[0];
      }
      members_.push_back(least);
    }
  }
  [[nodiscard]] std::size_t zone_of(const Member& member) const { return model_.offers.list[offer_of(member)].zone; }
  [[nodiscard]] bool in_zone(const std::vector<Member>& members, std::size_t zone) const {
    return std::ranges::any_of(members, [&](const auto& one) { return zone_of(one) == zone; });
  }
  [[nodiscard]] bool covers_zones(const std::vector<Member>& members) const {
    for (std::size_t zone = 0; every_zone_ && zone < model_.offers.zones.size(); ++zone) {
      if (!in_zone(members, zone)) return false;
    }
    return true;
  }

  /// Adds the cheapest node for every second of the pods, in a random zone: half of the others fit then.
  void add_nodes(const std::vector<std::size_t>& unbound) {
    for (std::size_t i = 0; i < unbound.size(); i += 2) {
      const PodClass& one = *class_of_[unbound[i]];
      const auto& table = model_.masks.table(one.any_zone);
      const double cost = table.cost[table.cheapest(one.load, model_.resources)];
      std::vector<Member> suited;
      for (const auto offer : model_.masks.offers(one.any_zone)) {
        const Load& room = model_.masks.room_of(offer);
        if (model_.offers.list[offer].price + model_.node_price <= cost &&
            std::equal(one.load.begin(), one.load.end(), room.begin(), std::less_equal<>())) {
          suited.push_back(member_of_[offer]);
        }
      }
      members_.push_back(suited[random_.below(suited.size())]);
    }
  }

  /// Adds nodes until nearly all pods are bound.
  void grow() {
    for (std::size_t round = 0; round < kMostRounds; ++round) {
      const auto outcome = scheduler_.run(offers(members_), 0);
      if (few(static_cast<double>(outcome.unbound.size()))) return;
      add_nodes(outcome.unbound);
    }
  }

  /// The cost of the nodes, and of too many unbound pods.
  double judged(const std::vector<Member>& members, double cost) {
    double unbound = 0, alone = 0;
    const Fleet fleet = offers(members);
    for (std::uint64_t seed = 0; seed < kSearchRuns; ++seed) {
      const auto outcome = scheduler_.run(fleet, seed);
      unbound += static_cast<double>(outcome.unbound.size()) / kSearchRuns;
      for (const auto pod : outcome.unbound) alone += class_of_[pod]->alone / kSearchRuns;
    }
    const double most = kMostUnbound * static_cast<double>(scheduler_.pods());
    return unbound <= most ? cost : cost + kUnboundCost * alone * (unbound - most) / unbound;
  }

  void anneal(const std::function<bool()>& stop, const std::function<double()>& progress) {
    double cost = cost_of(members_), judgment = judged(members_, cost);
    std::vector<Member> best = members_;
    double least = judgment <= cost ? cost : kNever;
    const double mean = cost / static_cast<double>(members_.size());
    double work = 0;
    while (stop ? !stop() : work < kSearchWork) {
      const double done = progress ? progress() : work / kSearchWork;
      const double heat = mean * kStartHeat * std::pow(kEndHeat / kStartHeat, std::min(done, 1.0));
      auto next = members_;
      for (std::size_t i = 1 + random_.below(kMostChanges); i > 0; --i) change(next);
      work += std::max(kLeastStepWork, static_cast<double>(scheduler_.pods() * next.size() * kSearchRuns));
      if (next.empty() || !covers_zones(next)) continue;
      const double next_cost = cost_of(next);
      if (next_cost > judgment + 20 * heat) continue;
      const double next_judgment = judged(next, next_cost);
      if (next_judgment > judgment && random_.uniform() >= std::exp((judgment - next_judgment) / heat)) continue;
      members_ = std::move(next), cost = next_cost, judgment = next_judgment;
      if (judgment <= cost && cost < least) best = members_, least = cost;
    }
    members_ = std::move(best);
  }

  void change(std::vector<Member>& members) {
    if (members.empty()) return;
    const std::size_t a = random_.below(members.size()), b = random_.below(members.size());
    const auto enlarge = [&](Member& one) {
      one.shape = std::min(one.shape + 1, families_[one.family].cost.size() - 1);
    };
    const auto erase = [&](std::size_t at) {
      members[at] = members.back();
      members.pop_back();
    };
    const auto reduce = [&](std::size_t at) { members[at].shape > 0 ? void(--members[at].shape) : erase(at); };
    switch (random_.below(7)) {
      case 0:
        return enlarge(members[a]);
      case 1:
        return reduce(a);
      case 2:
        return erase(a);
      case 3:
        return members.push_back(members[a]);
      case 4:
        return members.push_back({members[a].family, random_.below(members[a].shape + 1)});
      case 5: {  // one becomes larger at the expense of another
        if (a == b) return;
        enlarge(members[a]);
        return reduce(b);
      }
      default: {  // two become one of their common cost
        if (a == b) return;
        const auto& cost = families_[members[a].family].cost;
        const auto at = std::ranges::upper_bound(cost, cost_of(members[a]) + cost_of(members[b])) - cost.begin();
        members[a].shape = static_cast<std::size_t>(std::max<std::ptrdiff_t>(at - 1, 0));
        return erase(b);
      }
    }
  }

  [[nodiscard]] std::vector<std::size_t> empty_nodes(const StockScheduler::Outcome& outcome) const {
    std::vector<bool> used(members_.size(), false);
    for (const auto node : outcome.node_of) {
      if (node != StockScheduler::kUnbound) used[node] = true;
    }
    std::vector<std::size_t> out;
    for (std::size_t i = used.size(); i-- > 0;) {
      if (!used[i]) out.push_back(i);
    }
    return out;
  }

  /// Removes these nodes, in descending order, unless a zone would be without nodes.
  bool remove(const std::vector<std::size_t>& nodes) {
    auto rest = members_;
    for (const auto node : nodes) rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(node));
    if (!covers_zones(rest)) return false;
    members_ = std::move(rest);
    return true;
  }

  /// Adds nodes until fresh runs bind nearly all pods, and one of them all in order, on all nodes.
  Result<StockFleet> confirmed() {
    for (std::size_t round = 0; round < kMostRounds; ++round) {
      const Fleet fleet = offers(members_);
      std::vector<StockScheduler::Outcome> runs;
      double unbound = 0;
      for (std::uint64_t seed = 0; seed < kConfirmRuns; ++seed) {
        runs.push_back(scheduler_.run(fleet, kConfirmSeed + seed));
        unbound += static_cast<double>(runs.back().unbound.size()) / kConfirmRuns;
      }
      for (auto& one : runs) {
        if (few(unbound) && one.unbound.empty() && one.in_order && empty_nodes(one).empty()) {
          return StockFleet{fleet, std::move(one)};
        }
      }
      const auto complete =
          std::ranges::find_if(runs, [](const auto& one) { return one.unbound.empty() && one.in_order; });
      if (few(unbound) && complete != runs.end() && remove(empty_nodes(*complete))) continue;
      const auto fewest = std::ranges::min_element(
          runs, {}, [](const auto& one) { return one.unbound.empty() ? ~std::size_t{0} : one.unbound.size(); });
      if (!fewest->unbound.empty()) {
        add_nodes(fewest->unbound);
      } else {  // only the order was wrong
        members_.push_back(members_[random_.below(members_.size())]);
      }
    }
    return fail(
        {Code::kFailedPrecondition,
         fmt::format("kube-scheduler leaves pods unbound on {} nodes, and more nodes do not help", members_.size()),
         "scheduler", "set status.nominatedNodeName of the pods to their planned nodes"});
  }

  Model& model_;
  StockScheduler& scheduler_;
  std::vector<const PodClass*> class_of_;  // by pod; null = not placeable
  std::vector<Family> families_;
  std::vector<Member> member_of_;  // by offer
  std::vector<Member> members_;
  bool every_zone_ = false;
  Random random_{1};
};

}  // namespace

Fleet fleet_of(const Model& model, const Nodes& nodes) {
  Fleet out;
  std::map<std::uint32_t, std::vector<std::size_t>> offers;  // by mask
  for (const auto& node : nodes) {
    const auto [found, fresh] = offers.try_emplace(node.mask);
    if (fresh) found->second = model.masks.offers(node.mask);
    out.push_back(*std::ranges::find_if(found->second, [&](const std::size_t offer) {
      const Load& room = model.masks.room_of(offer);
      return model.offers.list[offer].price + model.node_price <= node.cost &&
             std::equal(node.load.begin(), node.load.end(), room.begin(), std::less_equal<>());
    }));
  }
  return out;
}

double stock_share(StockScheduler& scheduler, const Fleet& fleet) {
  if (scheduler.pods() == 0) return 1;
  double unbound = 0;
  for (std::uint64_t seed = 0; seed < kConfirmRuns; ++seed) {
    unbound += static_cast<double>(scheduler.run(fleet, kReportSeed + seed).unbound.size()) / kConfirmRuns;
  }
  return 1 - unbound / static_cast<double>(scheduler.pods());
}

Result<StockFleet> stock_fleet(const Problem& problem, Model& model, StockScheduler& scheduler,
                               const std::vector<Fleet>& starts, const std::function<bool()>& stop,
                               const std::function<double()>& progress) {
  return FleetSearch(problem, model, scheduler).run(starts, stop, progress);
}

}  // namespace qm::autoscaler::pack
