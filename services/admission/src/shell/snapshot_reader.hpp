#pragma once
#include "qm/rpc/server.hpp"
#include "qm/service/host.hpp"
#include "quartermaster/v1/envelope.pb.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace qm::admission {

/// Answers Snapshot calls from a thread of its own, because they read the store and a gRPC thread must not wait.
class SnapshotReader {
 public:
  explicit SnapshotReader(service::Host& host);
  ~SnapshotReader();
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context,
                                   const quartermaster::v1::SnapshotRequest& request,
                                   quartermaster::v1::SnapshotResponse* response);

 private:
  Status read(const quartermaster::v1::SnapshotRequest& request,
              quartermaster::v1::SnapshotResponse& response);

  service::Host& host_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> todo_;
  std::jthread thread_;
};

}  // namespace qm::admission
