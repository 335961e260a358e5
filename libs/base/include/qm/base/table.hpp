#pragma once
#include <map>
#include <optional>
#include <utility>

namespace qm {

/// A map that records the changes of a batch, so that the batch can be stored or rolled back.
///
/// An engine keeps its state in tables. Every change goes through insert, edit or erase; `commit()` discards the old
/// values, `rollback()` restores them, and `changed()` lists the keys that a batch changed, for the repository.
///
/// A second batch may begin before the first one is committed: after `seal()` the changes are those of the second.
/// Then `commit_sealed()` commits the first one, and `rollback()` reverts the second, after which the first is the last.
///
/// Order    iteration is in key order, so nothing depends on hashing.
/// Threads  one writer; no locking.
/// Cost     O(log n) a change; the first change of a key in a batch copies its row.
template <class Key, class Row>
class Table {
 public:
  using Map = std::map<Key, Row>;

  [[nodiscard]] const Row* find(const Key& key) const {
    auto it = rows_.find(key);
    return it == rows_.end() ? nullptr : &it->second;
  }
  [[nodiscard]] bool contains(const Key& key) const { return rows_.contains(key); }
  [[nodiscard]] const Map& rows() const { return rows_; }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] auto begin() const { return rows_.begin(); }
  [[nodiscard]] auto end() const { return rows_.end(); }

  /// Returns the row for writing; a default-constructed row if absent.
  Row& edit(const Key& key) {
    remember(key);
    return rows_[key];
  }
  Row& insert(const Key& key, Row row) {
    remember(key);
    return rows_.insert_or_assign(key, std::move(row)).first->second;
  }
  void erase(const Key& key) {
    remember(key);
    rows_.erase(key);
  }
  /// Restores a row from the store; this is not recorded as a change.
  void restore(const Key& key, Row row) { rows_.insert_or_assign(key, std::move(row)); }
  void clear() {
    rows_.clear();
    old_.clear();
    sealed_.clear();
  }

  /// Calls fn(key, const Row*) for each key that the last batch changed; null where the row is gone.
  template <class Fn>
  void changed(Fn&& fn) const {
    for (const auto& [key, old] : old_) fn(key, find(key));
  }
  [[nodiscard]] bool dirty() const { return !old_.empty(); }
  void seal() { sealed_ = std::exchange(old_, {}); }
  void commit_sealed() { sealed_.clear(); }
  void commit() { old_.clear(); }
  void rollback() {
    for (auto& [key, old] : old_) {
      if (old) {
        rows_.insert_or_assign(key, std::move(*old));
      } else {
        rows_.erase(key);
      }
    }
    old_ = std::exchange(sealed_, {});
  }

 private:
  void remember(const Key& key) {
    if (old_.contains(key)) return;
    auto it = rows_.find(key);
    old_.emplace(key, it == rows_.end() ? std::nullopt : std::optional<Row>(it->second));
  }

  Map rows_;
  std::map<Key, std::optional<Row>> old_;     ///< the rows before the last batch
  std::map<Key, std::optional<Row>> sealed_;  ///< the rows before the sealed batch
};

}  // namespace qm
