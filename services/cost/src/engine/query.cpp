// Queries. All of them use one function: the usage by owner until t. A window is the difference of two results, so
// adjacent windows add up exactly.
#include "qm/base/assert.hpp"
#include "qm/cost/engine.hpp"
#include "timeline.hpp"

#include <algorithm>

namespace qm::cost {
namespace {

bool month_start(Instant t) {
  const auto start = period_start(period_of(t));
  return start && *start == t;
}

}  // namespace

Result<std::map<std::string, Amount>> Engine::until(Instant t, Group group) const {
  const bool young = t >= meta().horizon;
  if (!young && !month_start(t)) {
    return fail(Error{Code::kOutOfRange,
                      fmt::format("{} is before {}, from where on every instant can be answered", to_rfc3339(t),
                                  to_rfc3339(meta().horizon)),
                      "from_us", "query whole months, or read the report views for older days"});
  }
  std::map<std::string, Amount> sums;
  const std::string period = period_of(t);
  for (const auto& [key, amount] : state_.totals) {
    if (!young && key.period >= period) break;
    if (key.group == group) sums[key.key] += amount;
  }
  const auto key = [&](const SliceRow& slice, const Line& line) {
    return group == Group::kNode ? slice.node : key_of(line.owner, group);
  };
  const auto& slices = state_.slices.rows();
  for (const auto& [id, row] : state_.instances) {
    const Instant posted = settled(row);
    if (young && posted > t) {
      // Posted beyond t: subtract those slices, except for the part of one that is before t.
      auto it = slices.lower_bound(SliceKey{id, t});
      if (it != slices.begin() && std::prev(it)->first.instance == id && std::prev(it)->second.end > t) --it;
      for (; it != slices.end() && it->first.instance == id; ++it) {
        for (const auto& line : it->second.lines) sums[key(it->second, line)] -= line.amount;
        if (it->first.start >= t) continue;
        const auto part = Timeline(state_, index_, id, it->first.start, t).slice(it->first.start, t);
        for (const auto& line : part.lines) sums[key(part, line)] += line.amount;
      }
    }
    if (posted < t) {
      const Timeline timeline(state_, index_, id, posted, t);
      for (const auto& piece : timeline.pieces()) {
        const auto part = timeline.slice(piece.start, std::min(piece.end, t));
        for (const auto& line : part.lines) sums[key(part, line)] += line.amount;
      }
    }
  }
  std::erase_if(sums, [](const auto& entry) { return entry.second.zero(); });
  return sums;
}

Money Engine::billed_until(Instant t) const {
  const bool young = t >= meta().horizon;
  const std::string period = period_of(t);
  Money sum;
  for (const auto& [key, amount] : state_.totals) {
    if (!young && key.period >= period) break;
    if (key.group == Group::kBill) sum += amount.nano;
  }
  for (const auto& [id, row] : state_.instances) {
    const Instant begin = open_from(row);
    const Instant end = std::min(t, end_of_life(row));
    if (begin < end) sum += Rates(state_, row).bill(begin, end);
  }
  return sum;
}

Result<std::map<std::string, Amount>> Engine::allocate(Instant from, Instant until_t, Group group) const {
  if (until_t <= from) {
    return fail(Error{Code::kInvalid, "the window is empty", "until_us", "make until_us greater than from_us"});
  }
  QM_ASSIGN(auto sums, until(until_t, group));
  QM_ASSIGN(const auto before, until(from, group));
  for (const auto& [key, amount] : before) sums[key] -= amount;
  std::erase_if(sums, [](const auto& entry) { return entry.second.zero(); });
  return sums;
}

Result<Statement> Engine::statement(const std::string& period, Instant as_of) const {
  Statement out;
  out.period = period;
  out.as_of = as_of;
  Instant from{};
  Instant to = as_of;
  if (!period.empty()) {
    QM_ASSIGN(from, period_start(period));
    to = std::min(as_of, next_period(from));
  }
  if (to > from) {
    QM_ASSIGN(out.lines, allocate(from, to, Group::kTeam));
    out.provider = billed_until(to) - billed_until(from);
  }
  for (const auto& [team, amount] : out.lines) out.total += amount;
  for (const auto& [key, balance] : state_.accounts) out.imbalance += balance.nano;
  for (const auto& [id, row] : state_.instances) {
    if (row.launched <= as_of && end_of_life(row) > as_of) ++out.open_instances;
  }
  QM_ASSERT(out.total.nano == out.provider, "statement of {} as of {}: lines {} but bill {}", period, micros(as_of),
            out.total.nano.nano(), out.provider.nano());
  return out;
}

std::vector<PriceInEffect> Engine::prices(Instant at) const {
  std::vector<PriceInEffect> out;
  const auto& plans = state_.plans.rows();
  if (!plans.empty()) {
    const auto after = plans.upper_bound(at);
    const auto& [from, plan] = after == plans.begin() ? *after : *std::prev(after);
    for (const auto& entry : plan.entries) out.push_back({entry, from, plan.name});
  }
  for (const auto& [pool, points] : state_.spot) {
    const auto after = points.upper_bound(at);
    if (after == points.begin()) continue;
    const auto& [from, point] = *std::prev(after);
    out.push_back({PriceEntry{pool.type, std::string(kSpot), pool.zone, point.rate}, from, "spot market"});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.entry < b.entry; });
  return out;
}

std::vector<InstanceId> Engine::unpriced(Instant at) const {
  std::vector<InstanceId> out;
  for (const auto& [id, row] : state_.instances) {
    if (row.launched <= at && end_of_life(row) > at && !Rates(state_, row).priced()) out.push_back(id);
  }
  return out;
}

Money Engine::burn_rate(Instant at) const {
  Money sum;
  for (const auto& [id, row] : state_.instances) {
    if (row.launched <= at && end_of_life(row) > at) sum += Rates(state_, row).at(at).per_hour;
  }
  return sum;
}

std::string Engine::audit() const {
  Money ledger;
  Amount expenses;
  for (const auto& [key, balance] : state_.accounts) {
    ledger += balance.nano;
    if (key.account != "provider-payable") expenses += balance;
  }
  if (ledger != Money{}) return fmt::format("the ledger is out of balance by {} nano", ledger.nano());
  std::map<Group, Amount> groups;
  for (const auto& [key, amount] : state_.totals) groups[key.group] += amount;
  for (const auto group : {Group::kTeam, Group::kNamespace, Group::kWorkload, Group::kNode}) {
    if (groups[group] != expenses) {
      return fmt::format("totals of group {} are {} nano, the accounts hold {}", static_cast<int>(group),
                         groups[group].nano.nano(), expenses.nano.nano());
    }
  }
  std::size_t owned = 0;
  Money posted = groups[Group::kBill].nano;
  for (const auto& [id, row] : state_.instances) {
    const Timeline timeline(state_, index_, id, open_from(row), settled(row));
    for (const auto& piece : timeline.pieces()) {
      const auto* slice = state_.slices.find(SliceKey{id, piece.start});
      if (slice == nullptr) return fmt::format("{} at {} is not posted", id, micros(piece.start));
      if (!same_charge(*slice, timeline.slice(piece.start, piece.end))) {
        return fmt::format("{} at {} is posted as it no longer was", id, micros(piece.start));
      }
      ++owned;
    }
    posted += Rates(state_, row).bill(open_from(row), settled(row));
  }
  if (owned != state_.slices.size()) {
    return fmt::format("{} slices are posted, the facts have {}", state_.slices.size(), owned);
  }
  if (posted != expenses.nano) {
    return fmt::format("posted expenses are {} nano, the bill up to there is {}", expenses.nano.nano(), posted.nano());
  }
  return {};
}

}  // namespace qm::cost
