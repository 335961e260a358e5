#include "quota/run_history.hpp"

#include "qm/admission/queries/when.hpp"

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
Duration planned_run(const EngineState& state, const Workload& w) {
  constexpr double kEnough = 4;
  const auto declared = declared_of(w);
  if (declared.expected) return std::min(*declared.expected, declared.deadline.value_or(Duration::max()));
  if (declared.deadline) return *declared.deadline;
  const auto* table = state.tables.run_times.find(job_class_of(w));
  if (table == nullptr || table->weight(state.now) < kEnough) return Duration{0};
  const RunTimes::Settings settings;
  const auto law = table->hazards(forecast::log_logistic(settings.prior_median, 1), 0.01, state.now);
  const auto span = forecast::span_of(forecast::Lifetime(law).quantile(0.9));
  return forecast::span_begin(std::min(span + 1, forecast::kSpans - 1));
}
forecast::Correction start_correction(const Tables& tables) {
  const auto* row = tables.corrections.find(kStarts);
  return row == nullptr ? forecast::Correction() : *row;
}
void RunHistory::on(const EstimatePublished& c) {
  const Workload* w = state_.current_attempt(c.uid, c.estimate.attempt);
  if (w == nullptr || w->phase != Phase::kPending) return;
  // Pending workloads with a bound of their estimate in the past.
  std::vector<WorkloadUid> passed;
  for (const auto& [uid, estimate] : state_.tables.estimates) {
    const Duration waited = state_.now - estimate.at;
    if ((!estimate.low_known && waited >= estimate.corrected.low) ||
        (!estimate.high_known && waited > estimate.corrected.high)) {
      passed.push_back(uid);
    }
  }
  for (const auto& uid : passed) compare_estimate(uid, false);
  if (state_.tables.estimates.contains(c.uid)) return;  // the first estimate of a wait counts
  if (state_.tables.estimates.size() >= kMostEstimates) {
    state_.tables.estimates.erase(
        std::ranges::min_element(state_.tables.estimates, {}, [](const auto& row) { return row.second.at; })->first);
  }
  state_.tables.estimates.insert(c.uid, c.estimate);
}

void RunHistory::learn_run(const Workload& w, LifeTable::End how) {
  if (w.admitted == Instant{}) return;
  auto& rows = state_.tables.run_times;
  const auto take = [&](const JobClass& job_class, const auto& lesson) {
    const auto* known = rows.find(job_class);
    LifeTable table = known != nullptr ? *known : LifeTable(RunTimes::Settings().half_life);
    lesson(table);
    rows.insert(job_class, std::move(table));
  };
  for (const auto& one : RunTimes::lessons(job_class_of(w), declared_of(w), state_.now - w.admitted)) {
    take(one.of, [&](LifeTable& table) { table.add(one.lived, how, state_.now); });
  }
  while (rows.size() > kMostKinds) {
    const auto oldest = std::ranges::min_element(
        rows, {}, [](const auto& row) { return std::pair(width_of(row.first), row.second.at()); });
    const auto [job_class, table] = *oldest;
    rows.erase(job_class);
    if (const auto wider = RunTimes::wider(job_class)) take(*wider, [&](LifeTable& into) { into.add(table); });
  }
}

void RunHistory::compare_estimate(const WorkloadUid& uid, bool starts) {
  if (!state_.tables.estimates.contains(uid)) return;
  auto& estimate = state_.tables.estimates.edit(uid);
  const Duration waited = state_.now - estimate.at;
  auto& correction = state_.tables.corrections.edit(kStarts);
  if (!estimate.low_known && (starts || waited >= estimate.corrected.low)) {
    correction.learn_low(estimate.raw, estimate.group, waited < estimate.corrected.low);
    estimate.low_known = true;
  }
  if (!estimate.high_known && (starts || waited > estimate.corrected.high)) {
    correction.learn_high(estimate.raw, estimate.group, waited > estimate.corrected.high);
    estimate.high_known = true;
  }
  if (starts) state_.tables.estimates.erase(uid);
}

void RunHistory::forget_estimate(const WorkloadUid& uid) {
  if (state_.tables.estimates.contains(uid)) state_.tables.estimates.erase(uid);
}

}  // namespace qm::admission
