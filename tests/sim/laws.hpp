#pragma once
#include "people.hpp"
#include "sim.hpp"

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace qm::sim {

struct Five {
  Service* admission;
  Service* placement;
  Service* autoscaler;
  Service* telemetry;
  Service* cost;
  [[nodiscard]] std::vector<Service*> all() const { return {admission, placement, autoscaler, telemetry, cost}; }
};
using Broken = std::function<void(const std::string&)>;

/// What must hold at any time: the engines' own laws, no gap and no unreadable message, a balanced ledger.
/// With `lossy`, messages were lost on purpose, and versions that are missed are no fault.
void check_running(const Five& five, Instant now, bool lossy, const Broken& broken);

/// Since when each workload has waited for nodes although its pods fit the free capacity and every service is idle,
/// and at how many looks in a row: a service acts at most once between two.
using WaitsInVain = std::map<WorkloadUid, std::pair<Instant, int>>;
/// No pending workload backs off, and no request stays unanswered, while its pods fit, for longer than 5 s in which
/// nothing happens.
void check_waits(const Five& five, Instant now, WaitsInVain& since, const Broken& broken);

/// Gangs that lost a node and have their other places kept, now.
std::uint64_t returning(const Five& five);
/// What is said of proposals and of those who go for them.
void count_proposals(const service::FeedEvent& said, Report& report);
/// What is still under way; empty once everything has come to an end.
std::string unfinished(const Five& five, World& world, const Users& users);
/// Whether no budget holds anything for somebody.
[[nodiscard]] bool settled(const Five& five);
/// What must hold at the end, judged from the world's own records.
void check_end(const Five& five, World& world, const Users& users,
               const std::vector<std::pair<Instant, std::int64_t>>& quotes, Instant now, const Broken& broken);

}  // namespace qm::sim
