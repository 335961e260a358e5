#pragma once
#include "qm/base/assert.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace qm::kube_rules {

/// Stores one value for each key while it has holders. The address of a value does not change.
template <class Value>
class Shelf {
 public:
  using Id = std::uint32_t;

  /// Adds a holder and returns the id of the key's value, and whether the value is new: then the caller must fill it.
  std::pair<Id, bool> hold(const std::string& key) {
    if (const auto found = ids_.find(key); found != ids_.end()) {
      ++slots_[found->second].holders;
      return {found->second, false};
    }
    Id id = static_cast<Id>(slots_.size());
    if (spare_.empty()) {
      slots_.emplace_back();
    } else {
      id = spare_.back();
      spare_.pop_back();
    }
    slots_[id].holders = 1;
    slots_[id].key = ids_.emplace(key, id).first;
    return {id, true};
  }
  void hold(Id id) { ++slots_[id].holders; }
  /// Removes a holder. For the last one, `end` is called with the value before it is destroyed.
  template <class End>
  void release(Id id, End&& end) {
    Slot& slot = slots_[id];
    QM_ASSERT(slot.holders > 0, "released {} times too often", 1 - slot.holders);
    if (--slot.holders > 0) return;
    end(slot.value);
    ids_.erase(slot.key);
    slot = Slot();
    spare_.push_back(id);
  }
  [[nodiscard]] Value& operator[](Id id) { return slots_[id].value; }
  [[nodiscard]] const Value& operator[](Id id) const { return slots_[id].value; }
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  template <class Fn>
  void each(Fn&& fn) {
    for (Id id = 0; id < slots_.size(); ++id) {
      if (slots_[id].holders > 0) fn(id, slots_[id].value);
    }
  }

 private:
  struct Slot {
    std::int64_t holders = 0;
    typename std::map<std::string, Id>::iterator key{};
    Value value{};
  };
  std::map<std::string, Id> ids_;
  std::deque<Slot> slots_;
  std::vector<Id> spare_;
};

}  // namespace qm::kube_rules
