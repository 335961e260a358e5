#include "feed.hpp"

namespace qm::service {

void Feed::start_at(std::uint64_t sequence) {
  std::lock_guard lock(mutex_);
  events_.clear();
  bytes_ = 0;
  oldest_ = newest_ = sequence;
}

void Feed::push(std::vector<FeedEvent> events) {
  std::lock_guard lock(mutex_);
  for (auto& event : events) {
    newest_ = event.sequence;
    for (const auto& [handle, fn] : followers_) fn(event);
    bytes_ += event.payload.size();
    events_.push_back(std::move(event));
    while (events_.size() > most_ || (bytes_ > most_bytes_ && events_.size() > 1)) {
      oldest_ = events_.front().sequence;
      bytes_ -= events_.front().payload.size();
      events_.pop_front();
    }
  }
}

Result<std::uint64_t> Feed::follow(std::uint64_t after, std::function<void(const FeedEvent&)> fn) {
  std::lock_guard lock(mutex_);
  if (after < oldest_ || after > newest_) {
    return fail(Error{Code::kOutOfRange,
                      fmt::format("events after {} are not kept: the feed holds {} to {}", after, oldest_, newest_),
                      "resume_version", "list again and watch from the version that the list returns"});
  }
  for (const auto& event : events_) {
    if (event.sequence > after) fn(event);
  }
  const std::uint64_t handle = next_handle_++;
  followers_.emplace(handle, std::move(fn));
  return handle;
}

void Feed::unfollow(std::uint64_t handle) {
  std::lock_guard lock(mutex_);
  followers_.erase(handle);
}

std::uint64_t Feed::position() const {
  std::lock_guard lock(mutex_);
  return newest_;
}

}  // namespace qm::service
