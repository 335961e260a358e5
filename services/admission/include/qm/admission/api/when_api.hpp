#pragma once
#include "qm/admission/queries/when.hpp"
#include "qm/rpc/access.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/admission_service.pb.h"

namespace qm::admission {

/// The start of a workload that the caller may see. The engine records the estimate (kEstimated), to compare it with the
/// real start.
///
/// Blocks: not for the engine thread, nor for a thread that serves calls.
[[nodiscard]] Status answer_when(service::Host& host, const WorkloadUid& uid, const rpc::Caller& caller, Instant now,
                                 quartermaster::v1::WhenResponse& response);

/// Writes the same answer into a response.
void put_when(const When& when, const Tables& rows, const WorkloadUid& uid, const rpc::Caller& caller, Instant now,
              quartermaster::v1::WhenResponse& response);

}  // namespace qm::admission
