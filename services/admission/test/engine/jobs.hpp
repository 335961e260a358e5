#pragma once
#include "qm/admission/engine.hpp"

#include <string>

namespace qm::admission::testing {

/// A job of one pod with `gpus` GPUs, in the queue team/q, which another scheduler binds: once admitted, it runs.
inline JobUpdated job_of(const std::string& uid, std::int64_t gpus, Instant submitted, std::int32_t priority = 0,
                         Duration run = {}) {
  JobUpdated out;
  out.spec.uid = WorkloadUid(uid);
  out.spec.ns = Namespace("team");
  out.spec.name = uid;
  out.spec.queue = "q";
  out.spec.priority = priority;
  out.spec.submitted = submitted;
  out.spec.expected_runtime = run;
  out.external_scheduler = true;
  PodSet pods;
  pods.shape.gpu.whole = gpus;
  out.spec.pod_sets.push_back(pods);
  return out;
}

}  // namespace qm::admission::testing
