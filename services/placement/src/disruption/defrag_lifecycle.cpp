#include "qm/placement/disruption/defrag_lifecycle.hpp"

#include <algorithm>
#include <utility>

namespace qm::placement::disruption {
namespace {

constexpr Duration kHour = std::chrono::hours(1);

}  // namespace

std::int64_t recent_migrations(const DefragRun& run, Instant now) { return run.hour + kHour <= now ? 0 : run.asked; }

RunStep advance_run(DefragRun run, const RunObserved& seen, Instant now, const DefragOptions& options) {
  if (seen.migrating) return {std::move(run), Wait{}};
  DefragStep& step = run.steps.front();
  // Some may have ended or been evicted without a migration request.
  std::erase_if(step.moves, [&](const auto& move) { return !seen.holding.contains(move.id); });
  if (!step.moves.empty()) {
    if (recent_migrations(run, now) >= options.hourly) return {std::move(run), EndRun{"Budget"}};
    if (!seen.step_is_valid(step)) return {std::move(run), EndRun{"Stale"}};
    if (recent_migrations(run, now) == 0) run.hour = now, run.asked = 0;
    ++run.asked;
    return {std::move(run), Migrate{}};
  }
  run.reclaimed += seen.reclaimed;
  run.steps.erase(run.steps.begin());
  if (!run.is_active()) return {std::move(run), EndRun{"Done"}};
  return {std::move(run), NextStep{}};
}

}  // namespace qm::placement::disruption
