#pragma once
#include "qm/model/resources.hpp"

#include <fmt/format.h>

#include <string>

namespace qm {

/// The warning of the webhook, of `qmctl why` and of `qmctl describe` for a workload whose pod templates do not
/// name Quartermaster's scheduler. Without a name it is default-scheduler.
struct OtherScheduler {
  std::string message, remedy;
};

/// `is_pod`: the workload is a pod or a group of pods, without pod templates.
inline OtherScheduler other_scheduler(bool is_pod) {
  return {
      fmt::format(
          "its pods are bound by the scheduler in their schedulerName (default-scheduler where none is set), not by "
          "{}; Quartermaster decides on their quota only",
          words::kScheduler),
      fmt::format("to have Quartermaster place them, set {} to {} and create the object again",
                  is_pod ? "spec.schedulerName" : "spec.schedulerName of its pod templates", words::kScheduler)};
}

}  // namespace qm
