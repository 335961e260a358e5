// Random small problems. The laws: every plan holds; the bound never exceeds the optimum, which exhaustive search or
// GLPK finds; no plan costs more than the rule of Karpenter, written here a second time.
#include "test/pack/problems.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#if __has_include(<glpk.h>)
#include <glpk.h>
#define QM_PACK_HAS_GLPK
#endif

namespace qm::autoscaler::pack::testing {
namespace pack_prop_test {

constexpr double kError = 1e-6;

struct Size {
  std::int64_t types, classes, pods;
  bool constraints;
};

/// Pods of the app, or of any other app.
LabelSelector selector_of(Random& random, const std::string& app) {
  if (random.below(3) > 0) return app_is(app);
  return {{{"app", LabelRequirement::Op::kNotIn, {app}}}};
}

/// GPUs, CPU and memory at prices that are not linear; constraints on labels and hosts, or also on zones, which do not
/// have all offerings then.
Problem random_problem(Random& random, const Size& size, bool zones) {
  static constexpr std::array<std::int64_t, 5> kCpu{500, 1000, 1500, 3000, 7000};
  Problem out;
  const auto types = 1 + random.below(size.types);
  for (std::int64_t i = 0; i < types; ++i) {
    const std::int64_t gpus = random.below(3) == 0 ? 0 : std::int64_t{1} << random.below(3);
    const std::int64_t cpu = 2 + random.below(14);
    const double price =
        0.1 * static_cast<double>(cpu) + static_cast<double>(gpus) * (0.5 + 0.1 * static_cast<double>(random.below(8)));
    auto type = type_of("t" + std::to_string(i), cpu, 4 + random.below(28), price, gpus,
                        zones ? std::vector<std::string>{"a", "b", "c"} : std::vector<std::string>{"a"});
    type.overhead_cpu_milli = 100;
    type.pods = 3 + random.below(6);
    type.requirements = {{"kind", Operator::kIn, {gpus > 1 ? "large" : "small"}}};
    for (auto& offering : type.offerings) offering.available = !zones || random.below(5) > 0;
    out.types.push_back(std::move(type));
  }
  const auto classes = 1 + random.below(size.classes);
  for (std::int64_t c = 0; c < classes; ++c) {
    Pod pod = pod_of("", kCpu[static_cast<std::size_t>(random.below(5))], 1 + random.below(6), random.below(3));
    pod.labels["app"] = std::string(1, static_cast<char>('a' + c));
    if (size.constraints) {
      const std::string app(1, static_cast<char>('a' + random.below(classes)));
      const auto kind = random.below(zones ? 9 : 4);
      if (kind == 0) pod.node_selector["kind"] = random.below(2) == 0 ? "large" : "small";
      if (kind == 1) pod.anti_affinity = {{kHost, app_is(app)}};
      if (kind == 2) pod.spread = {{kHost, 1 + random.below(2), app_is(app), true}};
      if (kind == 4) pod.spread = {{kZone, 1 + random.below(2), app_is(app), true}};
      if (kind == 5) pod.affinity = {{kZone, app_is(pod.labels["app"])}};
      if (kind == 6) pod.affinity = {{kZone, selector_of(random, app)}};
      if (kind == 7) pod.anti_affinity = {{kZone, selector_of(random, app)}};
      if (kind == 8) pod.node_selector[kZone] = random.below(2) == 0 ? "b" : "c";
      if (kind >= 6 && random.below(3) == 0) pod.spread = {{kZone, 1, selector_of(random, app), true}};
    }
    const auto count = 1 + random.below(size.pods);
    for (std::int64_t i = 0; i < count; ++i) out.pods.push_back(pod);
  }
  for (std::size_t i = out.pods.size(); i > 1; --i) {
    std::swap(out.pods[i - 1], out.pods[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i)))]);
  }
  for (std::size_t i = 0; i < out.pods.size(); ++i) out.pods[i].uid = std::to_string(i);
  return out;
}

/// The price of the cheapest type for these pods, by the definitions of the problem; infinity if there is none.
double price_of(const Problem& problem, const std::vector<std::size_t>& pods) {
  std::int64_t cpu = 0, memory = 0, gpus = 0;
  for (const auto i : pods) {
    const Pod& pod = problem.pods[i];
    cpu += pod.cpu_milli, memory += pod.memory_bytes;
    if (pod.extended.contains("nvidia.com/gpu")) gpus += pod.extended.at("nvidia.com/gpu");
    for (const auto& term : pod.anti_affinity) {
      for (const auto j : pods) {
        if (j != i && term.topology_key == kHost && term.pods.matches(problem.pods[j].labels))
          return std::numeric_limits<double>::infinity();
      }
    }
    for (const auto& spread : pod.spread) {
      const auto before = std::ranges::count_if(
          pods, [&](std::size_t j) { return j <= i && spread.pods.matches(problem.pods[j].labels); });
      if (spread.topology_key == kHost && before > spread.max_skew) return std::numeric_limits<double>::infinity();
    }
  }
  double best = std::numeric_limits<double>::infinity();
  for (const auto& type : problem.types) {
    const auto has = type.extended.contains("nvidia.com/gpu") ? type.extended.at("nvidia.com/gpu") : 0;
    if (cpu > type.cpu_milli - type.overhead_cpu_milli || memory > type.memory_bytes || gpus > has) continue;
    if (static_cast<std::int64_t>(pods.size()) > type.pods) continue;
    const bool selected = std::ranges::all_of(pods, [&](std::size_t i) {
      const auto& selector = problem.pods[i].node_selector;
      return !selector.contains("kind") || selector.at("kind") == type.requirements[0].values[0];
    });
    if (selected) best = std::min(best, type.offerings[0].price);
  }
  return best;
}

/// The least cost over all partitions of the pods.
class Partitions {
 public:
  Partitions(const Problem& problem, double node_price) : problem_(problem), node_price_(node_price) {}

  double best(const std::vector<std::size_t>& pods) {
    pods_ = pods;
    least_ = std::numeric_limits<double>::infinity();
    place(0, 0);
    return least_;
  }

 private:
  void place(std::size_t next, double cost) {
    if (cost >= least_) return;
    if (next == pods_.size()) {
      least_ = cost;
      return;
    }
    for (std::size_t i = 0; i <= groups_.size(); ++i) {
      const bool fresh = i == groups_.size();
      if (fresh) groups_.emplace_back();
      const double before = groups_[i].empty() ? 0 : price_of(problem_, groups_[i]) + node_price_;
      groups_[i].push_back(pods_[next]);
      const double after = price_of(problem_, groups_[i]) + node_price_;
      if (after < std::numeric_limits<double>::infinity()) place(next + 1, cost - before + after);
      groups_[i].pop_back();
      if (fresh) {
        groups_.pop_back();
        break;
      }
    }
  }

  const Problem& problem_;
  double node_price_;
  std::vector<std::size_t> pods_;
  std::vector<std::vector<std::size_t>> groups_;
  double least_ = 0;
};

/// Karpenter's rule; pods without zone constraints.
double fewest_pods_first_price(const Problem& problem, std::vector<std::size_t> pods) {
  std::ranges::stable_sort(pods, [&](std::size_t a, std::size_t b) {
    const Pod &x = problem.pods[a], &y = problem.pods[b];
    return x.cpu_milli != y.cpu_milli ? x.cpu_milli > y.cpu_milli : x.memory_bytes > y.memory_bytes;
  });
  std::vector<std::vector<std::size_t>> claims;
  for (const auto pod : pods) {
    std::ranges::stable_sort(claims, {}, [](const auto& claim) { return claim.size(); });
    const auto found = std::ranges::find_if(claims, [&](auto claim) {
      claim.push_back(pod);
      return price_of(problem, claim) < std::numeric_limits<double>::infinity();
    });
    found == claims.end() ? claims.push_back({pod}) : found->push_back(pod);
  }
  double sum = 0;
  for (const auto& claim : claims) sum += price_of(problem, claim);
  return sum;
}

std::vector<std::size_t> placed(const Problem& problem, const Plan& plan) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < problem.pods.size(); ++i) {
    if (std::ranges::find(plan.unplaced, i, &Unplaced::pod) == plan.unplaced.end()) out.push_back(i);
  }
  return out;
}

TEST(PackLaws, BoundAndCostEncloseTheOptimum) {
  int equal = 0, cases = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto problem = random_problem(random, {3, 3, 3, true}, false);
    Effort effort;
    effort.node_price = random.below(2) == 0 ? 0 : 0.3;
    const auto plan = pack(problem, effort);
    ASSERT_TRUE(plan);
    const auto held = still_holds(problem, *plan, effort.node_price);
    ASSERT_TRUE(held) << held.error().to_string();
    const auto pods = placed(problem, *plan);
    if (pods.size() > 8) continue;
    for (const auto& one : plan->unplaced)
      ASSERT_EQ(price_of(problem, {one.pod}), std::numeric_limits<double>::infinity());
    const double best = Partitions(problem, effort.node_price).best(pods);
    ASSERT_LE(plan->bound, best + kError);
    ASSERT_GE(plan->cost, best - kError);
    ++cases;
    equal += plan->cost <= best + kError ? 1 : 0;
  }
  fmt::print("{} of {} plans are optimal\n", equal, cases);
  EXPECT_GE(equal * 100, cases * 95);
}

TEST(PackLaws, NeverAboveFewestPodsFirst) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto problem = random_problem(random, {6, 8, 12, false}, false);
    const auto plan = pack(problem);
    ASSERT_TRUE(plan);
    ASSERT_LE(plan->price, fewest_pods_first_price(problem, placed(problem, *plan)) + kError);
  }
}

TEST(PackLaws, PlansForTheStockSchedulerHold) {
  int adapted = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto problem = random_problem(random, {4, 4, 6, true}, random.below(2) == 0);
    Effort effort;
    effort.binding = Binding::kStock;
    const auto plan = pack(problem, effort);
    if (!plan) {  // a pod that came first may take the only zone of a later one, whatever nodes there are
      EXPECT_NE(plan.error().message.find("more nodes do not help"), std::string::npos) << plan.error().to_string();
      continue;
    }
    const auto held = still_holds(problem, *plan);
    ASSERT_TRUE(held) << held.error().to_string();
    if (!plan->stock) continue;
    EXPECT_GE(plan->stock->share, 0.97) << plan->nodes.size();  // other runs than those that decided
    EXPECT_GE(plan->price, plan->bound - kError);
    adapted += plan->stock->nominated_share < plan->stock->share ? 1 : 0;
  }
  EXPECT_GE(adapted, 3);
}

RC_GTEST_PROP(PackLaws, EveryPlanHoldsAndIsTheSameAgain, ()) {
  const auto seed = *rc::gen::inRange<std::uint64_t>(1, 1U << 30U);
  Random random(seed);
  const auto problem = random_problem(random, {5, 7, 10, true}, true);
  const auto plan = pack(problem);
  RC_ASSERT(plan.has_value());
  const auto held = still_holds(problem, *plan);
  if (!held) RC_FAIL(held.error().to_string());
  const auto again = pack(problem);
  RC_ASSERT(again->price == plan->price);
  RC_ASSERT(again->nodes.size() == plan->nodes.size());
  for (std::size_t i = 0; i < plan->nodes.size(); ++i) RC_ASSERT(again->nodes[i].pods == plan->nodes[i].pods);
}

#ifdef QM_PACK_HAS_GLPK
struct Counted {
  std::size_t example;
  std::int64_t count;
};

/// The optimum by integer programming over all patterns of a node.
double optimum(const Problem& problem, const std::vector<Counted>& classes) {
  glp_prob* program = glp_create_prob();
  glp_term_out(GLP_OFF);
  glp_set_obj_dir(program, GLP_MIN);
  glp_add_rows(program, static_cast<int>(classes.size()));
  for (std::size_t i = 0; i < classes.size(); ++i) {
    glp_set_row_bnds(program, static_cast<int>(i + 1), GLP_LO, static_cast<double>(classes[i].count), 0);
  }
  std::vector<std::int64_t> counts(classes.size(), 0);
  for (;;) {
    std::size_t at = 0;
    while (at < counts.size() && counts[at] == classes[at].count) counts[at++] = 0;
    if (at == counts.size()) break;
    ++counts[at];
    std::vector<std::size_t> pods;
    for (std::size_t i = 0; i < counts.size(); ++i)
      pods.insert(pods.end(), static_cast<std::size_t>(counts[i]), classes[i].example);
    const double price = price_of(problem, pods);
    if (price == std::numeric_limits<double>::infinity()) continue;
    const int column = glp_add_cols(program, 1);
    glp_set_obj_coef(program, column, price);
    glp_set_col_kind(program, column, GLP_IV);
    glp_set_col_bnds(program, column, GLP_LO, 0, 0);
    std::vector<int> rows{0};
    std::vector<double> values{0};
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) rows.push_back(static_cast<int>(i + 1)), values.push_back(static_cast<double>(counts[i]));
    }
    glp_set_mat_col(program, column, static_cast<int>(rows.size()) - 1, rows.data(), values.data());
  }
  glp_iocp options;
  glp_init_iocp(&options);
  options.presolve = GLP_ON;
  options.tm_lim = 2'000;
  const bool solved = glp_intopt(program, &options) == 0 && glp_mip_status(program) == GLP_OPT;
  const double out = solved ? glp_mip_obj_val(program) : -1;
  glp_delete_prob(program);
  return out;
}
#endif

TEST(PackLaws, GlpkIsNeverBelowTheBound) {
#ifdef QM_PACK_HAS_GLPK
  double cost = 0, bound = 0, best = 0;
  int solved = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    const auto problem = random_problem(random, {4, 3, 10, false}, false);
    int steps = 0;
    Effort effort;
    if (seed % 2 == 0) {  // a search that is stopped after a while, as with a time
      effort.stop = [&] { return ++steps > 3'000; };
      effort.progress = [&] { return steps / 3'000.0; };
    }
    const auto plan = pack(problem, effort);
    ASSERT_TRUE(plan);
    std::map<std::string, Counted> classes;
    for (const auto i : placed(problem, *plan))
      ++classes.try_emplace(problem.pods[i].labels.at("app"), Counted{i, 0}).first->second.count;
    std::vector<Counted> list;
    for (const auto& [app, one] : classes) list.push_back(one);
    if (list.empty()) continue;
    const double found = optimum(problem, list);
    if (found < 0) continue;
    ++solved;
    ASSERT_LE(plan->bound, found + kError);
    ASSERT_GE(plan->cost, found - kError);
    cost += plan->cost, bound += plan->bound, best += found;
  }
  fmt::print("{} problems by GLPK: plans cost {:.3f} % more, bounds are {:.3f} % below\n", solved,
             100 * (cost / best - 1), 100 * (1 - bound / best));
  EXPECT_GE(solved, 50);
  EXPECT_LE(cost, best * 1.005);
  EXPECT_GE(bound, best * 0.93);
#else
  GTEST_SKIP() << "GLPK is not installed: libglpk-dev";
#endif
}

}  // namespace pack_prop_test
}  // namespace qm::autoscaler::pack::testing
