#include "qm/admission/volcano/enqueue.hpp"

namespace qm::admission::volcano {

std::optional<Instant> Sla::deadline(const Job& job) const {
  const auto& time = job.waiting_time ? job.waiting_time : waiting_time;
  if (!time) return std::nullopt;
  return job.created + *time;
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
