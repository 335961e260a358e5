#pragma once
#include "qm/rpc/server.hpp"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace qm::rpc {

/// Threads for calls that wait for a store, a cache or a server: gRPC's own threads are few, and must not wait.
///
/// Bounds   kMostWaiting calls wait; further calls are refused with kExhausted.
/// Threads  any. The destructor finishes every accepted call.
class Worker {
 public:
  static constexpr std::size_t kMostWaiting = 1024;

  explicit Worker(int threads = 1);
  ~Worker();
  bool post(std::function<void()> task);

  /// Executes a unary read by fn() -> Status on the worker.
  template <class Fn>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const google::protobuf::Message& request,
                                   Fn fn) {
    auto* reactor = context->DefaultReactor();
    if (const auto good = check_read(request); !good) {
      reactor->Finish(to_grpc(good.error()));
      return reactor;
    }
    const bool taken = post([reactor, fn = std::move(fn)] {
      const qm::Status done = fn();
      reactor->Finish(done ? grpc::Status::OK : to_grpc(done.error()));
    });
    if (!taken) reactor->Finish(to_grpc({Code::kExhausted, "too many reads are queued", {}, "try again in a second"}));
    return reactor;
  }

  /// The Snapshot call of every service.
  grpc::ServerUnaryReactor* answer_snapshot(service::Host& host, grpc::CallbackServerContext* context,
                                            const quartermaster::v1::SnapshotRequest* request,
                                            quartermaster::v1::SnapshotResponse* response) {
    return answer(context, *request, [&host, request, response] { return fill_snapshot(host, *request, *response); });
  }

 private:
  void run(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::jthread> threads_;
};

}  // namespace qm::rpc
