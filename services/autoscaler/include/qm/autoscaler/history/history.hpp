#pragma once
#include "qm/autoscaler/what_if.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// What instances cost in a time, and what workloads got for it.
struct Bill {
  Money cost;
  std::int64_t launches = 0;          ///< instances that started
  std::int64_t gpu_seconds = 0;       ///< of GPUs that were paid for
  std::int64_t used_gpu_seconds = 0;  ///< of GPUs that workloads held
  std::int64_t jobs = 0, started = 0, finished = 0;
  std::int64_t evictions = 0;
  Duration waited{0}, longest_wait{0};  ///< from the arrival to the start; the first one is the sum
  friend auto operator<=>(const Bill&, const Bill&) = default;
};

/// A recorded time: what happened to the autoscaler from outside, without what followed from its own launches.
struct History {
  struct Job {
    DemandUpdated::Item item;  ///< its id, pod sets, priority and namespace; `since` is its arrival
    WorkloadUpdated workload;
    Duration runs{0};  ///< on nodes
    friend bool operator<(const Job& a, const Job& b) {
      return std::tuple(a.item.since, a.item.id) < std::tuple(b.item.since, b.item.id);
    }
  };
  /// NodePools, prices, DaemonSets, overlays or buffers as they were observed.
  struct Change {
    Instant at{};
    Command command;
  };
  Instant from{}, to{};
  std::vector<Job> jobs;        ///< by arrival
  std::vector<Change> changes;  ///< by time
};

/// A change of a recorded time.
struct HistoryChange {
  WhatIf what_if;                       ///< without its demand: NodePools, prices and availability
  std::int64_t demand_permille = 1000;  ///< 2000 = each job twice, 500 = every second one
};

/// Runs the engine through a recorded time with a simulated cloud, and returns the bill. Two calls, with and without a
/// change, differ by the change alone.
///
/// Cloud    every launch succeeds, and its node is ready after Options::boot. Nothing is interrupted.
/// Jobs     a job starts when all of its pods fit ready nodes of one zone, by priority, then by arrival. It runs as long
///          as it was recorded; an evicted one runs the rest of its time later.
/// Left out expiry, drift, Auto Scaling groups (their NodePools launch by themselves), owners other than Quartermaster,
///          replicas of workloads.
/// Prices   an instance keeps the price of its launch.
/// Order    equal arguments give an equal bill.
/// Units    time passes in steps of kHistoryStep; what happens within one is handled together.
/// Threads  any; reads only its arguments.
/// Fails    kInvalid: as simulate(); the recorded time has no job.
/// Cost     a step of the engine for each kHistoryStep in which something happens.
[[nodiscard]] Result<Bill> replay_bill(const History& history, std::vector<InstanceType> catalog,
                                       const Options& options, const HistoryChange& change);
inline constexpr std::chrono::seconds kHistoryStep{60};

}  // namespace qm::autoscaler
