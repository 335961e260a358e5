// Column generation. The linear program chooses among the patterns known so far. Its duals are
// prices. At these prices the best pattern of each node group is computed, and the patterns with a
// positive reduced profit are added as columns. The same patterns give an upper bound at these
// prices; the least of all these bounds is the result. The prices used are the mean of the
// program's own and the best known ones (dual smoothing): while the program knows few patterns, its
// own duals oscillate.
#include "qm/placement/bound/bound.hpp"

#include "alike.hpp"
#include "pattern.hpp"
#include "qm/simplex/simplex.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

namespace qm::placement::bound {
namespace {

__extension__ typedef __int128 Wide;

constexpr double kMissing = 64;                           // penalty in GPUs for each pod that must be placed and is not
constexpr double kEarns = 1e-7;                           // GPUs; a pattern with less reduced profit is not added
constexpr std::int64_t kHighest = std::int64_t{1} << 40;  // price, in parts: far above any meaningful price

struct Prices {
  std::vector<std::int64_t> pods;  // by class; negative where a `least` requires pods of the class
  std::vector<NodePrices> nodes;   // by group
};

class Program {
 public:
  Program(const Alike& alike, const Effort& effort) : alike_(alike), effort_(effort) {
    for (const auto& group : alike.nodes) pricers_.emplace_back(group.node, alike.wanted);
    for (const auto& one : alike.wanted) {
      most_.push_back(simplex_.add_at_most(static_cast<double>(one.most)));
      least_.push_back(one.least == 0 ? kNone : simplex_.add_at_least(static_cast<double>(one.least), kMissing));
    }
    for (std::size_t i = 0; i < pricers_.size(); ++i) {
      const auto count = static_cast<double>(alike.nodes[i].count);
      count_.push_back(simplex_.add_at_most(count));
      cpu_.push_back(simplex_.add_at_most(count));
      memory_.push_back(simplex_.add_at_most(count));
    }
  }

  Bound run() {
    // Two bounds that need no linear program: all GPUs requested, and all GPUs that the nodes have.
    Prices prices{std::vector<std::int64_t>(alike_.wanted.size(), 0), std::vector<NodePrices>(pricers_.size())};
    look(prices);
    Prices asked = prices;
    for (std::size_t i = 0; i < asked.pods.size(); ++i) asked.pods[i] = alike_.wanted[i].pod.total_milli() * kPart;
    for (auto& pod : asked.pods) pod = std::max<std::int64_t>(pod, 0);
    look(asked);

    Bound out;
    while (out.rounds < effort_.rounds && !stopped()) {
      ++out.rounds;
      if (!simplex_.solve([this] { return stopped(); })) break;
      const Prices own = proposed();
      // If no pattern has a positive reduced profit at the smoothed prices, the program's own
      // prices are tried unchanged.
      if (!look(between(own, *best_prices_)) && !look(own)) {
        out.close = true;
        break;
      }
      const double best = static_cast<double>(best_) / kPart;
      if (best - 1000 * simplex_.value() <= effort_.close * best) {
        out.close = true;
        break;
      }
    }
    out.gpu_milli = static_cast<std::int64_t>(best_ / kPart);
    for (const auto group : alike_.group_of) out.node_milli.push_back(best_worth_[group]);
    for (const auto number : alike_.class_of) {
      out.pod_milli.push_back(static_cast<double>(best_prices_->pods[number]) / kPart);
    }
    return out;
  }

 private:
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] bool stopped() const { return effort_.stop && effort_.stop(); }

  static std::int64_t parts(double gpus) {
    const double parts = gpus * 1000 * static_cast<double>(kPart);
    return std::isfinite(parts) ? static_cast<std::int64_t>(
                                      std::clamp(parts, -static_cast<double>(kHighest), static_cast<double>(kHighest)))
                                : 0;
  }

  /// The program's duals, rounded to whole parts.
  [[nodiscard]] Prices proposed() const {
    Prices out;
    for (std::size_t i = 0; i < most_.size(); ++i) {
      const double low = least_[i] == kNone ? 0 : std::min(0.0, simplex_.dual(least_[i]));
      out.pods.push_back(parts(std::max(0.0, simplex_.dual(most_[i])) + low));
    }
    for (std::size_t i = 0; i < pricers_.size(); ++i) {
      const auto each = [&](std::size_t row, std::int64_t amount) {
        return amount == 0 ? 0 : parts(std::max(0.0, simplex_.dual(row)) / static_cast<double>(amount));
      };
      out.nodes.push_back({each(cpu_[i], pricers_[i].cpu_milli()), each(memory_[i], pricers_[i].memory_mebi())});
    }
    return out;
  }

  static Prices between(Prices a, const Prices& b) {
    const auto mid = [](std::int64_t& x, std::int64_t y) { x = x / 2 + y / 2; };
    for (std::size_t i = 0; i < a.pods.size(); ++i) mid(a.pods[i], b.pods[i]);
    for (std::size_t i = 0; i < a.nodes.size(); ++i) {
      mid(a.nodes[i].cpu, b.nodes[i].cpu);
      mid(a.nodes[i].memory, b.nodes[i].memory);
    }
    return a;
  }

  /// Computes the best pattern of every group and the bound at these prices. Returns false if no
  /// pattern is a new column that could improve the program.
  bool look(const Prices& prices) {
    Wide bound = 0;
    for (std::size_t i = 0; i < alike_.wanted.size(); ++i) {
      const auto& one = alike_.wanted[i];
      bound += Wide{prices.pods[i]} * (prices.pods[i] > 0 ? one.most : one.least);
    }
    bool added = false;
    std::vector<double> worth;
    for (std::size_t i = 0; i < pricers_.size(); ++i) {
      const auto pattern = pricers_[i].best(prices.pods, prices.nodes[i]);
      const Wide node = Wide{pattern.parts} + Wide{prices.nodes[i].cpu} * pricers_[i].cpu_milli() +
                        Wide{prices.nodes[i].memory} * pricers_[i].memory_mebi();
      bound += node * alike_.nodes[i].count;
      worth.push_back(static_cast<double>(node) / static_cast<double>(kPart));
      added |= add(i, pattern);
    }
    if (!best_prices_ || bound < best_) {
      best_ = bound;
      best_prices_ = prices;
      best_worth_ = std::move(worth);
    }
    return added;
  }

  bool add(std::size_t group, const Pattern& pattern) {
    Simplex::Entries entries;
    double worth = 0, cpu = 0, memory = 0;
    for (const auto& [number, count] : pattern.pods) {
      const auto& pod = alike_.wanted[number].pod;
      const auto n = static_cast<double>(count);
      worth += n * static_cast<double>(pod.total_milli()) / 1000;
      cpu += n * static_cast<double>(pod.cpu_milli);
      memory += n * static_cast<double>(pod.memory_bytes >> 20);
      entries.emplace_back(most_[number], n);
      if (least_[number] != kNone) entries.emplace_back(least_[number], n);
    }
    entries.emplace_back(count_[group], 1.0);
    if (cpu > 0) entries.emplace_back(cpu_[group], cpu / static_cast<double>(pricers_[group].cpu_milli()));
    if (memory > 0) entries.emplace_back(memory_[group], memory / static_cast<double>(pricers_[group].memory_mebi()));
    if (simplex_.reduced(worth, entries) <= kEarns) return false;
    simplex_.add_column(worth, std::move(entries));
    return true;
  }

  const Alike& alike_;
  const Effort& effort_;
  std::vector<Pricer> pricers_;
  Simplex simplex_;
  std::vector<std::size_t> most_, least_, count_, cpu_, memory_;  // rows of the program: by class, by group
  Wide best_ = 0;
  std::optional<Prices> best_prices_;
  std::vector<double> best_worth_;
};

}  // namespace

Bound upper_bound(std::span<const NodeGroup> nodes, std::span<const Wanted> wanted, const Effort& effort) {
  const Alike alike = made_alike(nodes, wanted);
  return Program(alike, effort).run();
}

}  // namespace qm::placement::bound
