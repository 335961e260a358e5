#pragma once
#include "engine/allocator/allocator.hpp"
#include "engine/disruption/gang_recovery.hpp"
#include "engine/disruption/proposals.hpp"
#include "engine/disruption/reservations.hpp"
#include "engine/disruption/victims.hpp"
#include "engine/gangs/elastic_gangs.hpp"
#include "engine/mig/mig_repartitions.hpp"
#include "engine/rows.hpp"
#include "engine/state.hpp"

#include <map>
#include <string>

namespace qm::placement {

/// Places workloads with quota, highest priority first, then longest on the demand list, then in the order in which
/// admission gave them quota.
class Scheduler {
 public:
  Scheduler(State& state, Rows& rows, const Allocator& allocator, Reservations& reservations, GangRecovery& recovery,
            Proposals& proposals, MigRepartitions& repartitions, const Victims& victims, ElasticGangs& elastic)
      : state_(state),
        options_(state.options),
        tables_(state.tables),
        index_(state.index),
        scratch_(state.scratch),
        rows_(rows),
        allocator_(allocator),
        reservations_(reservations),
        recovery_(recovery),
        proposals_(proposals),
        repartitions_(repartitions),
        victims_(victims),
        elastic_(elastic) {}

  /// Places all workloads that are marked.
  void place_pending();

 private:
  void decide(const WorkloadUid& uid, std::map<PlacementRequest, std::string>& known_unschedulable);
  static void forget_ruled(std::map<PlacementRequest, std::string>& known_unschedulable);

  State& state_;
  const Options& options_;
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  Rows& rows_;
  const Allocator& allocator_;
  Reservations& reservations_;
  GangRecovery& recovery_;
  Proposals& proposals_;
  MigRepartitions& repartitions_;
  const Victims& victims_;
  ElasticGangs& elastic_;
};

}  // namespace qm::placement
