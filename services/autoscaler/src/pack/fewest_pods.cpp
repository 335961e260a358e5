#include "search.hpp"

#include <algorithm>
#include <list>

namespace qm::autoscaler::pack {
namespace {

/// Planned nodes by number of pods. Karpenter sorts them before each pod; a node that got one becomes the first of
/// those with its new number.
class ClaimList {
 public:
  ClaimList(NodeEditor& editor, double limit) : editor_(editor), limit_(limit) {}

  bool insert(std::uint32_t pod) {
    for (std::size_t count = 1; count < by_pods_.size(); ++count) {
      for (auto at = by_pods_[count].begin(); at != by_pods_[count].end(); ++at) {
        Node& node = nodes_[*at];
        Fit fit;
        if (!editor_.fits(node, pod, fit) || !editor_.hosts_allow(node, pod)) continue;
        cost_ += fit.cost - node.cost;
        editor_.add(node, pod, fit);
        if (by_pods_.size() == count + 1) by_pods_.emplace_back();
        by_pods_[count + 1].splice(by_pods_[count + 1].begin(), by_pods_[count], at);
        return cost_ < limit_;
      }
    }
    nodes_.push_back(editor_.fresh(pod));
    cost_ += nodes_.back().cost;
    if (by_pods_.size() < 2) by_pods_.resize(2);
    by_pods_[1].push_back(nodes_.size() - 1);
    return cost_ < limit_;
  }

  Nodes take() { return std::move(nodes_); }

 private:
  NodeEditor& editor_;
  double limit_;
  double cost_ = 0;
  Nodes nodes_;
  std::vector<std::list<std::size_t>> by_pods_;
};

}  // namespace

Nodes fewest_pods_first(Model& model, NodeEditor& editor, double limit) {
  std::vector<std::pair<std::size_t, std::uint32_t>> pods;
  for (std::uint32_t i = 0; i < model.classes.size(); ++i) {
    for (const auto pod : model.classes[i].pods) pods.emplace_back(pod, i);
  }
  std::ranges::sort(pods);
  std::ranges::stable_sort(pods, [&](const auto& a, const auto& b) {
    const Load &x = model.classes[a.second].load, &y = model.classes[b.second].load;
    return x[0] != y[0] ? x[0] > y[0] : x[1] > y[1];
  });
  ClaimList claims(editor, limit);
  for (const auto& [pod, number] : pods) {
    if (!claims.insert(number)) return {};
  }
  return claims.take();
}

}  // namespace qm::autoscaler::pack
