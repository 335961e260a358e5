#pragma once
#include "qm/store/store.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace qm::store {

/// The newest outbox rows that this process committed, so that the relay need not read them back from the table. Any
/// thread; bounded, and rows that it does not have are read from the table.
class Recent {
 public:
  static constexpr std::size_t kMostBytes = 32 << 20;

  void add(const std::vector<OutboxRow>& rows) {
    const std::lock_guard lock(mutex_);
    for (const auto& row : rows) {
      bytes_ += size_of(row);
      rows_.push_back(row);
    }
    while (bytes_ > kMostBytes) pop();
  }
  /// The rows after `sequence` if all of them are here, which may be zero rows; nullopt otherwise.
  std::optional<std::vector<OutboxRow>> after(std::uint64_t sequence, std::size_t max) const {
    const std::lock_guard lock(mutex_);
    if (sequence < floor_) return std::nullopt;
    const auto first = std::min(rows_.size(), static_cast<std::size_t>(sequence - floor_));
    const auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(first);
    return std::vector<OutboxRow>(begin, begin + static_cast<std::ptrdiff_t>(std::min(max, rows_.size() - first)));
  }
  void drop(std::uint64_t upto) {
    const std::lock_guard lock(mutex_);
    while (!rows_.empty() && rows_.front().sequence <= upto) pop();
  }
  /// Rows up to and including this one are not here.
  void start_at(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    rows_.clear();
    bytes_ = 0;
    floor_ = sequence;
  }

 private:
  static std::size_t size_of(const OutboxRow& row) {
    return sizeof(OutboxRow) + row.topic.size() + row.key.size() + row.value.size();
  }
  void pop() {
    bytes_ -= size_of(rows_.front());
    floor_ = rows_.front().sequence;
    rows_.pop_front();
  }

  mutable std::mutex mutex_;
  std::deque<OutboxRow> rows_;  ///< dense, from floor_ + 1 on
  std::uint64_t floor_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace qm::store
