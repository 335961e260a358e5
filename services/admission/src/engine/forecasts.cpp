// Observations for forecasts: run times of workloads, and the accuracy of estimated starts. All of it is rows,
// changed in the step that handles the event.
#include "qm/admission/forecasts.hpp"

#include "qm/admission/engine.hpp"

#include <algorithm>
#include <bit>

namespace qm::admission {
namespace {

using forecast::JobClass;
using forecast::LifeTable;
using forecast::RunTimes;

constexpr std::size_t kMostKinds = 1024;      ///< rows of run times
constexpr std::size_t kMostEstimates = 1024;  ///< rows of estimates
const std::string kStarts = "starts";         ///< key of the one row of corrections

std::string shape_of(const Spec& spec) {
  const auto milli = spec.total_gpu_milli();
  if (milli == 0) return "no gpu";
  if (milli < 1000) return "part of a gpu";
  return fmt::format("{} gpu", std::bit_ceil(static_cast<std::uint64_t>((milli + 999) / 1000)));
}

/// Narrower classes are merged first if there are too many.
int width_of(const JobClass& job_class) {
  return !job_class.stem.empty() ? 0 : !job_class.team.empty() ? 1 : !job_class.shape.empty() ? 2 : 3;
}

}  // namespace

JobClass job_class_of(const Workload& w) {
  return {w.spec.team.empty() ? w.cluster_queue.value() : w.spec.team.value(), shape_of(w.spec),
          forecast::name_stem(w.spec.name)};
}

forecast::Declared declared_of(const Workload& w) {
  forecast::Declared out;
  if (w.spec.expected_runtime > Duration{0}) out.expected = w.spec.expected_runtime;
  if (w.max_execution > Duration{0}) out.deadline = std::max(Duration{0}, w.max_execution - w.ran);
  return out;
}

/// Records the run time of a workload that ends or is cut off now. Of too many job classes the narrow one with the
/// oldest observation is merged into the next wider one.
void Engine::learn_run(const Workload& w, LifeTable::End how) {
  if (w.admitted == Instant{}) return;
  auto& rows = tables_.run_times;
  const auto take = [&](const JobClass& job_class, const auto& lesson) {
    const auto* known = rows.find(job_class);
    LifeTable table = known != nullptr ? *known : LifeTable(RunTimes::Settings().half_life);
    lesson(table);
    rows.insert(job_class, std::move(table));
  };
  for (const auto& one : RunTimes::lessons(job_class_of(w), declared_of(w), now_ - w.admitted)) {
    take(one.of, [&](LifeTable& table) { table.add(one.lived, how, now_); });
  }
  while (rows.size() > kMostKinds) {
    const auto oldest = std::ranges::min_element(
        rows, {}, [](const auto& row) { return std::pair(width_of(row.first), row.second.at()); });
    const auto [job_class, table] = *oldest;
    rows.erase(job_class);
    if (const auto wider = RunTimes::wider(job_class)) take(*wider, [&](LifeTable& into) { into.add(table); });
  }
}

/// The declared run time, or the 90th percentile of its job class, in steps of an eighth of an octave so that few
/// values differ.
Duration Engine::planned_run(const Workload& w) const {
  constexpr double kEnough = 4;
  const auto declared = declared_of(w);
  if (declared.expected) return std::min(*declared.expected, declared.deadline.value_or(Duration::max()));
  if (declared.deadline) return *declared.deadline;
  const auto* table = tables_.run_times.find(job_class_of(w));
  if (table == nullptr || table->weight(now_) < kEnough) return Duration{0};
  const RunTimes::Settings settings;
  const auto law = table->hazards(forecast::log_logistic(settings.prior_median, 1), 0.01, now_);
  const auto span = forecast::span_of(forecast::Lifetime(law).quantile(0.9));
  return forecast::span_begin(std::min(span + 1, forecast::kSpans - 1));
}

void Engine::on(const EstimatePublished& c) {
  const Workload* w = current_attempt(c.uid, c.estimate.attempt);
  if (w == nullptr || w->phase != Phase::kPending) return;
  // Pending workloads with a bound of their estimate in the past.
  std::vector<WorkloadUid> passed;
  for (const auto& [uid, estimate] : tables_.estimates) {
    const Duration waited = now_ - estimate.at;
    if ((!estimate.low_known && waited >= estimate.corrected.low) ||
        (!estimate.high_known && waited > estimate.corrected.high)) {
      passed.push_back(uid);
    }
  }
  for (const auto& uid : passed) hold_against(uid, false);
  if (tables_.estimates.contains(c.uid)) return;  // the first estimate of a wait counts
  if (tables_.estimates.size() >= kMostEstimates) {
    tables_.estimates.erase(
        std::ranges::min_element(tables_.estimates, {}, [](const auto& row) { return row.second.at; })->first);
  }
  tables_.estimates.insert(c.uid, c.estimate);
}

/// Compares the estimate of a workload with its wait so far; `starts`: the wait is over.
void Engine::hold_against(const WorkloadUid& uid, bool starts) {
  if (!tables_.estimates.contains(uid)) return;
  auto& estimate = tables_.estimates.edit(uid);
  const Duration waited = now_ - estimate.at;
  auto& correction = tables_.corrections.edit(kStarts);
  if (!estimate.low_known && (starts || waited >= estimate.corrected.low)) {
    correction.learn_low(estimate.raw, estimate.group, waited < estimate.corrected.low);
    estimate.low_known = true;
  }
  if (!estimate.high_known && (starts || waited > estimate.corrected.high)) {
    correction.learn_high(estimate.raw, estimate.group, waited > estimate.corrected.high);
    estimate.high_known = true;
  }
  if (starts) tables_.estimates.erase(uid);
}

void Engine::forget_estimate(const WorkloadUid& uid) {
  if (tables_.estimates.contains(uid)) tables_.estimates.erase(uid);
}

forecast::Correction Engine::correction() const {
  const auto* row = tables_.corrections.find(kStarts);
  return row == nullptr ? forecast::Correction() : *row;
}

void Engine::digest_forecasts(Digest& d) const {
  const auto number = [&](double x) { d.add(std::bit_cast<std::int64_t>(x)); };
  for (const auto& [job_class, table] : tables_.run_times) {
    d.add(job_class.team).add(job_class.shape).add(job_class.stem).add(micros(table.at()));
    for (const auto& span : table.spans()) {
      d.add(static_cast<std::int64_t>(span.number));
      number(span.entered);
      number(span.ended);
    }
  }
  for (const auto& [uid, estimate] : tables_.estimates) {
    d.add(uid.value()).add(std::int64_t{estimate.attempt}).add(micros(estimate.at));
    for (const auto& end : {estimate.raw, estimate.corrected})
      d.add(end.low.count()).add(end.middle.count()).add(end.high.count());
    d.add(std::int64_t{estimate.low_known}).add(std::int64_t{estimate.high_known});
  }
  for (const auto& one : correction().kept()) {
    d.add(static_cast<std::int64_t>(one.number));
    number(one.value);
    number(one.steps);
  }
}

}  // namespace qm::admission
