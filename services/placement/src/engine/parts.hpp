#pragma once
#include "engine/audit.hpp"
#include "engine/demand_list.hpp"
#include "engine/diagnosis/queries.hpp"
#include "engine/disruption/disruption_planner.hpp"
#include "engine/gangs/reconciler.hpp"
#include "engine/gangs/requeue.hpp"
#include "engine/gangs/scheduler.hpp"
#include "engine/observations.hpp"
#include "engine/state.hpp"

#include <utility>

namespace qm::placement {

/// The parts of the engine. Each part uses only parts above it.
struct EngineParts {
  explicit EngineParts(Options options) : state(std::move(options)) {}

  State state;

  // Queries over the rows.
  Pods pods{state};
  Attempts attempts{state, pods};
  MigLayouts layouts{state, pods};
  Capacities capacities{state, pods, layouts};
  Allocator allocator{state, pods};
  RepartitionSearch search{state, layouts, capacities, allocator};
  Victims victims{state, capacities, allocator, search, layouts};

  // Changes of rows.
  PodBook book{state, pods};
  Rows rows{state, attempts, capacities, book};
  Reservations reservations{state, attempts, capacities, rows};
  GangRecovery recovery{state, capacities, rows, allocator};
  Proposals proposals{state, rows};
  LayoutOrders orders{state, pods, layouts, rows};
  MigRepartitions repartitions{state, rows, allocator, orders, search};
  DeviceAdoption adoption{state, capacities, rows};
  Nodes nodes{state, pods, attempts, layouts, capacities, rows, orders, adoption};
  Observations observations{state, pods, rows, proposals, orders, repartitions, nodes};

  // Decisions.
  Reconciler reconciler{state, pods, attempts, rows, recovery, proposals};
  ElasticGangs elastic{state, attempts, rows, allocator};
  Scheduler scheduler{state, rows, allocator, reservations, recovery, proposals, repartitions, victims, elastic};
  Requeue requeue{state, capacities, rows, allocator, reservations};
  MigPreemption mig_preemption{state, search, victims, capacities, layouts};
  Preemption preemption{state, victims, allocator, capacities};
  Defragmentation defragmentation{state, pods, rows, allocator, proposals, victims, capacities};
  DisruptionPlanner planner{state,  rows,    proposals,      nodes,      repartitions,
                            search, victims, mig_preemption, preemption, defragmentation};

  // Answers.
  DemandList demand{state, allocator, recovery, elastic};
  Queries queries{state, capacities, allocator, reservations};
  Audit audit{state, attempts, capacities, book, demand};
};

}  // namespace qm::placement
