#pragma once
#include "qm/admission/volcano/resources.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::admission::volcano {

/// All or nothing: how many pods a group must have, in total and per task.
///
/// ready    enough pods are allocated: at least min_member, and min_task_member of each task;
/// spare    pods that can be evicted while the group stays ready.
/// Minima of tasks apply only if their sum is not above min_member.
///
/// Order    a group that is not ready is served before one that is.
/// Law      a ready group stays ready when its spare pods are evicted. (Volcano checks only min_member here.)
/// Threads  any. Cost  O(tasks).
/// Source   Volcano, pkg/scheduler/plugins/gang and api/job_info.go.
struct Gang {
  using Pods = std::map<std::string, std::int32_t>;  ///< by task

  std::int32_t min_member = 1;
  Pods min_task_member;
  Resources min_resources;  ///< empty: not set, and the group is enqueued regardless of capacity

  enum class Lack : std::uint8_t { kNone, kTasks, kPodsOfTask };
  /// The first thing that is missing, as the reasons NotEnoughPodsOfTask and NotEnoughTasks.
  [[nodiscard]] Lack lacks(const Pods& pods) const;
  [[nodiscard]] bool ready(const Pods& allocated) const { return lacks(allocated) == Lack::kNone; }
  /// How many pods of this task can be evicted.
  [[nodiscard]] std::int32_t spare(const Pods& allocated, const std::string& task) const;
  /// Resources with fewer idle than the group needs to start, before any of its pods exists.
  [[nodiscard]] std::vector<std::size_t> short_of(const Resources& idle) const;

 private:
  [[nodiscard]] bool tasks_count() const;
};

}  // namespace qm::admission::volcano
