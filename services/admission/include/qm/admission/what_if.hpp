#pragma once
#include "qm/admission/engine.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// A change that is only thought of: objects as they would be, objects that would be gone, Jobs that would come.
struct Supposed {
  ApplyObjects objects;
  std::vector<ObjectGone> gone;  ///< "Job" or "Workload": the workload of that name has finished
  std::vector<JobSeen> jobs;  ///< of the uid or name of a workload that exists: that workload, with this as its object
};

/// What would become of a workload.
struct Consequence {
  enum class What : std::uint8_t {
    kAdmitted,   ///< it would run, and without the change it waits
    kDisplaced,  ///< it would wait, and without the change it runs
    kDelayed,    ///< it waits with and without, with more before it
    kAdvanced,   ///< with fewer before it
    kWaits,      ///< it is supposed to come, and would wait: `why`
  };
  What what = What::kAdmitted;
  Workload workload;          ///< as it would be
  int before = 0, after = 0;  ///< place in its queue without and with the change, 1 = next; 0 = it does not wait
  std::string why;
};
[[nodiscard]] std::string_view name_of(Consequence::What what);

/// Decides twice from the same rows, once with the change and once without, each time until nothing more is decided, and tells the
/// difference. Placement is taken to find room for whatever gets quota, and pods to leave when they are told to; nobody ends.
///
/// Order    by consequence, then namespace and name.
/// Fails    kInvalid, kNotFound: what Apply or Submit would refuse.
/// Threads  any; it reads its arguments only.
/// Cost     that of loading the rows, three times.
[[nodiscard]] Result<std::vector<Consequence>> what_if(const Engine::Tables& rows, const Options& options,
                                                       const Supposed& supposed, Instant now);

}  // namespace qm::admission
