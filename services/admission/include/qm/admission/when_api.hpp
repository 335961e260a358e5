#pragma once
#include "qm/admission/when.hpp"
#include "qm/rpc/access.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/admission_service.pb.h"

namespace qm::admission {

/// When a workload starts that the caller may see. What is said is remembered by the engine (kSaid), to be held against what comes.
///
/// Blocks: not for the engine's thread, nor for one that answers calls.
[[nodiscard]] Status answer_when(service::Host& host, const WorkloadUid& uid, const rpc::Caller& caller, Instant now,
                                 quartermaster::v1::WhenResponse& response);

/// The same answer in words.
void put_when(const When& when, const Engine::Tables& rows, const WorkloadUid& uid, const rpc::Caller& caller,
              Instant now, quartermaster::v1::WhenResponse& response);

}  // namespace qm::admission
