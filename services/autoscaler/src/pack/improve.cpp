// One step takes a window of nodes, empties one to three of them, removes some pods from others, and inserts all these
// pods again where the cost rises least. How much unused room counts, the order of the pods and small random omissions
// vary from step to step. Simulated annealing accepts a step that costs a little more while the search is young.
#include "random.hpp"
#include "search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>

namespace qm::autoscaler::pack {
namespace {

constexpr double kSame = 1e-9;
constexpr std::size_t kMostWindow = 32;
constexpr std::size_t kMostForAnnealing = 1'500;  // nodes; more than that are not copied for each new best plan
constexpr double kStartHeat = 0.03;               // of the mean cost of a node
constexpr double kEndHeat = 0.0005;
constexpr std::size_t kMostRemoved = 96;

class Improver {
 public:
  Improver(NodeEditor& editor, Nodes& nodes, const ImproveLimits& limits)
      : editor_(editor), nodes_(nodes), limits_(limits), cost_(cost_of(nodes)), best_cost_(cost_) {}

  void run() {
    const bool anneal = nodes_.size() <= kMostForAnnealing;
    const double mean = cost_ / static_cast<double>(nodes_.size());
    Nodes best = nodes_;
    std::uint64_t moved = 0;
    for (std::uint64_t step = 0; moved < limits_.pods && best_cost_ > limits_.target; ++step) {
      if (step % 16 == 0) {
        if (limits_.stop && limits_.stop()) break;
        const double done =
            limits_.progress ? limits_.progress() : static_cast<double>(moved) / static_cast<double>(limits_.pods);
        heat_ = anneal ? mean * kStartHeat * std::pow(kEndHeat / kStartHeat, std::min(done, 1.0)) : 0;
      }
      take_step();
      moved += removed_.size();
      if (cost_ < best_cost_ - kSame) {
        best_cost_ = cost_;
        if (anneal) best = nodes_;
      }
    }
    if (anneal) nodes_ = std::move(best);
  }

 private:
  double uniform() { return random_.uniform(); }
  std::size_t below(std::size_t n) { return random_.below(n); }

  void choose_window() {
    window_.clear();
    const std::size_t size = std::min(kMostWindow, nodes_.size());
    if (size == nodes_.size()) {
      window_.resize(size);
      std::iota(window_.begin(), window_.end(), std::size_t{0});
    } else {
      while (window_.size() < size) {
        const std::size_t at = below(nodes_.size());
        if (std::ranges::find(window_, at) == window_.end()) window_.push_back(at);
      }
    }
    std::swap(window_.front(), window_[below(size)]);
    // The first nodes are emptied: prefer those with much unused room.
    for (std::size_t i = 0; i < std::min<std::size_t>(3, size); ++i) {
      const std::size_t a = i + below(size - i), b = i + below(size - i);
      std::swap(window_[i], window_[nodes_[window_[a]].slack > nodes_[window_[b]].slack ? a : b]);
    }
  }

  void take_out() {
    removed_.clear();
    const std::size_t emptied = std::min<std::size_t>(1 + below(3), window_.size());
    before_.clear();
    for (const auto at : window_) before_.push_back(nodes_[at]);
    for (std::size_t i = 0; i < emptied && removed_.size() < kMostRemoved; ++i) {
      Node& node = nodes_[window_[i]];
      for (const auto& entry : node.entries) removed_.insert(removed_.end(), entry.count, entry.number);
      node.entries.clear();
    }
    const std::size_t others =
        window_.size() > emptied ? below(1 + std::min<std::size_t>(8, window_.size() - emptied)) : 0;
    for (std::size_t i = 0; i < others && removed_.size() < kMostRemoved; ++i) {
      Node& node = nodes_[window_[emptied + i]];
      const std::uint32_t number = node.entries[below(node.entries.size())].number;
      removed_.push_back(number);
      editor_.remove(node, number);
    }
  }

  void order_removed() {
    const std::size_t kind = below(3);
    keys_.clear();
    for (const auto number : removed_) {
      const double size = editor_.pod_class(number).size;
      keys_.emplace_back(kind == 0 ? -size : kind == 1 ? uniform() : -size * (0.5 + uniform()), number);
    }
    std::ranges::stable_sort(keys_, {}, [](const auto& key) { return key.first; });
  }

  void insert(std::uint32_t pod, double slack_part) {
    Node alone = editor_.fresh(pod);
    double least = alone.cost - slack_part * alone.slack, tight = alone.slack;
    Node* best = nullptr;
    Fit chosen;
    const auto look = [&](Node& node) {
      if (node.entries.empty() || uniform() < 0.02) return;
      Fit fit;
      if (!editor_.fits(node, pod, fit)) return;
      const double score = fit.cost - node.cost - slack_part * (fit.slack - node.slack);
      if (score > least + kSame || (score > least - kSame && fit.slack >= tight)) return;
      if (!editor_.hosts_allow(node, pod)) return;
      best = &node, least = score, tight = fit.slack, chosen = fit;
    };
    for (const auto at : window_) look(nodes_[at]);
    for (auto& node : opened_) look(node);
    if (best == nullptr) {
      opened_.push_back(std::move(alone));
    } else {
      editor_.add(*best, pod, chosen);
    }
  }

  void take_step() {
    static constexpr std::array kParts{0.0, 0.3, 0.6, 0.8, 0.9, 0.95};
    choose_window();
    take_out();
    order_removed();
    const double part = kParts[below(kParts.size())];
    opened_.clear();
    for (const auto& [key, number] : keys_) insert(number, part);
    double change = 0;
    for (std::size_t i = 0; i < window_.size(); ++i) {
      change -= before_[i].cost;
      if (!nodes_[window_[i]].entries.empty()) change += nodes_[window_[i]].cost;
    }
    for (const auto& node : opened_) change += node.cost;
    if (change > kSame && (heat_ <= 0 || uniform() >= std::exp(-change / heat_))) {
      for (std::size_t i = 0; i < window_.size(); ++i) nodes_[window_[i]] = std::move(before_[i]);
      return;
    }
    cost_ += change;
    std::size_t next = 0;
    std::vector<std::size_t> empty;
    for (const auto at : window_) {
      if (!nodes_[at].entries.empty()) continue;
      if (next < opened_.size()) {
        nodes_[at] = std::move(opened_[next++]);
      } else {
        empty.push_back(at);
      }
    }
    for (; next < opened_.size(); ++next) nodes_.push_back(std::move(opened_[next]));
    std::ranges::sort(empty, std::greater<>());
    for (const auto at : empty) {
      if (at + 1 != nodes_.size()) nodes_[at] = std::move(nodes_.back());
      nodes_.pop_back();
    }
  }

  NodeEditor& editor_;
  Nodes& nodes_;
  const ImproveLimits& limits_;
  double cost_, best_cost_;
  double heat_ = 0;
  Random random_{0};
  std::vector<std::size_t> window_;
  Nodes before_, opened_;
  std::vector<std::uint32_t> removed_;
  std::vector<std::pair<double, std::uint32_t>> keys_;
};

}  // namespace

void improve(NodeEditor& editor, Nodes& nodes, const ImproveLimits& limits) {
  if (!nodes.empty()) Improver(editor, nodes, limits).run();
}

}  // namespace qm::autoscaler::pack
