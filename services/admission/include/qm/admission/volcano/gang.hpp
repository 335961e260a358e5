#pragma once
#include "qm/admission/volcano/resources.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::admission::volcano {

/// All or nothing: how many pods of a group there must be, in all and of each task.
///
/// valid    enough pods exist: at least min_member, and min_task_member of each task;
/// ready    as many are allocated;
/// spare    pods that can go and leave the group ready.
/// Minima of tasks count only where together they are not more than min_member.
///
/// Order    a group that is not ready is served before one that is.
/// Law      whoever is ready stays ready when its spare pods go. (Volcano looks at min_member alone here.)
/// Threads  any. Cost  O(tasks).
/// Source   Volcano, pkg/scheduler/plugins/gang and api/job_info.go.
struct Gang {
  using Pods = std::map<std::string, std::int32_t>;  ///< by task

  std::int32_t min_member = 1;
  Pods min_task_member;
  Resources min_resources;  ///< empty: not said, and the group is let in whatever there is

  enum class Lack : std::uint8_t { kNone, kTasks, kPodsOfTask };
  /// What is missing first, as the reasons NotEnoughPodsOfTask and NotEnoughTasks.
  [[nodiscard]] Lack lacks(const Pods& pods) const;
  [[nodiscard]] bool valid(const Pods& existing) const { return lacks(existing) == Lack::kNone; }
  [[nodiscard]] bool ready(const Pods& allocated) const { return lacks(allocated) == Lack::kNone; }
  /// How many pods of this task can go.
  [[nodiscard]] std::int32_t spare(const Pods& allocated, const std::string& task) const;
  /// Resources of which less is idle than the group needs to start, before any pod of it exists.
  [[nodiscard]] std::vector<std::size_t> short_of(const Resources& idle) const;

 private:
  [[nodiscard]] bool tasks_count() const;
};

}  // namespace qm::admission::volcano
