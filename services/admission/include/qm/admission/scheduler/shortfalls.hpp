#pragma once
#include "qm/admission/kueue/unlocks.hpp"
#include "qm/admission/workload.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace qm::admission {

/// One reason why a flavor was not assigned, with numbers.
struct QuotaShortfall {
  enum class Kind : std::uint8_t {
    kNotCovered,      ///< the queue has no quota for the resource
    kFlavorMissing,   ///< the queue names a flavor that does not exist
    kTaint,           ///< the pods do not tolerate a taint of the flavor
    kSelector,        ///< the pods select other node labels
    kNeverFits,       ///< more than the queue could hold if nothing else used quota
    kBorrowingLimit,  ///< the cohort has enough, but the borrowing limit of the queue forbids it
    kQuota,           ///< not enough unused quota now
    kCapability,      ///< in a pool: beyond the capability of the queue
    kShare,           ///< in a pool: beyond what the queue deserves by weight now
    kPool,            ///< in a pool: other queues use it
    kTopology,        ///< its nodes: `detail` in Kueue's words
  };
  Kind kind = Kind::kQuota;
  std::string pod_set;
  FlavorName flavor;
  std::string resource;
  std::int64_t requested = 0, available = 0;
  std::string detail;
};

/// A single change that admits a pending workload; evaluated on the current quota trees.
struct QuotaRemedy {
  kueue::QuotaRemedy::Kind kind = kueue::QuotaRemedy::Kind::kQuota;
  Usage more;                      ///< nominal quota of its queue, or borrowing limit
  std::int32_t priority = 0;       ///< the lowest sufficient priority
  std::vector<WorkloadUid> works;  ///< the victims, or the workloads that have to finish
  FlavorName flavor;               ///< would fit without `taint` or `label`
  std::string taint, label;        ///< the obstacle of `flavor`; one of these
  std::string pod_set;             ///< the pod set to reduce
  std::int32_t pods = 0;           ///< the number of pods that fits
};

}  // namespace qm::admission
