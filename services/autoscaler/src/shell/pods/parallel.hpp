#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace qm::autoscaler {

inline constexpr std::size_t kParallelCalls = 8;

/// Calls `call(i)` for each i below `count`, at most kParallelCalls at a time, and returns after the last one. For calls to the API
/// server that should have their effect at the same time.
template <class Call>
void in_parallel(std::size_t count, const Call& call) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t at = next++; at < count; at = next++) call(at);
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(kParallelCalls, count); ++i) threads.emplace_back(work);
  work();
}

}  // namespace qm::autoscaler
