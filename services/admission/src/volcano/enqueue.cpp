#include "qm/admission/volcano/enqueue.hpp"

#include <algorithm>

namespace qm::admission::volcano {

bool let_in(const std::vector<std::vector<Vote>>& tiers) {
  for (const auto& tier : tiers) {
    bool permitted = false;
    for (const auto vote : tier) {
      if (vote == Vote::kReject) return false;
      permitted = permitted || vote == Vote::kPermit;
    }
    if (permitted) return true;
  }
  return true;
}

Vote Overcommit::vote(const Resources& least, const Resources& total, const Resources& used,
                      const Resources& inqueue) const {
  if (least.empty()) return Vote::kPermit;
  Resources room = total;
  for (std::size_t r = 0; r < room.size(); ++r) {
    const auto own = of_resource.find(r);
    auto by = own == of_resource.end() ? factor : own->second;
    if (by < 1000) by = kDefault;
    room[r] = static_cast<std::int64_t>(std::min<Wide>(Wide(room[r]) * by / 1000, kUnlimited));
  }
  take(room, used);
  return beyond(sum(inqueue, least), room, least).empty() ? Vote::kPermit : Vote::kReject;
}

std::optional<Instant> Sla::deadline(const Job& job) const {
  const auto& time = job.waiting_time ? job.waiting_time : waiting_time;
  if (!time) return std::nullopt;
  return job.created + *time;
}

Vote Sla::vote(const Job& job, Instant now) const {
  const auto end = deadline(job);
  return end && now >= *end ? Vote::kPermit : Vote::kAbstain;
}

bool Sla::before(const Job& a, const Job& b) const {
  const auto left = deadline(a), right = deadline(b);
  return left && (!right || *left < *right);
}

Resources Sla::keep(Resources idle, std::span<const Resources> overdue) {
  for (const auto& need : overdue) idle = rest(std::move(idle), need);
  return idle;
}

}  // namespace qm::admission::volcano
