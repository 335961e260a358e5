#pragma once
#include "qm/rpc/access.hpp"
#include "qm/rpc/security.hpp"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/grpcpp.h>

#include <memory>

namespace qm::rpc {

/// What a server listens with: TLS with these files, plain text where there are none. Each call is shown to `access`
/// (may be null) before its handler runs.
Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const TlsFiles& files,
                                                                    std::shared_ptr<Access> access);

/// What a handler's context says of its call; without the path.
Call call_of(const grpc::CallbackServerContext& context);

}  // namespace qm::rpc
