#include "qm/admission/workload_table.hpp"

namespace qm::admission {

Spec::Spec(const WorkloadSpec& from)
    : uid(from.uid),
      ns(from.ns),
      name(from.name),
      kind(from.kind),
      queue(from.queue),
      priority_class(from.priority_class),
      team(from.team),
      pod_sets(from.pod_sets),
      submitted(from.submitted),
      expected_runtime(from.expected_runtime),
      labels(from.labels),
      priority(from.priority),
      checkpoint(from.checkpoint),
      checkpoints(from.checkpoints) {}

Spec::operator WorkloadSpec() const {
  WorkloadSpec out;
  out.uid = uid;
  out.ns = ns;
  out.name = name;
  out.kind = kind;
  out.queue = queue;
  out.priority = priority;
  out.priority_class = priority_class;
  out.team = team;
  out.pod_sets = pod_sets;
  out.submitted = submitted;
  out.expected_runtime = expected_runtime;
  out.labels = labels;
  out.checkpoints = checkpoints;
  out.checkpoint = checkpoint;
  return out;
}

std::int64_t Spec::total_gpu_milli() const {
  std::int64_t total = 0;
  for (const auto& set : pod_sets) total += set.shape.gpu.total_milli(set.count);
  return total;
}

std::int32_t Spec::total_pods() const {
  std::int32_t total = 0;
  for (const auto& set : pod_sets) total += set.count;
  return total;
}

const std::string& Workload::no_text() {
  static const std::string none;
  return none;
}

const TopologyAssignments& Workload::no_nodes() {
  static const TopologyAssignments none;
  return none;
}

WorkloadSpec Workload::running() const {
  WorkloadSpec out = spec;
  for (std::size_t i = 0; i < counts.size() && i < out.pod_sets.size(); ++i) out.pod_sets[i].count = counts[i];
  if (exceptions && exceptions->scaled_from > 0) out.pod_sets.at(0).min_count = exceptions->scaled_from;
  return out;
}

std::int64_t Workload::running_gpu_milli() const {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < spec.pod_sets.size(); ++i) {
    total += spec.pod_sets[i].shape.gpu.total_milli(i < counts.size() ? counts[i] : spec.pod_sets[i].count);
  }
  return total;
}

std::int32_t Workload::running_pods() const {
  std::int32_t total = 0;
  for (std::size_t i = 0; i < spec.pod_sets.size(); ++i)
    total += i < counts.size() ? counts[i] : spec.pod_sets[i].count;
  return total;
}

WorkloadTable::Kept* WorkloadTable::look(const WorkloadUid& uid) const {
  if (last_ != nullptr && *last_->row.spec.uid == uid) return last_;
  const auto found = rows_.find(uid);
  if (found == rows_.end()) return nullptr;
  return last_ = const_cast<Kept*>(&*found);  // the uid, which is the sort key, never changes
}

void WorkloadTable::remember(const Uid& uid, Kept* kept) {
  if (kept == nullptr) {
    old_.try_emplace(uid);
  } else if (!std::exchange(kept->remembered, true)) {
    old_.try_emplace(uid, kept->row);
  }
}

Workload& WorkloadTable::edit(const WorkloadUid& uid) {
  if (Kept* kept = look(uid)) {
    remember(kept->row.spec.uid, kept);
    return kept->row;
  }
  Kept made;
  made.row.spec.uid = uid;
  made.remembered = true;
  remember(made.row.spec.uid, nullptr);
  last_ = const_cast<Kept*>(&*rows_.insert(std::move(made)).first);
  return last_->row;
}

void WorkloadTable::erase(const WorkloadUid& uid) {
  const auto found = rows_.find(uid);
  if (found == rows_.end()) return;
  remember(found->row.spec.uid, const_cast<Kept*>(&*found));
  last_ = nullptr;
  rows_.erase(found);
}

void WorkloadTable::restore(const WorkloadUid& uid, Workload row) {
  row.spec.uid = row.spec.uid == uid ? row.spec.uid : Uid(uid);
  unite(row);
  Kept* kept = look(uid);
  if (kept == nullptr) {
    rows_.insert(Kept{std::move(row)});
  } else {
    kept->row = std::move(row);
  }
}

void WorkloadTable::unite(Workload& row) {
  namespaces_.unite(row.spec.ns);
  for (auto* text : {&row.spec.kind, &row.spec.queue, &row.spec.priority_class, &row.reason}) texts_.unite(*text);
  teams_.unite(row.spec.team);
  queues_.unite(row.cluster_queue);
  pod_sets_.unite(row.spec.pod_sets);
  labels_.unite(row.spec.labels);
  flavors_.unite(row.flavors);
  usages_.unite(row.usage);
  counts_.unite(row.counts);
}

void WorkloadTable::clear() {
  last_ = nullptr;
  rows_.clear();
  old_.clear();
  sealed_.clear();
}

void WorkloadTable::unmark() {
  for (const auto& [uid, old] : old_) {
    if (Kept* kept = look(uid)) kept->remembered = false;
  }
}

void WorkloadTable::seal() {
  unmark();
  sealed_ = std::exchange(old_, {});
}

void WorkloadTable::commit() {
  unmark();
  old_.clear();
}

void WorkloadTable::rollback() {
  for (auto& [uid, old] : old_) {
    Kept* kept = look(uid);
    if (old && kept != nullptr) {
      kept->row = std::move(*old);
      kept->remembered = false;
    } else if (old) {
      rows_.insert(Kept{std::move(*old)});
    } else if (kept != nullptr) {
      last_ = nullptr;
      rows_.erase(rows_.find(uid));
    }
  }
  old_ = std::exchange(sealed_, {});
}

}  // namespace qm::admission
