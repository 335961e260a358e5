#include "copied_rows.hpp"

#include "qm/admission/codec.hpp"

#include <set>

namespace qm::admission {
namespace {

/// Copied between two batches: so many rows take less than a millisecond; and looked at.
constexpr int kSlice = 500, kLook = 5000;
/// Rows of run times are larger.
constexpr int kKinds = 100;

const Engine& engine_of(const service::Shell& shell) { return static_cast<const AdmissionShell&>(shell).engine(); }

void copy_objects(const Engine& engine, CopiedRows& out) {
  const auto& tables = engine.tables();
  const auto copy = [](const auto& from, auto& to) {
    for (const auto& [key, row] : from) to.restore(key, row);
  };
  out.options = engine.options();
  copy(tables.cluster_queues, out.rows.cluster_queues);
  copy(tables.local_queues, out.rows.local_queues);
  copy(tables.local_usage, out.rows.local_usage);
  copy(tables.cohorts, out.rows.cohorts);
  copy(tables.flavors, out.rows.flavors);
  copy(tables.priority_classes, out.rows.priority_classes);
  copy(tables.namespaces, out.rows.namespaces);
  copy(tables.admission_checks, out.rows.admission_checks);
  copy(tables.budgets, out.rows.budgets);
  copy(tables.holds, out.rows.holds);
}

template <class Wanted>
void copy_workloads(service::Host& host, CopiedRows& out, const Wanted& wanted) {
  WorkloadUid last;
  for (bool first = true, more = true; more; first = false) {
    host.read([&](const service::Shell& shell) {
      const auto& workloads = engine_of(shell).tables().workloads;
      auto it = first ? workloads.begin() : workloads.upper_bound(last);
      int taken = 0;
      for (int seen = 0; it != workloads.end() && taken < kSlice && seen < kLook; ++it, ++seen) {
        last = it->first;
        if (!wanted(it->second)) continue;
        out.rows.workloads.restore(it->first, it->second);
        ++taken;
      }
      more = it != workloads.end();
    });
  }
}

}  // namespace

CopiedRows copy_rows(service::Host& host) {
  CopiedRows out;
  host.read([&](const service::Shell& shell) { copy_objects(engine_of(shell), out); });
  copy_workloads(host, out, [](const Workload& w) { return !w.ended(); });
  return out;
}

CopiedRows copy_tree(service::Host& host, const WorkloadUid& uid, Instant since) {
  CopiedRows out;
  std::set<QueueName> tree;
  host.read([&](const service::Shell& shell) {
    const auto& engine = engine_of(shell);
    copy_objects(engine, out);
    if (const auto* w = engine.find(uid)) tree = engine.tree_of(w->cluster_queue);
    for (const auto& [key, row] : engine.tables().corrections) out.rows.corrections.restore(key, row);
  });
  forecast::Kin last;
  for (bool first = true, more = true; more; first = false) {
    host.read([&](const service::Shell& shell) {
      const auto& learned = engine_of(shell).tables().run_times;
      auto it = first ? learned.begin() : learned.rows().upper_bound(last);
      for (int taken = 0; it != learned.end() && taken < kKinds; ++it, ++taken) {
        last = it->first;
        out.rows.run_times.restore(it->first, it->second);
      }
      more = it != learned.end();
    });
  }
  copy_workloads(host, out, [&](const Workload& w) {
    return tree.contains(w.cluster_queue) && (!w.ended() || w.spec.submitted >= since || w.spec.uid == uid);
  });
  return out;
}

}  // namespace qm::admission
