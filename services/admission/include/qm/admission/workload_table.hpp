#pragma once
#include "qm/admission/workload.hpp"

#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace qm::admission {

/// A Table of workloads: the uid is kept in the row alone, and rows share what they have in common.
///
/// Order    by uid.
/// Threads  one.
/// Cost     as Table's; find and edit of the row that was asked for last are O(1).
class WorkloadTable {
  struct Kept {
    Workload row;
    bool remembered = false;  ///< as it was before this batch
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

  /// The row for writing; new where there was none, and then it has its uid alone.
  Workload& edit(const WorkloadUid& uid);
  void erase(const WorkloadUid& uid);
  /// A row read back from the store: not a change.
  void restore(const WorkloadUid& uid, Workload row);
  /// Of what a row has, the parts that others have as well become one.
  void unite(Workload& row);
  void clear();

  /// Calls fn(uid, const Workload*) for each changed since the last commit; null where the row is gone.
  template <class Fn>
  void changed(Fn&& fn) const {
    for (const auto& [uid, old] : old_) fn(*uid, find(uid));
  }
  void commit();
  void rollback();

 private:
  [[nodiscard]] Kept* look(const WorkloadUid& uid) const;
  void remember(const Uid& uid, Kept* kept);

  Rows rows_;
  std::map<Uid, std::optional<Workload>> old_;
  mutable Kept* last_ = nullptr;  ///< that was found last

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
