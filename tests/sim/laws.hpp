#pragma once
#include "actors.hpp"
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

/// Invariants at any time: the engines' own laws, no gap and no unreadable message, a balanced ledger. With `lossy`,
/// messages were lost on purpose, and missing versions are not a fault.
void check_running(const Five& five, Instant now, bool lossy, const Broken& broken);

/// For each workload that is pending for nodes although its pods fit the free capacity and every service is idle:
/// since when, and in how many consecutive checks. A service acts at most once between two checks.
using WaitsInVain = std::map<WorkloadUid, std::pair<Instant, int>>;
/// No workload backs off, and no request stays unanswered, while its pods fit, for longer than 5 s in which nothing
/// happens.
void check_waits(const Five& five, Instant now, WaitsInVain& since, const Broken& broken);

/// The number of gangs in recovery now: they lost a node and their other placements are held.
std::uint64_t returning(const Five& five);
/// Counts published proposals and the preempted workloads.
void count_proposals(const service::FeedEvent& reported, Report& report);
/// Unfinished work; empty once everything has ended.
std::string unfinished(const Five& five, World& world, const Users& users);
/// True if no budget holds anything.
[[nodiscard]] bool settled(const Five& five);
/// Invariants at the end, checked against the world's own records.
void check_end(const Five& five, World& world, const Users& users,
               const std::vector<std::pair<Instant, std::int64_t>>& quotes, Instant now, const Broken& broken);

}  // namespace qm::sim
