#include "qm/admission/volcano/gang.hpp"

#include <algorithm>

namespace qm::admission::volcano {
namespace {

std::int64_t all_of(const Gang::Pods& pods) {
  std::int64_t out = 0;
  for (const auto& [task, count] : pods) out += count;
  return out;
}

std::int32_t of(const Gang::Pods& pods, const std::string& task) {
  const auto found = pods.find(task);
  return found == pods.end() ? 0 : found->second;
}

}  // namespace

bool Gang::tasks_count() const { return all_of(min_task_member) <= min_member; }

Gang::Lack Gang::lacks(const Pods& pods) const {
  const auto short_task = [&](const auto& least) { return of(pods, least.first) < least.second; };
  if (tasks_count() && std::ranges::any_of(min_task_member, short_task)) return Lack::kPodsOfTask;
  return all_of(pods) < min_member ? Lack::kTasks : Lack::kNone;
}

std::int32_t Gang::spare(const Pods& allocated, const std::string& task) const {
  auto out = std::min<std::int64_t>(all_of(allocated) - min_member, of(allocated, task));
  if (tasks_count()) out = std::min<std::int64_t>(out, of(allocated, task) - of(min_task_member, task));
  return static_cast<std::int32_t>(std::max<std::int64_t>(0, out));
}

std::vector<std::size_t> Gang::short_of(const Resources& idle) const {
  return beyond(min_resources, idle, min_resources);
}

}  // namespace qm::admission::volcano
