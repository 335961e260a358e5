#pragma once
#include "qm/admission/queries/what_if.hpp"
#include "qm/rpc/access.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/admission_service.pb.h"

namespace qm::admission {

/// The change in a request. Fails like Apply if the manifest cannot be parsed.
[[nodiscard]] Result<HypotheticalChange> supposed_from(const quartermaster::v1::WhatIfRequest& request);

/// Blocks: not for the engine thread, nor for a thread that serves calls.
[[nodiscard]] Status answer_what_if(service::Host& host, const quartermaster::v1::WhatIfRequest& request,
                                    const rpc::Caller& caller, Instant now,
                                    quartermaster::v1::WhatIfResponse& response);

}  // namespace qm::admission
