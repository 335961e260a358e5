#include "deciders.hpp"

#include "qm/admission/kueue/forest.hpp"

namespace qm::bench {

using admission::PreemptPolicy;

std::vector<admission::kueue::QuotaState> fields_of(const Quotas& quotas) {
  admission::kueue::Forest forest;
  for (int c = 0; c < quotas.cohorts; ++c) {
    for (int q = 0; q < quotas.queues; ++q) {
      admission::kueue::Forest::Queue queue;
      queue.cohort = fmt::format("cohort-{:02}", c);
      queue.quotas = {{0, 0, {quotas.nominal * 1000, {}, {}}}};
      if (quotas.borrowing_limit) queue.quotas[0].quota.borrowing_limit = *quotas.borrowing_limit * 1000;
      queue.rules.groups = {{{0}, {{0, {}}}}};
      queue.rules.strict = quotas.strict;
      queue.rules.within_cluster_queue = PreemptPolicy::kLowerPriority;
      queue.rules.reclaim_within_cohort = PreemptPolicy::kAny;
      forest.queues[fmt::format("queue-{:02}-{:03}", c, q)] = std::move(queue);
    }
  }
  auto fields = forest.plant().fields;
  for (auto& field : fields) field.fair_sharing = quotas.fair;
  return fields;
}

/// In each tree the cohort is node 0, followed by the queues.
admission::kueue::Work work_of(const Job& job) {
  admission::kueue::Work out;
  out.id = job.id;
  out.queue = job.queue + 1;
  out.priority = job.priority;
  out.created = job.created;
  out.uid = WorkloadUid(fmt::format("{:08}", job.id));
  out.shape = static_cast<int>(job.cpus);
  out.pod_sets = {{"main", 1, {}, {{0, job.cpus * 1000}}, {}}};
  return out;
}

namespace {

WorkloadUid uid_of(int id) { return WorkloadUid(fmt::format("{:08}", id)); }
int id_of(const WorkloadUid& uid) { return std::stoi(uid.value()); }

admission::Options options_of(const Quotas& quotas) {
  admission::Options options;
  options.rules.fair_sharing = quotas.fair;
  return options;
}

}  // namespace

InEngine::InEngine(const Quotas& quotas) : engine_(options_of(quotas)) {
  admission::ApplyObjects objects;
  objects.flavors.push_back({FlavorName("default"), {}, {}, {}, {}});
  for (int c = 0; c < quotas.cohorts; ++c) {
    for (int q = 0; q < quotas.queues; ++q) {
      admission::ClusterQueue queue;
      queue.name = QueueName(fmt::format("queue-{:02}-{:03}", c, q));
      queue.cohort = fmt::format("cohort-{:02}", c);
      admission::Quota quota{quotas.nominal * 1000, {}, {}};
      if (quotas.borrowing_limit) quota.borrowing_limit = *quotas.borrowing_limit * 1000;
      queue.groups = {{{"cpu"}, {{FlavorName("default"), {{"cpu", quota}}}}}};
      if (quotas.strict) queue.strategy = admission::Strategy::kStrictFifo;
      queue.within_cluster_queue = PreemptPolicy::kLowerPriority;
      queue.reclaim_within_cohort = PreemptPolicy::kAny;
      objects.local_queues.push_back(
          {Namespace("default"), queue.name.value(), queue.name, admission::StopPolicy::kNone, {}});
      objects.cluster_queues.push_back(std::move(queue));
    }
  }
  (void)engine_.step(std::vector<admission::Command>{std::move(objects)}, now_);
  engine_.commit();
}

void InEngine::submit(const Job& job) {
  admission::JobUpdated seen;
  seen.spec.uid = uid_of(job.id);
  seen.spec.ns = Namespace("default");
  seen.spec.name = seen.spec.uid.value();
  seen.spec.queue = fmt::format("queue-{:02}-{:03}", job.cohort, job.queue);
  seen.spec.priority = job.priority;
  seen.spec.submitted = from_micros(job.created + 1);
  seen.spec.pod_sets.emplace_back();
  seen.spec.pod_sets.back().shape.cpu_milli = job.cpus * 1000;
  batch_.emplace_back(std::move(seen));
}

void InEngine::finish(int id) {
  admission::JobUpdated seen;
  seen.spec.uid = uid_of(id);
  seen.complete = true;
  batch_.emplace_back(std::move(seen));
}

void InEngine::evicted(int id) {
  batch_.emplace_back(admission::PlacementUpdated{
      uid_of(id), attempts_[static_cast<std::size_t>(id)], admission::Answer::kReleased, {}, {}, {}});
}

void InEngine::step(Decided& out) {
  using What = admission::Event::What;
  const auto commands = std::exchange(batch_, {});
  const auto made = engine_.step(commands, now_);
  engine_.commit();
  for (const auto& [what, w, at] : made.events) {
    if (what != What::kQuotaReserved && what != What::kAdmitted && what != What::kEvicting) continue;
    const int id = id_of(w.spec.uid);
    if (attempts_.size() <= static_cast<std::size_t>(id)) attempts_.resize(static_cast<std::size_t>(id) + 1);
    attempts_[static_cast<std::size_t>(id)] = w.attempt;
    if (what == What::kAdmitted) out.admitted.push_back(id);
    if (what == What::kEvicting) out.preempted.push_back(id);
    if (what == What::kQuotaReserved) {
      batch_.emplace_back(
          admission::PlacementUpdated{w.spec.uid, w.attempt, admission::Answer::kReserved, "reservation", {}, {}});
    }
  }
}

Decided InEngine::run(std::int64_t now) {
  Decided out;
  now_ = from_micros(1'000'000 + now * 1000);
  while (!batch_.empty()) step(out);
  return out;
}

}  // namespace qm::bench
