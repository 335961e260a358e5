#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace qm {

/// An unordered map with no observable iteration order.
///
/// Order    none; each() iterates in key order.
/// Threads  one writer; no locking. The address of a value is stable until it is erased.
/// Cost     find, emplace, erase: O(1) on average; each: O(n log n).
template <class Key, class Value, class Hash = std::hash<Key>, class Same = std::equal_to<Key>>
class Lookup {
 public:
  template <class K>
  [[nodiscard]] Value* find(const K& key) {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  template <class K>
  [[nodiscard]] const Value* find(const K& key) const {
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  template <class K>
  [[nodiscard]] bool contains(const K& key) const {
    return values_.contains(key);
  }
  /// Inserts the value unless the key exists, and returns the value of the key.
  Value& emplace(const Key& key, Value value) { return values_.try_emplace(key, std::move(value)).first->second; }
  template <class K>
  void erase(const K& key) {
    if (const auto found = values_.find(key); found != values_.end()) values_.erase(found);
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  /// Calls fn(key, value), smallest key first.
  template <class Fn>
  void each(Fn&& fn) const {
    std::vector<const std::pair<const Key, Value>*> all;
    all.reserve(values_.size());
    for (const auto& one : values_) all.push_back(&one);
    std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const auto* one : all) fn(one->first, one->second);
  }

 private:
  std::unordered_map<Key, Value, Hash, Same> values_;
};

}  // namespace qm
