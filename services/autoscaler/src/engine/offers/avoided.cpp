// Types whose instances did not become ready recently.
#include "offers/avoided.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
bool Avoided::refuses(const std::string& type) {
  const LaunchFault* fault = facts_.fault(type, pool_);
  if (fault == nullptr || fault->count < kMostLaunches) return false;
  text_ = fmt::format(
      "{} instances of {} did not become ready with the image of NodePool {}, the last one because {}; correct the "
      "image or the device plugin, or allow another instance type",
      fault->count, type, pool_.name, fault->reason);
  return true;
}

bool Avoided::better(const InstanceType& type, Money cost, const Offer& best) const {
  const bool faulty = facts_.fault(type.name, pool_) != nullptr;
  const bool best_faulty = facts_.fault(best.type->name, pool_) != nullptr;
  return std::pair(faulty, cost) < std::pair(best_faulty, best.per_hour);
}

std::string Avoided::note(const Offer& best) const {
  for (const auto& name : pool_.instance_types) {
    const LaunchFault* fault = facts_.fault(name, pool_);
    if (fault != nullptr && name != best.type->name) return fmt::format("; {} is avoided: {}", name, fault->reason);
  }
  return {};
}

}  // namespace qm::autoscaler
