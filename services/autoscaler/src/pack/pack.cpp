// The plan is the cheapest of several constructions: greedy passes with different orders, and the rule of Karpenter.
// It is then improved, a fixed number of steps a pod or until the caller ends the search, and bounded from below.
#include "bound/bound.hpp"
#include "qm/autoscaler/pack/plan.hpp"
#include "search.hpp"
#include "stock/fleet.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace qm::autoscaler::pack {
namespace {

constexpr double kClosed = 1e-6;                 // a plan within this part of the bound is not improved further
constexpr std::size_t kPodsForAllRules = 5'000;  // more pods get less search for each
constexpr std::size_t kPodsOfClass = 32;         // with so many equal pods, a greedy pass takes little time
constexpr std::uint64_t kFastRounds = 24;        // of the bound
constexpr double kFirstSearch = 0.3, kBoundSearch = 0.8,
                 kLastSearch = 0.985;   // ends of the phases, as parts of the time
constexpr double kNominatedPart = 0.2;  // of the time, before the search for a plan for the stock scheduler
constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

Nodes constructed(Model& model, NodeEditor& editor) {
  using Order = GreedyRule::Order;
  static constexpr std::array kRules{GreedyRule{Order::kRepellingFirst, 0.8}, GreedyRule{Order::kGpusFirst, 0.0},
                                     GreedyRule{Order::kLargestFirst, 0.8}, GreedyRule{Order::kRepellingFirst, 0.95}};
  // The second is the plain greedy by price, which is hard to beat where pods request GPUs.
  const bool quick = model.pods <= kPodsForAllRules || model.classes.size() * kPodsOfClass <= model.pods;
  const std::size_t rules = quick ? kRules.size() : model.resources > 3 ? 2 : 1;
  Nodes best;
  double cost = kNever;
  for (std::size_t i = 0; i < rules; ++i) {
    Nodes nodes = greedy(model, editor, kRules[i]);
    if (const double own = cost_of(nodes); own < cost) best = std::move(nodes), cost = own;
    if (cost <= model.resource_bound * (1 + kClosed)) return best;
  }
  if (Nodes nodes = fewest_pods_first(model, editor, cost); !nodes.empty()) best = std::move(nodes);
  return best;
}

/// Improves, bounds, and improves again unless the bound is reached: the plan's nodes help the bound.
double searched(Model& model, NodeEditor& editor, Nodes& nodes, const Effort& effort) {
  if (!effort.stop) {
    const double target = model.resource_bound * (1 + kClosed);
    const std::uint64_t moves = model.pods <= kPodsForAllRules ? 28 * model.pods + 6'000 : 5 * model.pods;
    improve(editor, nodes, {moves, target, {}, {}});
    // Plain CPU and memory need a grid to get beyond the prices of resources, see bound/bound.cpp: that takes time.
    const std::uint64_t rounds = model.pods > kPodsForAllRules || model.resources == 3 ? 1 : kFastRounds;
    return lower_bound(model, nodes, {rounds, 0, 0, cost_of(nodes) / (1 + kClosed), {}});
  }
  const double start = effort.progress();
  const auto until = [&](double part) { return start + (1 - start) * part; };
  const auto reached = [&](double part) {
    return [&effort, end = until(part)] { return effort.stop() || effort.progress() >= end; };
  };
  const auto search = [&](double from, double to, double bound) {
    improve(editor, nodes, {kUnlimited, bound * (1 + kClosed), reached(to), [&effort, from, width = until(to) - from] {
                              return std::max(0.0, (effort.progress() - from) / width);
                            }});
  };
  search(start, kFirstSearch, model.resource_bound);
  const double target = cost_of(nodes) / (1 + kClosed);
  const double bound = lower_bound(model, nodes, {kUnlimited, 1'000'000, 16'000'000, target, reached(kBoundSearch)});
  search(effort.progress(), kLastSearch, bound);
  return bound;
}

Effort first_part(const Effort& effort) {
  if (!effort.stop) return effort;
  Effort out = effort;
  out.stop = [&] { return effort.stop() || effort.progress() >= kNominatedPart; };
  out.progress = [&] { return effort.progress() / kNominatedPart; };
  return out;
}

std::int64_t preference(const Problem& problem, const std::vector<std::size_t>& pods, const Labels& labels) {
  std::int64_t sum = 0;
  for (const auto pod : pods) {
    for (const auto& one : problem.pods[pod].preferred) {
      if (matches(one.term, labels)) sum += one.weight;
    }
  }
  return sum;
}

PlannedNode planned(const Offer& offer, std::vector<std::size_t> pods) {
  PlannedNode out{offer.type, offer.offering, {}, std::move(pods)};
  for (const auto& [key, value] : offer.labels) out.requirements.push_back({key, Operator::kIn, {value}});
  return out;
}

/// Among the offers that hold the node's pods at its cost, the one that its pods prefer most; ties go to the first.
PlannedNode launched(const Problem& problem, Model& model, const Node& node, const std::vector<std::size_t>& offers,
                     std::vector<std::size_t> pods) {
  std::size_t best = model.offers.list.size();
  std::int64_t most = 0;
  for (const auto number : offers) {
    const Offer& offer = model.offers.list[number];
    if (offer.price + model.node_price > node.cost) continue;
    const Load& room = model.masks.room_of(number);
    if (!std::equal(node.load.begin(), node.load.end(), room.begin(), std::less_equal<>())) continue;
    const std::int64_t own = preference(problem, pods, offer.labels);
    if (best == model.offers.list.size() || own > most) best = number, most = own;
  }
  return planned(model.offers.list[best], std::move(pods));
}

Status within_limits(const Problem& problem, const Plan& plan) {
  const auto check = [&](const char* name, const std::optional<std::int64_t>& limit,
                         std::int64_t InstanceType::*amount) -> Status {
    std::int64_t sum = 0;
    for (const auto& node : plan.nodes) sum += problem.types[node.type].*amount;
    if (!limit || sum <= *limit) return {};
    return fail({Code::kFailedPrecondition,
                 fmt::format("the plan has {} of {}, and the limit of the NodePool is {}", sum, name, *limit),
                 "nodepool.limits", "raise the limit, or request less"});
  };
  QM_TRY(check("cpu (milli-cores)", problem.pool.cpu_limit_milli, &InstanceType::cpu_milli));
  return check("memory (bytes)", problem.pool.memory_limit_bytes, &InstanceType::memory_bytes);
}

/// Orders the nodes, and fills the sums.
void finish(const Problem& problem, double node_price, Plan& plan) {
  std::ranges::sort(plan.nodes, {}, [](const PlannedNode& node) { return node.pods.front(); });
  plan.price = 0;
  for (const auto& node : plan.nodes) plan.price += problem.types[node.type].offerings[node.offering].price;
  plan.cost = plan.price + node_price * static_cast<double>(plan.nodes.size());
}

Plan plan_of(const Problem& problem, Model& model, const Nodes& nodes) {
  Plan out;
  out.unplaced = std::move(model.unplaced);
  std::vector<std::size_t> next(model.classes.size(), 0);
  std::map<std::uint32_t, std::vector<std::size_t>> offers;  // by mask
  for (const auto& node : nodes) {
    std::vector<std::size_t> pods;
    for (const auto& entry : node.entries) {
      const auto& all = model.classes[entry.number].pods;
      for (std::uint32_t i = 0; i < entry.count; ++i) pods.push_back(all[next[entry.number]++]);
    }
    std::ranges::sort(pods);
    const auto [found, fresh] = offers.try_emplace(node.mask);
    if (fresh) found->second = model.masks.offers(node.mask);
    out.nodes.push_back(launched(problem, model, node, found->second, std::move(pods)));
  }
  finish(problem, model.node_price, out);
  return out;
}

/// Replaces the nodes by such that suffice for the stock scheduler.
Status adapt(const Problem& problem, Model& model, const Nodes& nodes, const Effort& effort, Plan& plan) {
  StockScheduler scheduler(problem, model);
  const Fleet nominated = fleet_of(model, nodes);
  StockFit fit{0, plan.price, stock_share(scheduler, nominated)};
  std::function<double()> progress;
  if (effort.progress) {
    progress = [&, start = effort.progress()] { return (effort.progress() - start) / std::max(1e-9, 1 - start); };
  }
  // The rule of Karpenter wastes room as the scheduler does.
  NodeEditor editor(model);
  const Fleet fewest = fleet_of(model, fewest_pods_first(model, editor, kNever));
  QM_ASSIGN(const auto stock, stock_fleet(problem, model, scheduler, {nominated, fewest}, effort.stop, progress));
  std::vector<std::vector<std::size_t>> pods(stock.fleet.size());
  for (std::size_t pod = 0; pod < problem.pods.size(); ++pod) {
    if (const auto node = stock.outcome.node_of[pod]; node != StockScheduler::kUnbound) pods[node].push_back(pod);
  }
  plan.nodes.clear();
  for (std::size_t i = 0; i < stock.fleet.size(); ++i) {
    plan.nodes.push_back(planned(model.offers.list[stock.fleet[i]], std::move(pods[i])));
  }
  finish(problem, model.node_price, plan);
  fit.share = stock_share(scheduler, stock.fleet);
  plan.stock = fit;
  return {};
}

}  // namespace

Result<Plan> pack(const Problem& problem, const Effort& effort) {
  Model model;
  QM_TRY(build(problem, effort.node_price, model));
  NodeEditor editor(model);
  Nodes nodes = constructed(model, editor);
  const bool stock = effort.binding == Binding::kStock;
  const double bound = searched(model, editor, nodes, stock ? first_part(effort) : effort);
  Plan out = plan_of(problem, model, nodes);
  out.bound = std::min(bound, out.cost);
  if (stock && !out.nodes.empty()) QM_TRY(adapt(problem, model, nodes, effort, out));
  QM_TRY(within_limits(problem, out));
  return out;
}

}  // namespace qm::autoscaler::pack
