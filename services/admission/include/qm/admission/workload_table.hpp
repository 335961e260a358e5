#pragma once
#include "qm/admission/workload.hpp"

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace qm::admission {

/// A Table of workloads. The uid is stored only in the row, and rows share their common parts.
///
/// Order    by uid.
/// Threads  one.
/// Cost     as Table; find and edit of the last requested row are O(1).
class WorkloadTable {
  struct Kept {
    Workload row;
    bool remembered = false;  ///< its state before the last batch is in `old_`
  };
  struct ByUid {
    using is_transparent = void;
    static const WorkloadUid& of(const Kept& kept) { return *kept.row.spec.uid; }
    static const WorkloadUid& of(const WorkloadUid& uid) { return uid; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return of(a) < of(b);
    }
  };
  using Rows = std::set<Kept, ByUid>;

 public:
  using Entry = std::pair<const WorkloadUid&, const Workload&>;
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Entry;
    using reference = Entry;
    using difference_type = std::ptrdiff_t;
    struct Arrow {
      Entry entry;
      const Entry* operator->() const { return &entry; }
    };
    using pointer = Arrow;
    Iterator() = default;
    explicit Iterator(Rows::const_iterator at) : at_(at) {}
    Entry operator*() const { return {*at_->row.spec.uid, at_->row}; }
    Arrow operator->() const { return {**this}; }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return Iterator(at_++); }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    Rows::const_iterator at_{};
  };

  WorkloadTable() = default;
  WorkloadTable(WorkloadTable&&) = default;
  WorkloadTable& operator=(WorkloadTable&&) = default;

  [[nodiscard]] const Workload* find(const WorkloadUid& uid) const {
    const Kept* kept = look(uid);
    return kept == nullptr ? nullptr : &kept->row;
  }
  [[nodiscard]] bool contains(const WorkloadUid& uid) const { return look(uid) != nullptr; }
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] Iterator begin() const { return Iterator(rows_.begin()); }
  [[nodiscard]] Iterator end() const { return Iterator(rows_.end()); }
  [[nodiscard]] Iterator upper_bound(const WorkloadUid& uid) const { return Iterator(rows_.upper_bound(uid)); }

  /// The row for writing; a new row has only its uid.
  Workload& edit(const WorkloadUid& uid);
  void erase(const WorkloadUid& uid);
  /// Adds a row read from the store; not a change.
  void restore(const WorkloadUid& uid, Workload row);
  /// Replaces the parts of a row that other rows have as well by shared copies.
  void unite(Workload& row);
  void clear();

  /// Calls fn(uid, const Workload*) for each row that the last batch changed; null if it was removed.
  template <class Fn>
  void changed(Fn&& fn) const {
    for (const auto& [uid, old] : old_) fn(*uid, find(uid));
  }
  void seal();
  void commit_sealed() { sealed_.clear(); }
  void commit();
  void rollback();

 private:
  using Old = std::map<Uid, std::optional<Workload>>;
  [[nodiscard]] Kept* look(const WorkloadUid& uid) const;
  void remember(const Uid& uid, Kept* kept);
  /// The rows of `old_` are remembered again at their next change.
  void unmark();

  Rows rows_;
  Old old_;                       ///< the rows before the last batch
  Old sealed_;                    ///< the rows before the sealed batch
  mutable Kept* last_ = nullptr;  ///< the last row that was found

  Pool<Namespace> namespaces_;
  Pool<std::string> texts_;
  Pool<Team> teams_;
  Pool<QueueName> queues_;
  Pool<std::vector<PodSet>> pod_sets_;
  Pool<Labels> labels_;
  Pool<Flavors> flavors_;
  Pool<Usage> usages_;
  Pool<Counts> counts_;
};

}  // namespace qm::admission
