#include "qm/autoscaler/budgets/budgets.hpp"

#include "qm/base/parse.hpp"
#include "qm/calendar/cron.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace qm::autoscaler {
namespace {

constexpr std::array<std::string_view, 3> kReasons{"Underutilized", "Empty", "Drifted"};

/// The number of nodes that the text allows of `nodes`; none if it is neither a number nor a share of at most 100 %.
std::optional<std::int64_t> allowed_of(const std::string& text, std::int64_t nodes) {
  const bool share = text.ends_with('%');
  const auto number = whole_number(std::string_view(text).substr(0, text.size() - (share ? 1 : 0)));
  if (!number || *number < 0 || (share && *number > 100) || *number > kUnlimitedDisruptions) return std::nullopt;
  return share ? (*number * nodes + 99) / 100 : *number;
}

std::string unknown_reason(const Budget& budget) {
  for (const auto& reason : budget.reasons) {
    if (std::ranges::find(kReasons, reason) == kReasons.end())
      return fmt::format("reasons: {} is not one of Underutilized, Empty, Drifted", reason);
  }
  return {};
}

struct Evaluated {
  std::int64_t nodes = kUnlimitedDisruptions;
  std::string malformed;
};

Evaluated evaluate(const Budget& budget, std::int64_t nodes, Instant now, const NextHit& next) {
  if (auto text = unknown_reason(budget); !text.empty()) return {0, std::move(text)};
  const auto allowed = allowed_of(budget.nodes, nodes);
  if (!allowed) return {0, fmt::format("nodes: \"{}\" is neither a number nor a share such as 10%", budget.nodes)};
  if (budget.schedule.empty() != (budget.duration == Duration::zero()))
    return {0, "schedule and duration need each other"};
  if (budget.schedule.empty()) return {*allowed, {}};
  const auto hit = next(budget.schedule, now - budget.duration);
  if (!hit) return {0, fmt::format("schedule: {}", hit.error().message)};
  return {*hit <= now ? *allowed : kUnlimitedDisruptions, {}};
}

}  // namespace

std::string_view name_of(DisruptionReason reason) { return kReasons.at(static_cast<std::size_t>(reason)); }

Result<Instant> next_in_utc(const std::string& schedule, Instant after) {
  constexpr std::int64_t kMicrosPerMinute = 60'000'000;
  QM_ASSIGN(const auto cron, calendar::Cron::parse(schedule, calendar::CronDialect::kRobfig));
  const auto minute = cron.after(micros(after) / kMicrosPerMinute);
  if (!minute) return fail(Code::kInvalid, "\"{}\" names no time in the next eight years", schedule);
  return from_micros(*minute * kMicrosPerMinute);
}

Allowance allowed_disruptions(std::span<const Budget> budgets, DisruptionReason reason, std::int64_t nodes, Instant now,
                              const NextHit& next) {
  Allowance out;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    const Budget& budget = budgets[i];
    const auto [allowed, malformed] = evaluate(budget, nodes, now, next);
    if (!malformed.empty()) return {0, fmt::format("spec.disruption.budgets[{}].{}", i, malformed)};
    const bool has_reason =
        budget.reasons.empty() || std::ranges::find(budget.reasons, name_of(reason)) != budget.reasons.end();
    if (has_reason) out.nodes = std::min(out.nodes, allowed);
  }
  return out;
}

}  // namespace qm::autoscaler
