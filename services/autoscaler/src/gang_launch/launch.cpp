#include "qm/autoscaler/gang_launch/launch.hpp"

#include "qm/base/digest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::size_t kLongestToken = 64;

}  // namespace

LaunchStep next_step(std::span<const LaunchMember> members) {
  LaunchStep out;
  const auto has = [&](LaunchMember state) { return std::ranges::find(members, state) != members.end(); };
  if (!has(LaunchMember::kRefused) && !has(LaunchMember::kLate)) {
    out.phase = has(LaunchMember::kRequested) ? LaunchPhase::kPending : LaunchPhase::kWhole;
    return out;
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i] == LaunchMember::kLaunched || members[i] == LaunchMember::kLate) out.terminate.push_back(i);
    if (members[i] == LaunchMember::kRequested) out.cancel.push_back(i);
  }
  out.phase = out.terminate.empty() && out.cancel.empty() ? LaunchPhase::kClosed : LaunchPhase::kRollBack;
  return out;
}

std::string launch_id(const std::string& first_claim, std::size_t members) {
  return fmt::format("{}x{}", first_claim, members);
}

std::string client_token(const std::string& shard, const std::string& id) {
  std::string token = shard + "/" + id;
  return token.size() <= kLongestToken ? token : sha256_hex(token);
}

LaunchAnswer match(std::span<const LaunchedInstance> instances, std::size_t claims) {
  LaunchAnswer out;
  for (const LaunchedInstance& instance : instances) {
    if (instance.alive) out.alive.push_back(instance.id);
  }
  std::ranges::sort(out.alive);
  out.partial = out.alive.size() < claims;
  if (out.partial) return out;
  out.instances.assign(out.alive.begin(), out.alive.begin() + static_cast<std::ptrdiff_t>(claims));
  return out;
}

}  // namespace qm::autoscaler
