#pragma once
#include "qm/rpc/access.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/admission_service.pb.h"

#include <grpcpp/grpcpp.h>

namespace qm::admission {

/// Starts one Watch call for the workloads that `caller` sees: the current state first where no version is given,
/// then every committed change.
grpc::ServerWriteReactor<quartermaster::v1::WorkloadUpdate>* watch_workloads(
    service::Host& host, const quartermaster::v1::WatchWorkloadsRequest& request, rpc::Caller caller);

}  // namespace qm::admission
