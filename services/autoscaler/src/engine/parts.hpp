#pragma once
#include "explanation.hpp"
#include "instances/group_members.hpp"
#include "instances/groups.hpp"
#include "instances/retirement.hpp"
#include "instances/spot.hpp"
#include "launch/capacity_markets.hpp"
#include "launch/launches.hpp"
#include "launch/new_nodes.hpp"
#include "launch/static_pools.hpp"
#include "observations.hpp"
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
  Observations observations{state, facts, claims};

  Spot spot{state, claims};
  StaticPools static_pools{state, facts, claims, offers};
  Launches launches{state, facts, claims, offers, plans, new_nodes, markets};
  Retirement retirement{state, facts, claims, static_pools};
  Groups groups{state};
  GroupMembers group_members{state, facts, claims};

  Explanation explanation{state, facts, offers, static_pools, markets};
};

}  // namespace qm::autoscaler
