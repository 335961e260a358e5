#pragma once
// Random trees of queues and workloads for property tests.
#include "qm/admission/kueue/forest.hpp"

#include <fmt/format.h>
#include <rapidcheck.h>

namespace qm::admission::kueue {

inline int upto(int most) { return *rc::gen::inRange(0, most + 1); }
inline bool one_in(int n) { return *rc::gen::inRange(0, n) == 0; }

inline Quota some_quota() {
  Quota out;
  out.nominal = upto(8);
  if (one_in(3)) out.borrowing_limit = upto(5);
  if (one_in(3)) out.lending_limit = upto(static_cast<int>(out.nominal));
  return out;
}

inline PreemptPolicy some_policy(bool within) {
  switch (upto(2)) {
    case 0:
      return PreemptPolicy::kNever;
    case 1:
      return PreemptPolicy::kLowerPriority;
    default:
      return within ? PreemptPolicy::kLowerOrNewerEqualPriority : PreemptPolicy::kAny;
  }
}

/// One tree, up to four cohorts deep, with two flavors of two resources.
inline Forest some_forest() {
  Forest out;
  const int cohorts = 1 + upto(3), queues = 1 + upto(4);
  for (int c = 0; c < cohorts; ++c) {
    Forest::Cohort cohort;
    if (c > 0) cohort.parent = fmt::format("c{}", upto(c - 1));
    cohort.weight = upto(3);
    if (one_in(3)) {
      for (int f = 0; f < 2; ++f) cohort.quotas.push_back({f, 0, some_quota()});
    }
    out.cohorts[fmt::format("c{}", c)] = cohort;
  }
  for (int q = 0; q < queues; ++q) {
    Forest::Queue queue;
    queue.cohort = fmt::format("c{}", upto(cohorts - 1));
    queue.weight = upto(3);
    auto& rules = queue.rules;
    rules.strict = one_in(2);
    rules.within_cluster_queue = some_policy(true);
    rules.reclaim_within_cohort = some_policy(false);
    rules.preempts_while_borrowing = one_in(3);
    rules.stops_at_borrowing = one_in(2);
    rules.stops_at_preemption = one_in(2);
    rules.prefers_borrowing = one_in(2);
    rules.groups = {{{0, 1}, {{0, {}}, {1, {}}}}};
    for (int f = 0; f < 2; ++f) {
      for (int r = 0; r < 2; ++r) queue.quotas.push_back({f, r, some_quota()});
    }
    out.queues[fmt::format("q{}", q)] = queue;
  }
  return out;
}

/// Has one or two pod sets, each of one pod or more.
inline Work some_work(int id, Node queue) {
  Work out;
  out.id = id;
  out.queue = queue;
  out.priority = upto(2) * 10;
  out.created = id;
  out.shape = id;
  const int sets = 1 + upto(1);
  for (int s = 0; s < sets; ++s) {
    PodSet set{fmt::format("s{}", s), 1 + upto(2), {}, {{0, 1 + upto(1)}}, {}};
    if (one_in(2)) set.each.emplace_back(1, 1);
    if (one_in(4)) set.min_count = 1;
    out.pod_sets.push_back(set);
  }
  return out;
}

}  // namespace qm::admission::kueue
