#pragma once
#include "qm/admission/kueue/work.hpp"
#include "qm/admission/scheduler/assignment.hpp"
#include "qm/admission/workload.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// What Decisions answers.
namespace qm::admission {

/// The decisions for one quota tree.
struct Scheduled {
  struct Claimed {
    WorkloadUid uid;
    Claim claim;
  };
  struct Displaced {
    WorkloadUid victim, by;
    std::string_view reason;
  };
  struct Admitted {
    WorkloadUid uid;
    Assignment assignment;  ///< empty for a workload with a claim: its row has it
  };
  std::vector<WorkloadUid> unclaimed;  ///< the victims are gone, and the workload still does not fit
  std::vector<Displaced> displaced;
  std::vector<Claimed> claimed;
  std::vector<Admitted> admitted;
};

/// What a queue of a pool uses and deserves now, by resource.
struct PoolShare {
  std::map<std::string, std::int64_t> used, deserved;
  double dominant_share = 0;  ///< the largest share over the resources of the pool
};

/// A workload as its tree models it, and the quota that it claims.
struct ForecastWorkload {
  kueue::Work work;
  kueue::Amounts claimed;
};

}  // namespace qm::admission
