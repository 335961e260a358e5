#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace qm::kube_rules {

/// Index of a node in a RuleBook. It is constant while the node exists, and implies no order.
using NodeIndex = std::uint32_t;

/// A set of nodes, one bit for each.
///
/// Threads  any, as a value.
/// Cost     one 64-bit word per 64 nodes for operations on whole sets; O(1) for one node.
class NodeSet {
 public:
  [[nodiscard]] bool contains(NodeIndex node) const {
    return node / 64 < words_.size() && (words_[node / 64] >> node % 64 & 1) != 0;
  }
  void insert(NodeIndex node) {
    if (node / 64 >= words_.size()) words_.resize(node / 64 + 1);
    words_[node / 64] |= std::uint64_t{1} << node % 64;
  }
  void erase(NodeIndex node) {
    if (node / 64 < words_.size()) words_[node / 64] &= ~(std::uint64_t{1} << node % 64);
  }
  void put(NodeIndex node, bool in) { in ? insert(node) : erase(node); }

  /// Intersection with `other`.
  NodeSet& operator&=(const NodeSet& other) {
    if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  NodeSet& operator|=(const NodeSet& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  /// Removes the nodes of `other`.
  NodeSet& operator-=(const NodeSet& other) {
    for (std::size_t i = 0; i < words_.size() && i < other.words_.size(); ++i) words_[i] &= ~other.words_[i];
    return *this;
  }

  /// Symmetric difference with `other`.
  NodeSet& operator^=(const NodeSet& other) {
    if (words_.size() < other.words_.size()) words_.resize(other.words_.size());
    for (std::size_t i = 0; i < other.words_.size(); ++i) words_[i] ^= other.words_[i];
    return *this;
  }

  [[nodiscard]] std::size_t size() const {
    std::size_t count = 0;
    for (const auto word : words_) count += static_cast<std::size_t>(std::popcount(word));
    return count;
  }
  [[nodiscard]] bool empty() const { return !first(); }
  [[nodiscard]] std::optional<NodeIndex> first() const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != 0) return static_cast<NodeIndex>(i * 64 + static_cast<std::size_t>(std::countr_zero(words_[i])));
    }
    return std::nullopt;
  }
  /// Calls fn(node), smallest index first.
  template <class Fn>
  void each(Fn&& fn) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (auto word = words_[i]; word != 0; word &= word - 1) {
        fn(static_cast<NodeIndex>(i * 64 + static_cast<std::size_t>(std::countr_zero(word))));
      }
    }
  }
  friend bool operator==(const NodeSet& a, const NodeSet& b) {
    const auto word = [](const NodeSet& s, std::size_t i) { return i < s.words_.size() ? s.words_[i] : 0; };
    for (std::size_t i = 0; i < a.words_.size() || i < b.words_.size(); ++i) {
      if (word(a, i) != word(b, i)) return false;
    }
    return true;
  }

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace qm::kube_rules
