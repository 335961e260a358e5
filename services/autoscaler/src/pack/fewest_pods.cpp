#include "search.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace qm::autoscaler::pack {
namespace {

constexpr std::size_t kMostIndexed = 32;

/// Planned nodes by number of pods. Karpenter sorts them before each pod, so a node that got one becomes the first of
/// those with its new number, and a new node the last of those with one pod.
///
/// Pods that repel their like look only at the nodes without such a pod: else each would pass all the others.
class ClaimList {
 public:
  ClaimList(const Model& model, NodeEditor& editor, double limit) : editor_(editor), limit_(limit) {
    for (const auto& one : model.classes) {
      for (const auto group : one.anti) {
        if (groups_.size() < kMostIndexed && std::ranges::binary_search(one.member, group) &&
            std::ranges::find(groups_, group) == groups_.end()) {
          groups_.push_back(group);
        }
      }
    }
    open_.resize(groups_.size());
    for (const auto& one : model.classes) {
      blocks_.emplace_back();
      index_.push_back(groups_.size());
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        const bool member = std::ranges::binary_search(one.member, groups_[g]);
        const bool repels = std::ranges::binary_search(one.anti, groups_[g]);
        if (member || repels) blocks_.back().push_back(g);
        if (member && repels) index_.back() = g;
      }
    }
  }

  /// Returns false once the cost has reached the limit.
  bool insert(std::uint32_t pod) {
    for (const Key& key : index_[pod] < groups_.size() ? open_[index_[pod]] : all_) {
      const std::size_t number = std::get<2>(key);
      Node& node = nodes_[number];
      Fit fit;
      if (!editor_.fits(node, pod, fit) || !editor_.hosts_allow(node, pod)) continue;
      cost_ += fit.cost - node.cost;
      editor_.add(node, pod, fit);
      move(number, {pods_on(node), -(++time_), number});
      block(number, pod);
      return cost_ < limit_;
    }
    nodes_.push_back(editor_.fresh(pod));
    cost_ += nodes_.back().cost;
    keys_.emplace_back(1, ++time_, nodes_.size() - 1);
    blocked_.emplace_back(groups_.size(), false);
    all_.insert(keys_.back());
    for (auto& open : open_) open.insert(keys_.back());
    block(nodes_.size() - 1, pod);
    return cost_ < limit_;
  }

  Nodes take() { return std::move(nodes_); }

 private:
  using Key = std::tuple<std::size_t, std::int64_t, std::size_t>;  // pods, rank among nodes with as many, node

  void move(std::size_t number, const Key& to) {
    const auto replace = [&](std::set<Key>& set) {
      auto handle = set.extract(keys_[number]);
      handle.value() = to;
      set.insert(std::move(handle));
    };
    replace(all_);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!blocked_[number][g]) replace(open_[g]);
    }
    keys_[number] = to;
  }

  void block(std::size_t number, std::uint32_t pod) {
    for (const auto group : blocks_[pod]) {
      if (!blocked_[number][group]) open_[group].erase(keys_[number]);
      blocked_[number][group] = true;
    }
  }

  NodeEditor& editor_;
  double limit_;
  double cost_ = 0;
  std::int64_t time_ = 0;
  Nodes nodes_;
  std::vector<Key> keys_;  // by node
  std::set<Key> all_;
  std::vector<std::uint32_t> groups_;             // host groups whose pods repel each other
  std::vector<std::set<Key>> open_;               // nodes that no pod of the group blocks
  std::vector<std::vector<bool>> blocked_;        // by node and group
  std::vector<std::vector<std::size_t>> blocks_;  // groups by class
  std::vector<std::size_t> index_;                // the group by which a class looks for nodes
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
  ClaimList claims(model, editor, limit);
  for (const auto& [pod, number] : pods) {
    if (!claims.insert(number)) return {};
  }
  return claims.take();
}

}  // namespace qm::autoscaler::pack
