#pragma once
#include "qm/service/host.hpp"

#include <deque>
#include <functional>
#include <map>
#include <mutex>

namespace qm::service {

/// The last events of this service in order of outbox sequence, for watches that resume: at most a number of them, and
/// at most a number of bytes of their payloads.
class Feed {
 public:
  Feed(std::size_t most, std::size_t most_bytes) : most_(most), most_bytes_(most_bytes) {}
  void start_at(std::uint64_t sequence);
  void push(std::vector<FeedEvent> events);
  Result<std::uint64_t> follow(std::uint64_t after, std::function<void(const FeedEvent&)> fn);
  void unfollow(std::uint64_t handle);
  [[nodiscard]] std::uint64_t position() const;

 private:
  mutable std::mutex mutex_;
  std::size_t most_, most_bytes_, bytes_ = 0;
  std::deque<FeedEvent> events_;
  std::uint64_t oldest_ = 0;  // all events after this sequence are stored
  std::uint64_t newest_ = 0;
  std::uint64_t next_handle_ = 1;
  std::map<std::uint64_t, std::function<void(const FeedEvent&)>> followers_;
};

}  // namespace qm::service
