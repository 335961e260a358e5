#pragma once
#include <cstdint>
#include <map>
#include <set>

namespace qm::admission::exact {

/// Who displaced whom among the workloads of one tree, kept free of circles, so that preemption comes to rest by itself.
///
/// Above a workload are those that displaced it, and whoever is above these. A plan for a workload takes nobody above it, and
/// nobody twice while it waits for the same admission; in everything else the rules of the field hold. ADR 0019 proves that no
/// more is needed, in whatever order workloads are admitted.
///
/// Who is leaving already may be counted on by anybody: that displaces nobody.
///
/// Units    instants as the owner counts them.
/// Law      nobody is above itself.
/// Threads  one.
/// Cost     displaced, above, barred: O(pairs); the others O(pairs of the workload · log).
class Displacements {
 public:
  struct Pair {
    std::int64_t at = 0;   ///< when it happened last
    bool settled = false;  ///< the displacer has been admitted since, and may do it again once it waits again
    friend bool operator==(const Pair&, const Pair&) = default;
  };
  using Pairs = std::map<int, Pair>;

  /// Requires that `victim` is not barred for `by`.
  void displaced(int by, int victim, std::int64_t at);
  void admitted(int id);
  /// It has ended.
  void forget(int id);
  /// What happened before `instant` binds nobody any more: called when something came from outside, an arrival or an end, so that
  /// a loop that is driven from outside turns at most once in the time between.
  void relax(std::int64_t instant);
  /// Quota, rules or priorities are others now: what follows from the old ones binds nobody.
  void clear();

  [[nodiscard]] bool above(int a, int b) const;
  /// Whom a plan for `by` may not take: all above it, and those that it displaced since it waits.
  [[nodiscard]] std::set<int> barred(int by) const;
  /// Whether it displaced anybody or was displaced: others of its kind may fare differently.
  [[nodiscard]] bool knows(int id) const { return over_.contains(id) || under_.contains(id); }

  /// For rows: by displaced workload, its displacers. restore() is for who reads them back.
  [[nodiscard]] const std::map<int, Pairs>& all() const { return over_; }
  [[nodiscard]] const Pairs& displacers_of(int victim) const;
  void restore(int victim, const Pairs& displacers);
  /// Nobody displaced it.
  void absolve(int victim);
  /// Displaced workloads of which displacers() has changed since this was asked last.
  [[nodiscard]] std::set<int> take_changed();

 private:
  void drop(int by, int victim);

  std::map<int, Pairs> over_;           ///< victim -> displacer
  std::map<int, std::set<int>> under_;  ///< displacer -> victims
  std::set<int> changed_;
};

}  // namespace qm::admission::exact
