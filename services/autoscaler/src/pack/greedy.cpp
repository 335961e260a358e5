#include "search.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace qm::autoscaler::pack {
namespace {

constexpr std::size_t kMostOpen = 192;
constexpr double kEqual = 1e-9;

/// Nodes with equal pods.
struct Stack {
  Node node;
  std::size_t count = 0;
  std::uint64_t key = 0;
};

std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::vector<std::uint32_t> ordered(const Model& model, GreedyRule::Order order) {
  std::vector<std::uint32_t> out(model.classes.size());
  std::iota(out.begin(), out.end(), 0U);
  const auto gpus = [&](const PodClass& one) {
    return std::accumulate(one.load.begin() + 3, one.load.end(), std::int64_t{0});
  };
  const auto repels = [](const PodClass& one) { return meet(one.anti, one.member); };
  std::ranges::stable_sort(out, [&](std::uint32_t x, std::uint32_t y) {
    const PodClass &a = model.classes[x], &b = model.classes[y];
    if (order == GreedyRule::Order::kGpusFirst) {
      const auto g = gpus(a), h = gpus(b);
      return g != h ? g > h : a.load[0] != b.load[0] ? a.load[0] > b.load[0] : a.load[1] > b.load[1];
    }
    if (order == GreedyRule::Order::kRepellingFirst && repels(a) != repels(b)) return repels(a);
    return a.size > b.size;
  });
  return out;
}

class GreedyPass {
 public:
  GreedyPass(Model& model, NodeEditor& editor, double slack) : model_(model), editor_(editor), slack_(slack) {}

  Nodes run(const std::vector<std::uint32_t>& order) {
    for (const auto number : order) {
      for (std::size_t left = model_.classes[number].pods.size(); left > 0; --left) insert(number);
    }
    Nodes out;
    for (const auto& stack : stacks_) out.insert(out.end(), stack.count, stack.node);
    return out;
  }

 private:
  void insert(std::uint32_t pod) {
    const Node alone = editor_.fresh(pod);
    std::size_t best = stacks_.size();
    double least = alone.cost - slack_ * alone.slack, tight = alone.slack;
    Fit chosen;
    for (const auto i : open_) {
      const Stack& stack = stacks_[i];
      if (stack.count == 0) continue;
      Fit fit;
      if (!editor_.fits(stack.node, pod, fit)) continue;
      const double score = fit.cost - stack.node.cost - slack_ * (fit.slack - stack.node.slack);
      if (score > least + kEqual || (score > least - kEqual && fit.slack >= tight)) continue;
      if (!editor_.hosts_allow(stack.node, pod)) continue;
      best = i, least = score, tight = fit.slack, chosen = fit;
    }
    const std::uint64_t salt = mixed(pod);
    if (best == stacks_.size()) {
      put(alone, salt);
      return;
    }
    Node grown = stacks_[best].node;
    editor_.add(grown, pod, chosen);
    --stacks_[best].count;
    put(std::move(grown), stacks_[best].key + salt);
  }

  void put(Node node, std::uint64_t key) {
    const auto [found, fresh] = number_.emplace(key, stacks_.size());
    if (!fresh) {
      ++stacks_[found->second].count;
      return;
    }
    stacks_.push_back({std::move(node), 1, key});
    open_.push_back(stacks_.size() - 1);
    if (open_.size() > kMostOpen) close_some();
  }

  /// Closes empty stacks, then the fuller half of the nodes.
  void close_some() {
    std::erase_if(open_, [&](std::size_t i) {
      if (stacks_[i].count == 0) number_.erase(stacks_[i].key);
      return stacks_[i].count == 0;
    });
    if (open_.size() <= kMostOpen * 3 / 4) return;
    std::ranges::stable_sort(
        open_, [&](std::size_t a, std::size_t b) { return stacks_[a].node.slack > stacks_[b].node.slack; });
    for (std::size_t i = kMostOpen / 2; i < open_.size(); ++i) number_.erase(stacks_[open_[i]].key);
    open_.resize(kMostOpen / 2);
    std::ranges::sort(open_);
  }

  Model& model_;
  NodeEditor& editor_;
  double slack_;
  std::vector<Stack> stacks_;
  std::vector<std::size_t> open_;
  std::unordered_map<std::uint64_t, std::size_t> number_;
};

}  // namespace

Nodes greedy(Model& model, NodeEditor& editor, const GreedyRule& rule) {
  return GreedyPass(model, editor, rule.slack).run(ordered(model, rule.order));
}

}  // namespace qm::autoscaler::pack
