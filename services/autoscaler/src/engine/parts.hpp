#pragma once
#include "checkpoints/orders.hpp"
#include "checkpoints/schedules.hpp"
#include "consolidation/consolidation.hpp"
#include "explanation.hpp"
#include "instances/disruptions.hpp"
#include "instances/drift.hpp"
#include "instances/group_members.hpp"
#include "instances/groups.hpp"
#include "instances/headroom.hpp"
#include "instances/headroom_slo.hpp"
#include "instances/reservation_ends.hpp"
#include "instances/retirement.hpp"
#include "instances/scale_down.hpp"
#include "instances/scale_in_protection.hpp"
#include "instances/spot.hpp"
#include "launch/gang_launches.hpp"
#include "launch/launches.hpp"
#include "launch/new_nodes.hpp"
#include "launch/provisioning.hpp"
#include "launch/static_pools.hpp"
#include "observations.hpp"
#include "offers/candidates.hpp"
#include "offers/capacity_markets.hpp"
#include "replicas/replica_scaling.hpp"
#include "state.hpp"

namespace qm::autoscaler {

/// The parts of the engine. Each part uses only parts above it.
struct EngineParts {
  explicit EngineParts(Options options) : state(options) {}

  State state;

  Facts facts{state};
  NewNodes new_nodes{state};
  Offers offers{state, facts, new_nodes};
  CapacityMarkets markets{state, facts, new_nodes};
  Claims claims{state, facts};
  Plans plans{state};
  CheckpointOrders orders{state};
  Observations observations{state, facts, claims, orders};

  Schedules schedules{state, facts, orders};
  Spot spot{state, facts, claims, orders};
  Drift drift{state, facts, claims};
  Disruptions disruptions{state, facts, claims, offers, orders};
  StaticPools static_pools{state, facts, claims, offers};
  GangLaunches gang_launches{state, facts, claims};
  JointPlanner joint{state, facts, new_nodes, offers};
  Launches launches{state, facts, claims, offers, plans, new_nodes, markets, gang_launches, joint};
  Retirement retirement{state, facts, claims, static_pools};
  HeadroomSlos headroom_slos{state, facts, offers};
  Headroom headroom{state, facts, claims, offers, new_nodes, headroom_slos};
  Groups groups{state};
  ScaleDown scale_down{state, facts, claims};
  ScaleInProtection scale_in_protection{state, facts};
  Consolidation consolidation{state, facts, claims, offers, new_nodes, joint, orders, disruptions};
  ReplicaScaling replica_scaling{state};  ///< uses no other part, and no other part uses it
  GroupMembers group_members{state, facts, claims};
  ReservationEnds reservation_ends{state, facts, claims};
  Provisioning provisioning{state, facts, new_nodes, offers, plans};

  Candidates candidates{state, facts, new_nodes, offers, markets};
  Explanation explanation{state,       facts,    candidates, static_pools, schedules,
                          disruptions, headroom, scale_down, consolidation};
};

}  // namespace qm::autoscaler
