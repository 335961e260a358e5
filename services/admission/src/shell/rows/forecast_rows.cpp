// Rows of the data that forecasts learn from.
#include "rows/rows.hpp"

#include <algorithm>

namespace qm::admission {

namespace state = quartermaster::admission;

state::RunTimesRow to_row(const forecast::JobClass& job_class, const forecast::LifeTable& table) {
  state::RunTimesRow row;
  row.set_team(job_class.team);
  row.set_shape(job_class.shape);
  row.set_stem(job_class.stem);
  row.set_at_us(micros(table.at()));
  for (const auto& span : table.spans()) {
    row.add_spans(static_cast<std::int32_t>(span.number));
    row.add_entered(span.entered);
    row.add_ended(span.ended);
  }
  return row;
}

std::pair<forecast::JobClass, forecast::LifeTable> from_row(const state::RunTimesRow& row) {
  std::vector<forecast::LifeTable::Span> spans;
  for (int i = 0; i < std::min({row.spans_size(), row.entered_size(), row.ended_size()}); ++i) {
    if (row.spans(i) >= 0) spans.push_back({static_cast<std::size_t>(row.spans(i)), row.entered(i), row.ended(i)});
  }
  forecast::LifeTable table(forecast::RunTimes::Settings().half_life);
  table.restore(from_micros(row.at_us()), spans);
  return {{row.team(), row.shape(), row.stem()}, std::move(table)};
}

state::EstimateRow to_row(const StartEstimate& estimate) {
  state::EstimateRow row;
  row.set_attempt(estimate.attempt);
  row.set_at_us(micros(estimate.at));
  for (const auto d : {estimate.raw.low, estimate.raw.middle, estimate.raw.high}) row.add_raw_us(d.count());
  for (const auto d : {estimate.corrected.low, estimate.corrected.middle, estimate.corrected.high})
    row.add_corrected_us(d.count());
  row.set_group(static_cast<std::int32_t>(estimate.group));
  row.set_low_known(estimate.low_known);
  row.set_high_known(estimate.high_known);
  return row;
}

StartEstimate from_row(const state::EstimateRow& row) {
  const auto interval = [](const auto& ends) {
    const auto end = [&](int i) { return Duration(i < ends.size() ? ends.Get(i) : 0); };
    return forecast::Interval{end(0), end(1), end(2)};
  };
  const auto group = static_cast<std::size_t>(std::max(0, row.group()));
  return {row.attempt(), from_micros(row.at_us()), interval(row.raw_us()), interval(row.corrected_us()),
          group,         row.low_known(),          row.high_known()};
}

state::CorrectionRow to_row(const forecast::Correction& correction) {
  state::CorrectionRow row;
  for (const auto& one : correction.kept()) {
    row.add_numbers(static_cast<std::int32_t>(one.number));
    row.add_values(one.value);
    row.add_steps(one.steps);
  }
  return row;
}

forecast::Correction from_row(const state::CorrectionRow& row) {
  std::vector<forecast::Correction::Kept> kept;
  for (int i = 0; i < std::min({row.numbers_size(), row.values_size(), row.steps_size()}); ++i) {
    if (row.numbers(i) >= 0) kept.push_back({static_cast<std::size_t>(row.numbers(i)), row.values(i), row.steps(i)});
  }
  forecast::Correction out;
  out.restore(kept);
  return out;
}

}  // namespace qm::admission
