// Forecast of a start: the rows become a Scene, from which futures are simulated.
#include "qm/admission/queries/when.hpp"

#include "qm/admission/queries/queues.hpp"
#include "queries/causes.hpp"
#include "queries/copied.hpp"
#include "state/cause.hpp"
#include "state/engine_state.hpp"
#include "state/queue_lookup.hpp"

#include <algorithm>
#include <memory>

namespace qm::admission {
namespace {

using forecast::Declared;
using forecast::JobClass;

constexpr int kFutures = 32;
constexpr int kMostEvents = 10'000;  ///< per future
constexpr std::size_t kMostClasses = 512;

/// Lifetimes by job class, each built once.
class Lives {
 public:
  Lives(forecast::RunTimes& run_times, Instant now) : run_times_(run_times), now_(now) {}
  forecast::Scene::Life of(const JobClass& job_class, const Declared& declared) {
    const int number = kins_.try_emplace(job_class, static_cast<int>(kins_.size())).first->second;
    auto& span = spans_[{job_class, declared.expected, declared.deadline}];
    if (!span) span = std::make_shared<const forecast::Lifetime>(run_times_.of(job_class, declared, now_));
    return {span, number};
  }

 private:
  forecast::RunTimes& run_times_;
  Instant now_;
  std::map<JobClass, int> kins_;
  std::map<std::tuple<JobClass, std::optional<Duration>, std::optional<Duration>>,
           std::shared_ptr<const forecast::Lifetime>>
      spans_;
};

/// Recent arrivals in the tree, in classes of similar workloads. Names are ignored: each would be a class of its own.
void add_arrivals(const std::vector<std::pair<const Workload*, ForecastWorkload>>& came, Instant now, Lives& lives,
                  Outlook& out) {
  out.arrivals = forecast::Arrivals({kArrivalsOf, forecast::Arrivals::Settings().kept});
  out.arrivals.listens_since(now - kArrivalsOf);
  std::map<std::tuple<kueue::Node, int, std::int32_t, std::string>, int> classes;
  for (const auto& [w, figure] : came) {
    JobClass job_class = job_class_of(*w);
    job_class.stem.clear();
    const std::tuple key{figure.work.queue, figure.work.shape, figure.work.priority, job_class.team};
    auto known = classes.find(key);
    if (known == classes.end()) {
      if (classes.size() >= kMostClasses) continue;
      kueue::Work pattern = figure.work;
      pattern.usage.clear();
      pattern.reserved = 0;
      pattern.evicted = false;
      pattern.stake = {};
      known = classes.emplace(key, out.arrivals.add_class({std::move(pattern), job_class, declared_of(*w)})).first;
      out.scene.of_class.push_back(lives.of(job_class, declared_of(*w)));
    }
    out.arrivals.came(known->second, w->spec.submitted);
  }
}

/// Why there is no estimate: futures would not change the state, or cannot be simulated.
std::optional<Cause> no_estimate(const EngineState& state, const Workload& w, Instant now) {
  if (w.ended()) return cause_of("Ended", fmt::format("it has ended: {}", name_of(w.phase)));
  if (w.phase == Phase::kEvicting) {
    return cause_of("Evicting", fmt::format("it is being evicted ({}); retry when its pods are gone", w.reason));
  }
  if (w.phase == Phase::kAdmitted) {
    return cause_of("AlreadyAdmitted", fmt::format("it has started: admitted at {}", to_rfc3339(w.admitted)));
  }
  if (w.phase == Phase::kQuotaReserved) {
    return cause_of("AlreadyAdmitted",
                    fmt::format("it holds quota since {}, and is gated by {}", to_rfc3339(w.quota_reserved),
                                w.gated ? "its admission checks or the readiness of other workloads" : "placement"));
  }
  if (!w.inactive.empty()) return cause_of("Inactive", fmt::format("it is not active: {}", w.inactive));
  if (w.priority_unknown) return unknown_priority(w.spec.priority_class);
  if (w.phase == Phase::kRejected) return cause_of("Rejected", w.rejected());
  if (w.spec.pod_sets.empty()) return no_pods();
  if (!w.refused().empty()) return cause_of("Misconfigured", w.refused());
  if (!w.budget.empty()) return cause_of("BudgetExhausted", fmt::format("it is pending for budget {}", w.budget));
  if (const auto where = resolve_queue(state, w.spec).obstacle) return *where;
  const auto* queue = state.tables.cluster_queues.find(w.cluster_queue);
  if (queue == nullptr) return cause_of("QueueUnknown", "its queue has no ClusterQueue");
  if (auto obstacle = inactive_reason(state, *queue)) return obstacle;
  if (state.indexes.decisions.pooled(w.cluster_queue)) {
    return cause_of("VolcanoRules",
                    fmt::format("queue {} shares a pool by Volcano's rules, which the forecast does not simulate",
                                w.cluster_queue));
  }
  const bool fewer = std::ranges::any_of(w.spec.pod_sets, [](const PodSet& set) { return set.min_count > 0; });
  const auto shortfalls = state.indexes.decisions.shortfalls(w);
  if (!shortfalls.empty() && !fewer) {
    const auto kind = shortfalls.front().kind;  // shortfalls for which waiting does not help come first
    if (kind != QuotaShortfall::Kind::kQuota && kind != QuotaShortfall::Kind::kBorrowingLimit) {
      if (auto ahead = window_ahead(*queue, shortfalls, now)) return ahead;
      return cause_of(
          "NeverFits",
          fmt::format("with the present configuration it never fits in ClusterQueue {}: qmctl why lists the causes",
                      w.cluster_queue));
    }
  }
  return std::nullopt;
}

}  // namespace

tl::expected<Outlook, Cause> outlook_of(const EngineState& state, const Workload& w, Instant now) {
  if (auto no = no_estimate(state, w, now)) return tl::unexpected<Cause>(std::move(*no));
  auto stage = state.indexes.decisions.stage(w.cluster_queue);
  if (!stage) return tl::unexpected<Cause>(cause_of("QueueUnknown", "its queue admits nothing"));
  Outlook out{{std::move(*stage), {}, {}, {}}, {}, -1, {}, {}};
  const auto queues = queues_of_tree(state, w.cluster_queue);

  forecast::RunTimes run_times;
  for (const auto& [job_class, table] : state.tables.run_times) run_times.restore(job_class, table);
  std::map<WorkloadUid, int> numbers;
  for (const auto& [uid, row] : state.tables.workloads) {
    if (row.ended() || !queues.contains(row.cluster_queue)) continue;
    const int id = static_cast<int>(out.names.size());
    numbers.emplace(uid, id);
    out.names.push_back(uid);
    if (row.admitted != Instant{})
      run_times.started(id, job_class_of(row), declared_of(row), std::min(now, row.admitted));
  }
  out.asked = numbers.at(w.spec.uid);
  out.evidence = run_times.evidence(job_class_of(w), declared_of(w), now);

  Lives lives(run_times, now);
  std::vector<std::pair<const Workload*, ForecastWorkload>> came;
  for (const auto& [uid, row] : state.tables.workloads) {
    if (!queues.contains(row.cluster_queue)) continue;
    const auto number = numbers.find(uid);
    auto figure = state.indexes.decisions.figure(row, number == numbers.end() ? -1 : number->second);
    if (!figure) continue;
    if (row.spec.submitted <= now && now - row.spec.submitted < kArrivalsOf) came.emplace_back(&row, *figure);
    if (row.ended()) continue;
    const auto life = lives.of(job_class_of(row), declared_of(row));
    if (row.holds_quota()) {
      const Instant began = row.admitted == Instant{} ? now : std::min(now, row.admitted);
      out.scene.running.push_back({std::move(figure->work), life, began});
    } else if (row.phase == Phase::kPending && !row.spec.pod_sets.empty() && row.inactive.empty() &&
               row.refused().empty() && row.budget.empty() && !row.priority_unknown) {
      std::vector<int> victims;
      if (row.claim) {
        for (const auto& victim : row.claim->victims) {
          const auto* holder = state.tables.workloads.find(victim);
          if (holder != nullptr && holder->holds_quota() && numbers.contains(victim))
            victims.push_back(numbers.at(victim));
        }
      }
      out.scene.waiting.push_back({std::move(figure->work), life, std::move(figure->claimed), std::move(victims)});
    }
  }
  std::ranges::stable_sort(came, {}, [](const auto& one) { return one.first->spec.submitted; });
  add_arrivals(came, now, lives, out);
  return out;
}

Result<When> when(const Tables& rows, const Options& options, const WorkloadUid& uid, Instant now) {
  Engine engine(options);
  load_copied(engine, rows, true, now);
  const auto* w = engine.find(uid);
  if (w == nullptr) return fail(Code::kNotFound, "no workload has the uid {}", uid);
  When out;
  out.declared = declared_of(*w);
  const auto start = outlook_of(engine.state(), *w, now);
  if (!start) {
    out.unknown = start.error();
    return out;
  }
  out.evidence = start->evidence;
  forecast::Eta::Settings settings;
  settings.futures = kFutures;
  settings.events = kMostEvents;
  const auto found = forecast::Eta(settings).ask(start->scene, std::vector{start->asked}, start->arrivals, now);
  const auto& estimate = found.front();
  out.futures = estimate.futures;
  out.started = estimate.started;
  for (const auto& cause : estimate.waits_for) {
    out.waits_for.push_back({start->names[static_cast<std::size_t>(cause.id)], cause.futures});
  }
  if (!estimate.p10) {
    out.unknown =
        cause_of("StartNotForeseen", fmt::format("it starts in {} of {} futures within {} days", estimate.started,
                                                 estimate.futures, settings.horizon / std::chrono::hours(24)));
    return out;
  }
  const auto wait = [&](const std::optional<Instant>& at) { return at ? *at - now : settings.horizon; };
  const forecast::Interval raw{wait(estimate.p10), wait(estimate.p50), wait(estimate.p90)};
  const auto group = forecast::Correction::group_of(static_cast<double>(w->spec.total_gpu_milli()) / 1000);
  auto estimated = start_correction(engine.tables()).corrected(raw, group);
  // A workload is not scheduled before its back-off ends.
  const Duration least = std::max(Duration{0}, w->not_before - now);
  estimated = {std::max(least, estimated.low), std::max(least, estimated.middle), std::max(least, estimated.high)};
  out.low = now + estimated.low;
  if (estimate.p50) out.middle = now + estimated.middle;
  if (estimate.p90) out.high = now + estimated.high;
  if (estimate.p90) out.record = StartEstimate{w->attempt, now, raw, estimated, group};
  return out;
}

}  // namespace qm::admission
