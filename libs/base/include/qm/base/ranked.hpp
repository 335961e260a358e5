#pragma once
#include <cstddef>
#include <memory>
#include <utility>

namespace qm {

/// A sorted set that returns the rank of a value.
///
/// Threads  one writer; no locking.
/// Cost     O(log n) for insert, erase and before; three pointers of memory per value in addition to the value.
/// Source   weight-balanced trees with the parameters (3, 2): Hirai and Yamamoto, Balancing weight-balanced trees,
///          2011.
template <class T>
class Ranked {
 public:
  /// Returns whether the value was inserted, that is, was not in the set.
  bool insert(T value) { return insert(root_, std::move(value)); }
  /// Returns whether the value was in the set.
  bool erase(const T& value) { return erase(root_, value); }
  [[nodiscard]] std::size_t size() const { return size(root_); }
  [[nodiscard]] bool empty() const { return root_ == nullptr; }
  /// Requires a non-empty set.
  [[nodiscard]] const T& first() const {
    const Node* at = root_.get();
    while (at->left != nullptr) at = at->left.get();
    return at->value;
  }
  [[nodiscard]] bool contains(const T& value) const {
    const Node* at = root_.get();
    while (at != nullptr && !(at->value == value)) at = value < at->value ? at->left.get() : at->right.get();
    return at != nullptr;
  }
  /// The number of values smaller than `value`, which need not be in the set.
  [[nodiscard]] std::size_t before(const T& value) const {
    std::size_t count = 0;
    for (const Node* at = root_.get(); at != nullptr;) {
      if (at->value < value) {
        count += size(at->left) + 1;
        at = at->right.get();
      } else {
        at = at->left.get();
      }
    }
    return count;
  }
  /// Calls fn(value) from the first to the last.
  template <class Fn>
  void each(Fn&& fn) const {
    each(root_, fn);
  }
  friend bool operator==(const Ranked& a, const Ranked& b) {
    if (a.size() != b.size()) return false;
    bool same = true;
    a.each([&](const T& value) { same = same && b.contains(value); });
    return same;
  }

 private:
  struct Node {
    T value;
    std::size_t size = 1;
    std::unique_ptr<Node> left{}, right{};
  };
  using Link = std::unique_ptr<Node>;

  static std::size_t size(const Link& at) { return at == nullptr ? 0 : at->size; }
  static void count(Node& at) { at.size = size(at.left) + size(at.right) + 1; }
  template <class Fn>
  static void each(const Link& at, Fn& fn) {
    if (at == nullptr) return;
    each(at->left, fn);
    fn(at->value);
    each(at->right, fn);
  }
  /// Rotates the child on one side into the place of its parent.
  static void rotate(Link& at, Link Node::*from, Link Node::*to) {
    Link up = std::move((*at).*from);
    (*at).*from = std::move((*up).*to);
    count(*at);
    (*up).*to = std::move(at);
    at = std::move(up);
    count(*at);
  }
  /// Restores the balance: neither side weighs more than three times the other, where the weight is the size plus
  /// one.
  static void balance(Link& at) {
    const auto lift = [&](Link Node::*heavy, Link Node::*light) {
      Link& child = (*at).*heavy;
      if (size((*child).*light) + 1 >= 2 * (size((*child).*heavy) + 1)) rotate(child, light, heavy);
      rotate(at, heavy, light);
    };
    const std::size_t left = size(at->left) + 1, right = size(at->right) + 1;
    if (right > 3 * left) return lift(&Node::right, &Node::left);
    if (left > 3 * right) return lift(&Node::left, &Node::right);
    count(*at);
  }
  static bool insert(Link& at, T&& value) {
    if (at == nullptr) {
      at = std::make_unique<Node>(Node{std::move(value)});
      return true;
    }
    if (at->value == value) return false;
    if (!insert(value < at->value ? at->left : at->right, std::move(value))) return false;
    balance(at);
    return true;
  }
  static Link take_first(Link& at) {
    if (at->left != nullptr) {
      Link first = take_first(at->left);
      balance(at);
      return first;
    }
    Link first = std::move(at);
    at = std::move(first->right);
    return first;
  }
  static bool erase(Link& at, const T& value) {
    if (at == nullptr) return false;
    if (!(at->value == value)) {
      if (!erase(value < at->value ? at->left : at->right, value)) return false;
      balance(at);
      return true;
    }
    Link gone = std::move(at);
    if (gone->left == nullptr || gone->right == nullptr) {
      at = std::move(gone->left == nullptr ? gone->right : gone->left);
      return true;
    }
    at = take_first(gone->right);
    at->left = std::move(gone->left);
    at->right = std::move(gone->right);
    balance(at);
    return true;
  }

  Link root_;
};

}  // namespace qm
