// Laws over random trees of queues and random streams of events, with batches that are rolled back on the way.
#include "qm/admission/engine.hpp"

#include "qm/admission/queries/workloads.hpp"
#include "qm/admission/queue_order.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdlib>

namespace qm::admission {
namespace engine_prop_test {

using rc::gen::inRange;

// The default of 100 small cases misses what needs two queues and several priorities; RC_PARAMS still overrides it.
[[maybe_unused]] const int kMoreCases = setenv("RC_PARAMS", "max_success=2000 max_size=150", 0);

ClusterQueue random_queue(int i) {
  ClusterQueue q;
  q.name = QueueName(fmt::format("q{}", i));
  q.cohort = *inRange(0, 4) == 0 ? "" : fmt::format("c{}", *inRange(0, 3));
  ResourceGroup group{{std::string(words::kGpuResource)}, {}};
  const int flavors = *inRange(1, 3);
  for (int f = 0; f < flavors; ++f) {
    Quota quota{*inRange<std::int64_t>(0, 12) * 1000, {}, {}};
    if (*inRange(0, 2) == 0) quota.borrowing_limit = *inRange<std::int64_t>(0, 8) * 1000;
    if (*inRange(0, 2) == 0) quota.lending_limit = *inRange<std::int64_t>(0, 8) * 1000;
    group.flavors.push_back({FlavorName(fmt::format("f{}", f)), {{std::string(words::kGpuResource), quota}}});
  }
  q.groups.push_back(group);
  q.strategy = *inRange(0, 3) == 0 ? Strategy::kStrictFifo : Strategy::kBestEffortFifo;
  q.within_cluster_queue = static_cast<PreemptPolicy>(*inRange(0, 3));
  q.reclaim_within_cohort =
      std::vector{PreemptPolicy::kNever, PreemptPolicy::kLowerPriority, PreemptPolicy::kAny}[*inRange(0, 3)];
  q.stop = *inRange(0, 12) == 0 ? StopPolicy::kHold : StopPolicy::kNone;
  q.from_cluster = *inRange(0, 2) == 0;
  q.by_usage = *inRange(0, 3) == 0;
  q.backfill = *inRange(0, 3) == 0;
  if (*inRange(0, 3) == 0) q.aging = forecast::Aging{std::chrono::seconds(*inRange(1, 100)), *inRange(0, 10)};
  if (*inRange(0, 4) == 0) q.checks["check"];
  if (*inRange(0, 6) == 0) q.checks["other"].emplace("f1");
  return q;
}

// Volcano queues next to the others, or in place of them: in a pool with a random rule.
void make_pool(ApplyObjects& apply) {
  const std::string gpu(words::kGpuResource);
  auto& pool = apply.cohorts.front();
  pool.parent.clear();
  pool.sharing = static_cast<volcano::Sharing>(*inRange(0, 3));
  pool.waiting_time = std::chrono::seconds(*inRange(0, 3) == 0 ? *inRange(1, 100) : 0);
  pool.groups = {{{gpu}, {{FlavorName("f0"), {{gpu, Quota{*inRange<std::int64_t>(0, 20) * 1000, {}, {}}}}}}}};
  for (auto& queue : apply.cluster_queues) {
    if (*inRange(0, 4) == 0) continue;
    auto& object = queue.volcano.emplace();
    queue.groups.clear();
    queue.cohort.clear();
    object.rules.name = queue.name.value();
    object.rules.weight = *inRange(1, 5);
    object.rules.reclaimable = *inRange(0, 4) != 0;
    object.rules.preemptable = *inRange(0, 4) != 0;
    object.rules.strict = *inRange(0, 4) == 0;
    object.rules.victims = static_cast<volcano::VictimPolicy>(*inRange(0, 3));
    object.deserved[gpu] = *inRange<std::int64_t>(0, 10);
    if (*inRange(0, 2) == 0) object.capability[gpu] = *inRange<std::int64_t>(0, 12);
  }
}

ApplyObjects random_objects() {
  ApplyObjects apply;
  for (int f = 0; f < 2; ++f) apply.flavors.push_back({FlavorName(fmt::format("f{}", f)), {}, {}, {}, {}});
  for (int c = 0; c < 3; ++c) {
    const int parent = *inRange(-1, 3);  // includes cycles
    apply.cohorts.push_back(
        {fmt::format("c{}", c), parent < 0 || *inRange(0, 2) == 0 ? "" : fmt::format("c{}", parent), {}, {}});
  }
  for (const char* name : {"check", "other"}) {
    if (*inRange(0, 8) != 0) apply.admission_checks.push_back({name, "c", *inRange(0, 8) != 0, {}, {}});
  }
  const int queues = *inRange(1, 5);
  for (int i = 0; i < queues; ++i) {
    apply.cluster_queues.push_back(random_queue(i));
    apply.local_queues.push_back(
        {Namespace("ns"), fmt::format("l{}", i), QueueName(fmt::format("q{}", i)), StopPolicy::kNone, {}});
    apply.local_queues.back().weight_milli = *inRange(0, 3) * 1000;
  }
  if (*inRange(0, 3) == 0) make_pool(apply);
  return apply;
}

/// Changes that an author may make to an object, including ones that are not supported.
void change_object(int n, JobUpdated& seen) {
  const auto one_in = [](int many) { return *inRange(0, many) == 0; };
  if (one_in(4)) seen.spec.queue = fmt::format("l{}", (n + 1) % 5);
  if (one_in(4)) seen.spec.priority = *inRange(0, 5);
  seen.as_submitted = !one_in(4);
  if (seen.spec.kind == "Job") {
    if (one_in(4)) seen.spec.pod_sets[0].count = *inRange(0, 4);
    if (one_in(4)) seen.spec.pod_sets[0].shape.gpu.whole = *inRange(1, 4);
    if (one_in(2)) seen.at_once = *inRange(0, 6);
    if (seen.at_once > 0 && one_in(2)) seen.elastic = true, seen.spec.pod_sets[0].count = seen.at_once;
    if (seen.spec.pod_sets[0].count == 0) seen.spec.pod_sets.clear();
    if (n % 5 == 0 && !seen.spec.pod_sets.empty() && seen.spec.pod_sets[0].count < 2)
      seen.spec.pod_sets[0].min_count = 0;
  }
  if (!one_in(8)) return;
  seen.rejected = fmt::format("field {} is not supported", *inRange(0, 2));
  seen.spec.pod_sets.clear();
  seen.pods_expected = false;
}

JobUpdated random_job() {
  JobUpdated seen;
  const int n = *inRange(0, 12);
  seen.spec.uid = WorkloadUid(fmt::format("w{:02}", n));
  seen.spec.ns = Namespace("ns");
  seen.spec.name = fmt::format("w{:02}", n);
  seen.spec.queue = fmt::format("l{}", n % 5);
  seen.spec.priority = n % 4;
  seen.spec.submitted = from_micros(1000 + n);
  PodSet pods;
  pods.count = 1 + n % 3;
  if (n % 5 == 0) pods.min_count = 1;
  pods.shape.gpu.whole = 1 + n % 4;
  seen.spec.pod_sets.push_back(pods);
  seen.suspended = *inRange(0, 3) != 0;
  seen.complete = *inRange(0, 10) == 0;
  seen.external_scheduler = n % 3 == 0;
  seen.attempt = *inRange(0, 3);
  seen.active = *inRange(0, 2);
  seen.ended = *inRange(0, 4);
  seen.pods_ready = *inRange(0, 2) == 0;
  if (n == 7 && *inRange(0, 3) == 0) seen.refused = "no";
  if (n % 4 == 1) seen.spec_active = *inRange(0, 3) != 0;
  if (n % 4 == 2) seen.max_execution = std::chrono::seconds(20);
  if (n % 4 == 3) {  // a group, with or without its pods
    seen.spec.kind = "PodGroup";
    seen.pods_expected = *inRange(0, 2) == 0;
    if (seen.pods_expected) seen.spec.pod_sets[0].name = "minResources";
    if (*inRange(0, 4) == 0) seen.spec.pod_sets[0].count = *inRange(1, 4);
    seen.waiting_time = WholeSeconds(*inRange(0, 3) == 0 ? *inRange(1, 60) : 0);
    if (seen.pods_expected) seen.suspended = true;
  }
  change_object(n, seen);
  return seen;
}

/// A grant of one of two budgets: a new one, other terms, an older version, other periods, or a withdrawal.
BudgetGranted random_budget(const Engine& engine) {
  BudgetGranted out;
  out.budget = fmt::format("b{}", *inRange(0, 2));
  const auto* known = engine.tables().budgets.find(out.budget);
  out.sequence = (known == nullptr ? 1 : known->sequence) + *inRange<std::uint64_t>(0, 4);
  if (*inRange(0, 2) == 0) {
    out.terms.ns = Namespace("ns");
  } else {
    out.terms.cluster_queue = QueueName(fmt::format("q{}", *inRange(0, 4)));
  }
  out.terms.soft = *inRange(0, 4) == 0;
  out.terms.dollars = *inRange(0, 4) == 0;
  out.terms.default_run = std::chrono::seconds(*inRange(1, 200));
  if (out.terms.dollars) out.terms.prices.push_back({"", "", *inRange<std::int64_t>(0, 5'000'000)});
  const auto length = std::chrono::seconds(*inRange(0, 2) == 0 ? 100 : 150);
  for (Instant from{}; from < from_micros(600'000'000); from += length) {
    out.allotments.push_back({{from, from + length}, *inRange<std::int64_t>(0, 2'000'000), *inRange(0, 1001)});
  }
  out.withdrawn = *inRange(0, 8) == 0;
  return out;
}

// About an existing workload where there is one, and mostly about its current attempt.
Command random_command(const Engine& engine) {
  WorkloadUid uid("none");
  std::int32_t attempt = 1;
  const auto& rows = engine.tables().workloads;
  if (!rows.empty()) {
    auto it = rows.begin();
    std::advance(it, *inRange<std::size_t>(0, rows.size()));
    uid = it->first;
    attempt = it->second.attempt + (*inRange(0, 8) == 0 ? -1 : 0);
  }
  switch (*inRange(0, 20)) {
    case 18:
      return random_budget(engine);
    case 19: {
      const auto spent = *inRange<std::int64_t>(0, 300);
      return SpendingUpdated{uid, attempt, spent * 1000, spent * 1'000'000, *inRange(0, 2) == 0};
    }
    case 16:
      return AnswerCheck{uid, {}, {}, *inRange(0, 3) == 0 ? "other" : "check", static_cast<Verdict>(*inRange(1, 5)),
                         {}};
    case 17:
      if (*inRange(0, 4) == 0) return ActiveUpdated{uid, *inRange(0, 2) == 0};
      if (*inRange(0, 3) == 0) return SetActive{uid, {}, {}, {}, *inRange(0, 2) == 0};
      return AnswerCheck{uid, {}, {}, *inRange(0, 3) == 0 ? "other" : "check", Verdict::kReady, {}};
    case 0:
    case 1:
    case 2:
      return random_job();
    case 3:
    case 4:
    case 5:
      return PlacementUpdated{uid, attempt, Answer::kReserved, "r", {}, {}};
    case 6:
      return PlacementUpdated{uid, attempt, Answer::kShort, "", "no room", {}};
    case 7:
    case 8:
      return PlacementUpdated{uid, attempt, Answer::kReleased, "", {}, {}};
    case 9:
      return PlacementUpdated{uid, attempt, *inRange(0, 2) == 0 ? Answer::kExpired : Answer::kBound, "", {}, {}};
    case 10:
      return EvictionRequested{uid, attempt, "SpotInterruption", "", {}, "uri", "autoscaler"};
    case 11:
      return PromiseUpdated{uid, attempt, from_micros(*inRange<std::int64_t>(0, 400'000'000)), *inRange(0, 2) == 0};
    case 12:
      return *inRange(0, 3) == 0 ? Command(JobDeleted{uid}) : Command(Cancel{uid, {}, {}, {}});
    case 13:
      return IntentOutcome{*inRange(0, 2) == 0 ? "job.unsuspend" : "job.suspend",
                           "",
                           uid.value(),
                           attempt,
                           *inRange(0, 3) != 0,
                           false,
                           false,
                           "no",
                           *inRange(0, 2) == 0};
    case 14:
      return *inRange(0, 4) == 0 ? Command(random_objects()) : Command(RequeueListUpdated{{{uid, attempt}}});
    case 15:
      if (*inRange(0, 3) != 0) return Tick{};
      switch (*inRange(0, 3)) {
        case 0:
          return ObjectDeleted{"ClusterQueue", {}, fmt::format("q{}", *inRange(0, 4))};
        case 1:
          return ObjectDeleted{"LocalQueue", Namespace("ns"), fmt::format("l{}", *inRange(0, 4))};
        default:
          return ObjectsSynced{"ClusterQueue", {{Namespace(), "q0"}, {Namespace(), "q1"}}};
      }
    default:
      return Tick{};
  }
}

struct Trace {
  std::map<WorkloadUid, std::int32_t> attempt;
  std::map<WorkloadUid, Phase> last;
};

// Checks what consumers of the events rely on.
void judge(Trace& trace, const std::vector<Command>& batch, const Output& out) {
  for (const auto& e : out.events) {
    const auto& w = e.workload;
    const auto& uid = w.spec.uid;
    if (e.what == Event::What::kBound) continue;  // not published
    if (e.what == Event::What::kForgotten) {
      trace.attempt.erase(uid);
      trace.last.erase(uid);
      continue;
    }
    if (auto it = trace.attempt.find(uid); it != trace.attempt.end()) {
      const auto before = trace.last.at(uid);
      RC_ASSERT(before != Phase::kFinished && before != Phase::kCancelled);  // finished once
      // Placement may refer to an attempt that the database has lost; then the next attempt follows it.
      const bool updated = std::ranges::any_of(batch, [&](const Command& c) {
        const auto* of = std::get_if<PlacementUpdated>(&c);
        return of != nullptr && of->uid == uid && of->attempt >= it->second;
      });
      const auto next = it->second + (e.what == Event::What::kRequeued ? 1 : 0);
      RC_ASSERT(w.attempt == next || (updated && w.attempt > next));
      const bool stays = e.what == Event::What::kPodsEnded || e.what == Event::What::kUpdated;
      const auto from = stays ? Phase::kAdmitted : Phase::kQuotaReserved;
      if (w.phase == Phase::kAdmitted) RC_ASSERT(before == from);
      if (w.phase == Phase::kQuotaReserved) {
        RC_ASSERT(before == Phase::kPending || e.what == Event::What::kRepeated || e.what == Event::What::kChecked);
      }
      // All checks of a workload that starts are Ready.
      if (e.what == Event::What::kAdmitted || e.what == Event::What::kChecked) {
        for (const auto& [name, answer] : w.checks) RC_ASSERT(answer.verdict == Verdict::kReady);
        RC_ASSERT(!w.gated && w.inactive.empty());
      }
      if (w.phase == Phase::kEvicting) RC_ASSERT(before == Phase::kAdmitted || before == Phase::kEvicting);
    }
    trace.attempt[uid] = w.attempt;
    trace.last[uid] = w.phase;
  }
}

// The queue position equals a plain count of the workloads before it.
void check_positions(const Engine& engine) {
  for (const auto& [uid, w] : engine.tables().workloads) {
    int place = 0;
    if (w.phase == Phase::kPending && !w.cluster_queue.empty()) {
      for (const auto& [other_uid, other] : engine.tables().workloads) {
        const bool waits = other.phase == Phase::kPending && other.cluster_queue == w.cluster_queue;
        if (waits && QueueOrder::of(other) <= QueueOrder::of(w)) ++place;
      }
    }
    RC_ASSERT(queue_position(engine.state(), w) == place);
  }
}

Options random_options() {
  Options options;
  options.start_window = *inRange(0, 6);
  if (*inRange(0, 2) == 0) return options;
  auto& rule = options.wait_for_pods_ready.emplace();
  rule.timeout = std::chrono::seconds(*inRange(1, 40));
  rule.recovery_timeout = std::chrono::seconds(*inRange(0, 20));
  rule.backoff = std::chrono::seconds(*inRange(0, 20));
  rule.block_admission = *inRange(0, 2) == 0;
  rule.keeps_age = *inRange(0, 2) == 0;
  if (*inRange(0, 2) == 0) rule.most_requeues = *inRange(0, 3);
  return options;
}

RC_GTEST_PROP(AdmissionLaws, HoldOverRandomTreesAndEvents, ()) {
  const auto options = random_options();
  Engine engine(options);
  Engine twin(options);
  Instant now = from_micros(1'000'000);
  Trace trace;
  std::set<WorkloadUid> seen;
  const auto objects = random_objects();
  int open = 0;  // steps before the next one that are not committed
  const int steps = *inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    std::vector<Command> batch;
    if (i == 0) batch.emplace_back(objects);
    const int size = *inRange(1, 4);
    for (int k = 0; k < size; ++k) batch.push_back(random_command(engine));
    now += std::chrono::milliseconds(*inRange(0, 20'000));
    const auto before = engine.digest();
    if (*inRange(0, 2) == 0) {
      engine.step(batch, now);
      // Also two steps, as when a batch is decided while the one before it is written.
      if (open < 1 && *inRange(0, 2) == 0) {
        const auto between = engine.digest();
        now += std::chrono::seconds(*inRange(0, 30));
        engine.step(std::vector<Command>{random_command(engine)}, now);
        engine.undo();
        engine.check_laws();
        RC_ASSERT(engine.digest() == between);
      }
      engine.undo();
      engine.check_laws();
      RC_ASSERT(engine.digest() == before);
    }
    const auto out = engine.step(batch, now);
    engine.check_laws();
    judge(trace, batch, out);
    check_positions(engine);
    if (open > 0 || *inRange(0, 2) == 0) {
      engine.commit();
    } else {
      ++open;
    }
    engine.check_laws();
    // The same inputs give the same state, whatever was rolled back in between.
    twin.step(batch, now);
    twin.commit();
    RC_ASSERT(engine.digest() == twin.digest());
    for (const auto& [uid, w] : engine.tables().workloads) seen.insert(uid);
  }
  for (const auto& uid : seen) RC_ASSERT(engine.find(uid) != nullptr || !trace.last.contains(uid));  // none is lost
}

RC_GTEST_PROP(AdmissionLaws, NothingIsAdmittedBeyondNominalAndLimits, ()) {
  // Without changes of quota, usage never exceeds what the queue may have and what the tree has.
  Engine engine;
  Instant now = from_micros(1'000'000);
  const auto objects = random_objects();
  engine.step(std::vector<Command>{objects}, now);
  engine.commit();
  const int steps = *inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    Command command = random_command(engine);
    if (std::holds_alternative<ApplyObjects>(command) || std::holds_alternative<ObjectDeleted>(command) ||
        std::holds_alternative<ObjectsSynced>(command)) {
      command = Tick{};
    }
    engine.step(std::vector<Command>{command}, now += std::chrono::seconds(*inRange(0, 20)));
    engine.commit();
    Usage total, quota;
    for (const auto& [name, cohort] : engine.tables().cohorts) {
      for (const auto& group : cohort.groups) {
        for (const auto& [resource, own] : group.flavors[0].resources) {
          quota[{group.flavors[0].flavor, resource}] += own.nominal;
        }
      }
    }
    for (const auto& [name, q] : engine.tables().cluster_queues) {
      if (q.volcano) {
        Usage held;
        for (const auto& [uid, w] : engine.tables().workloads) {
          if (w.cluster_queue != name) continue;
          for (const auto& [at, amount] : w.usage) held[at] += amount;
        }
        for (const auto& [at, used] : held) {
          total[at] += used;
          const auto most = q.volcano->capability.find(at.resource);
          if (most != q.volcano->capability.end()) RC_ASSERT(used <= most->second * 1000);
        }
        continue;
      }
      for (const auto& flavor : q.groups[0].flavors) {
        for (const auto& [resource, own] : flavor.resources) {
          std::int64_t used = 0;
          for (const auto& [uid, w] : engine.tables().workloads) {
            auto it = w.usage.find({flavor.flavor, resource});
            if (w.cluster_queue == name && it != w.usage.end()) used += it->second;
          }
          total[{flavor.flavor, resource}] += used;
          quota[{flavor.flavor, resource}] += own.nominal;
          if (q.cohort.empty()) RC_ASSERT(used <= own.nominal);
          if (own.borrowing_limit) RC_ASSERT(used <= own.nominal + *own.borrowing_limit);
        }
      }
    }
    for (const auto& [at, used] : total) RC_ASSERT(used <= quota[at]);
  }
}

}  // namespace engine_prop_test
}  // namespace qm::admission
