// Backfill and aging: reserved starts, and priorities that rise with age.
#include "cause.hpp"
#include "qm/admission/engine.hpp"
#include "qm/admission/forecast/reservations.hpp"
#include "rule_tree.hpp"

#include <algorithm>

namespace qm::admission {
namespace {

/// Maximum number of reservations.
constexpr std::size_t kDeepest = 100;

}  // namespace

// ---- in the trees ----

void Decisions::forget_age(const WorkloadUid& uid, WorkloadEntry& entry) {
  if (entry.ages) ages_.erase({*entry.ages, uid});
  entry.ages.reset();
}

/// The age is as of aged_, so that a tree rebuilt at that time is equal. For a holder it is as of when it got quota.
void Decisions::refresh_age(const Workload& w, WorkloadEntry& entry) {
  forget_age(w.spec.uid, entry);
  entry.raise = 0;
  entry.overdue = false;
  const auto rule = aging_.find(w.cluster_queue);
  if (rule == aging_.end() || entry.at == At::kNowhere) return;
  const bool waits = entry.at == At::kWaiting || entry.at == At::kClaiming;
  const Duration waited = std::max(Duration{0}, (waits ? aged_ : w.quota_reserved) - entry.since);
  entry.raise = std::int64_t{rule->second.priority(entry.priority, waited)} - entry.priority;
  if (!waits) return;
  entry.overdue = rule->second.overdue(waited);
  if (const auto next = rule->second.next_change(entry.priority, waited)) {
    entry.ages = entry.since + *next;
    ages_.emplace(*entry.ages, w.spec.uid);
  }
}

std::vector<int> Decisions::age(Instant now, const std::function<const Workload&(const WorkloadUid&)>& row) {
  std::vector<int> out;
  aged_ = std::max(aged_, now);
  while (!ages_.empty() && ages_.begin()->first <= aged_) {
    const auto uid = ages_.begin()->second;
    auto& entry = *entries_.find(uid);
    trees_[static_cast<std::size_t>(entry.tree)]->withdraw(entry.id);
    enter(row(uid), entry);
    out.push_back(entry.tree);
  }
  return out;
}

std::vector<std::optional<Instant>> Decisions::reserved(const std::vector<const Workload*>& in_order,
                                                        Instant now) const {
  std::vector<std::optional<Instant>> out;
  forecast::Reservations plan;
  bool begun = false, whole = true;
  for (const auto* w : in_order) {
    out.emplace_back();
    const auto as_seen = seen(*w);
    if (!as_seen || !whole) continue;
    auto& [field, work] = *as_seen;
    if (!begun) {
      const auto then = std::exchange(field->now, micros(now));
      plan.begin(*field);
      field->now = then;
      begun = true;
    }
    whole = plan.reserve(work);
    if (whole) out.back() = plan.last();
  }
  return out;
}

// ---- in the engine ----

void Engine::apply_aging() {
  const auto row = [&](const WorkloadUid& uid) -> const Workload& { return *tables_.workloads.find(uid); };
  for (const int tree : indexes_.decisions.age(now_, row)) dirty_.insert(tree);
}

void Engine::explain_backfill(const Workload& w, Instant now, std::vector<Cause>& causes) const {
  const auto& queue = *tables_.cluster_queues.find(w.cluster_queue);
  if (options_.rules.exact || queue.volcano) return;
  const Duration waited = std::max(Duration{0}, now - w.waits_since());
  const auto rank = [&](const Workload& one) {
    const auto& of = *tables_.cluster_queues.find(one.cluster_queue);
    const Duration age = std::max(Duration{0}, now - one.waits_since());
    const auto priority = of.aging ? of.aging->priority(one.spec.priority, age) : one.spec.priority;
    return std::tuple(-std::int64_t{priority}, one.waits_since(), one.spec.uid);
  };
  if (queue.aging && queue.aging->overdue(waited)) {
    causes.push_back(
        cause_of("Overdue",
                 fmt::format("it has been pending for {} h, the bound of the queue: no workload submitted later to "
                             "ClusterQueue {} starts before it, whether or not it fits",
                             waited / std::chrono::hours(1), queue.name),
                 ""));
  } else if (queue.aging) {
    const auto counts = queue.aging->priority(w.spec.priority, waited);
    causes.push_back(
        cause_of("Aging",
                 fmt::format("by its age its effective priority is {} instead of {}; from {} on, no workload submitted "
                             "later to ClusterQueue {} starts before it",
                             counts, w.spec.priority, to_rfc3339(w.waits_since() + queue.aging->bound), queue.name),
                 ""));
  }
  if (!queue.backfill || !w.ready()) return;
  // In the order of the scheduler: the heads of the other queues, then its own queue.
  std::vector<const Workload*> in_order, own;
  const auto ready = [&](const QueueName& name, std::vector<const Workload*>& out) {
    const auto line = indexes_.waiting.find(name);
    if (line == indexes_.waiting.end()) return;
    line->second.all.each([&](const QueueOrder& order) {
      const auto* one = tables_.workloads.find(order.uid);
      if (one->ready()) out.push_back(one);
    });
    std::ranges::sort(out, {}, [&](const Workload* one) { return rank(*one); });
  };
  for (const auto& name : tree_of(queue.name)) {
    const auto& other = *tables_.cluster_queues.find(name);
    if (name == queue.name || (!other.backfill && other.strategy != Strategy::kStrictFifo)) continue;
    std::vector<const Workload*> line;
    ready(name, line);
    if (!line.empty()) in_order.push_back(line.front());
  }
  ready(queue.name, own);
  std::size_t before = 0;
  while (before < own.size() && own[before] != &w) ++before;
  if (before >= kDeepest) {
    causes.push_back(cause_of("NoReservedStart",
                              fmt::format("{} are ahead of it in ClusterQueue {}, and starts are reserved for {}",
                                          before, queue.name, kDeepest),
                              ""));
    return;
  }
  own.resize(before + 1);
  in_order.insert(in_order.end(), own.begin(), own.end());
  const auto start = indexes_.decisions.reserved(in_order, now).back();
  causes.push_back(
      start
          ? cause_of("ReservedStart",
                     fmt::format(
                         "a start is reserved for it at {}, by the run times of earlier workloads; in ClusterQueue {} "
                         "no workload starts before it that would delay this start",
                         to_rfc3339(*start), queue.name),
                     w.planned > Duration{0}
                         ? ""
                         : "declare its run time (quartermaster.dev/expected-runtime): then it can be backfilled")
          : cause_of(
                "NoReservedStart",
                fmt::format("no start within a week can be reserved for it in ClusterQueue {}: the run times of others "
                            "are unknown or longer",
                            queue.name),
                "declare the run times of workloads (quartermaster.dev/expected-runtime), or wait"));
}

}  // namespace qm::admission
