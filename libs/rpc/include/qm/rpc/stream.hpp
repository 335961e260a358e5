#pragma once
#include "qm/rpc/server.hpp"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

namespace qm::rpc {

/// The writing half of a stream: messages are queued, one write is in progress. From live() on, the stream ends with
/// RESOURCE_EXHAUSTED if the queue exceeds the bound, because such a slow reader must restart; the initial messages
/// may exceed the bound.
///
/// Its reactor passes OnWriteDone to written() and OnCancel to finish(). After finish() the reactor is no longer
/// used, so a writer may outlive it.
///
/// Threads  any.
template <class Reactor, class Message>
class StreamWriter {
 public:
  StreamWriter(Reactor& reactor, std::size_t most) : reactor_(reactor), most_(most) {}

  /// False once the stream has ended.
  bool push(Message message) {
    const std::lock_guard lock(mutex_);
    if (finished_) return false;
    if (live_ && queue_.size() - opening_ >= most_) {
      end(to_grpc({Code::kExhausted,
                   fmt::format("the reader is more than {} messages behind", most_),
                   {},
                   "restart the stream, or continue after the last version received"}));
      return false;
    }
    queue_.push_back(std::move(message));
    write();
    return true;
  }
  void live() {
    const std::lock_guard lock(mutex_);
    live_ = true;
    opening_ = queue_.size();
  }

  void written(bool ok) {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    queue_.pop_front();
    if (opening_ > 0) --opening_;
    if (ok) {
      write();
    } else if (!finished_) {
      end(grpc::Status::CANCELLED);
    }
  }
  void finish(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (!finished_) end(status);
  }

 private:
  void end(const grpc::Status& status) {
    finished_ = true;
    while (queue_.size() > (writing_ ? 1U : 0U)) queue_.pop_back();  // gRPC still uses the one that it writes
    opening_ = std::min(opening_, queue_.size());
    reactor_.Finish(status);
  }
  void write() {
    if (writing_ || finished_ || queue_.empty()) return;
    writing_ = true;
    reactor_.StartWrite(&queue_.front());
  }

  Reactor& reactor_;
  const std::size_t most_;
  std::mutex mutex_;
  std::deque<Message> queue_;
  std::size_t opening_ = 0;  ///< initial messages that are not written yet
  bool live_ = false, writing_ = false, finished_ = false;
};

}  // namespace qm::rpc
