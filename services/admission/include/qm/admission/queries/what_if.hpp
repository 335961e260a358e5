#pragma once
#include "qm/admission/engine.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// A hypothetical change: objects to apply, objects to delete, Jobs to add.
struct HypotheticalChange {
  ApplyObjects objects;
  std::vector<ObjectDeleted> gone;  ///< "Job" or "Workload": the workload of that name has finished
  std::vector<JobUpdated> jobs;     ///< with the uid or name of an existing workload: that workload, with this object
};

/// The effect of a change on a workload.
struct Consequence {
  enum class What : std::uint8_t {
    kAdmitted,   ///< with the change it runs, without it is pending
    kPreempted,  ///< with the change it is pending, without it runs
    kDelayed,    ///< pending in both cases, with more workloads ahead of it
    kAdvanced,   ///< pending in both cases, with fewer ahead of it
    kWaits,      ///< it is new and would be pending: `why`
  };
  What what = What::kAdmitted;
  Workload workload;          ///< with the change
  int before = 0, after = 0;  ///< queue position without and with the change, 1 = next; 0 = not pending
  std::string why;
};
[[nodiscard]] std::string_view name_of(Consequence::What what);

/// Decides twice from the same rows, with the change and without, each time until nothing more is decided, and
/// reports the differences. It assumes that placement fits all workloads that get quota, that evicted pods
/// terminate, and that no workload finishes.
///
/// Order    by consequence, then namespace and name.
/// Fails    kInvalid, kNotFound: what Apply or Submit would refuse.
/// Threads  any; it reads only its arguments.
/// Cost     loading the rows, three times.
[[nodiscard]] Result<std::vector<Consequence>> what_if(const Tables& rows, const Options& options,
                                                       const HypotheticalChange& supposed, Instant now);

}  // namespace qm::admission
