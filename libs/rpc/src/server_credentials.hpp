#pragma once
#include "qm/rpc/access.hpp"
#include "qm/rpc/security.hpp"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/grpcpp.h>

#include <memory>

namespace qm::rpc {

/// The credentials of a server: TLS with these files, plain text without files. Each call is checked by `access`
/// (may be null) before its handler runs.
Result<std::shared_ptr<grpc::ServerCredentials>> server_credentials(const TlsFiles& files,
                                                                    std::shared_ptr<Access> access);

/// The facts about a call in a handler's context; without the path.
Call call_of(const grpc::CallbackServerContext& context);

}  // namespace qm::rpc
