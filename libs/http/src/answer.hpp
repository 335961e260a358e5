#pragma once
// The wire format of a response: its head, and a body that is sent in chunks.
#include "qm/http/http.hpp"

#include <fmt/format.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>

namespace qm::http {

/// Status line and headers with the empty line after them.
[[nodiscard]] std::string head_of(const Response& response, bool chunked, bool keep_alive);

/// The writers' side of a streamed response. `wake` posts to the session; it is dropped with the server, so a
/// stream that still has other owners afterwards has no effect.
class ChunkStream final : public Stream {
 public:
  ChunkStream(std::string head, std::size_t max_backlog, std::function<void()> wake)
      : pending_(std::move(head)), max_backlog_(max_backlog), wake_(std::move(wake)) {}

  bool write(std::string chunk) override {
    const std::scoped_lock lock(mutex_);
    if (closed_) return false;
    if (chunk.empty()) return true;  // a zero chunk would end the body
    pending_ += fmt::format("{:x}\r\n", chunk.size());
    pending_ += chunk;
    pending_ += "\r\n";
    if (pending_.size() + in_flight_ > max_backlog_) {
      closed_ = cut_ = true;
      pending_.clear();
    }
    wake();
    return !closed_;
  }

  void close() override {
    const std::scoped_lock lock(mutex_);
    if (closed_) return;
    closed_ = true;
    pending_ += "0\r\n\r\n";
    wake();
  }

  [[nodiscard]] bool closed() const override {
    const std::scoped_lock lock(mutex_);
    return closed_;
  }

  struct Next {
    std::string bytes;
    bool end = false;
  };
  /// Returns the chunks to send now. Session only.
  Next take() {
    const std::scoped_lock lock(mutex_);
    Next next{std::move(pending_), closed_};
    pending_.clear();
    in_flight_ = next.bytes.size();
    return next;
  }
  /// Returns whether the reader was too slow; also allows the next write to wake the session again.
  bool look() {
    const std::scoped_lock lock(mutex_);
    woken_ = false;
    return cut_;
  }
  void drop() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    pending_.clear();
    wake_ = nullptr;
  }

 private:
  void wake() {
    if (wake_ && !std::exchange(woken_, true)) wake_();
  }

  mutable std::mutex mutex_;
  std::string pending_;
  std::size_t in_flight_ = 0;
  std::size_t max_backlog_;
  bool closed_ = false, cut_ = false, woken_ = false;
  std::function<void()> wake_;
};

}  // namespace qm::http
