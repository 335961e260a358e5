#include "qm/model/resources.hpp"

#include "qm/base/assert.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm {
namespace {

constexpr std::int64_t kWholeDevice = 1000;
constexpr std::int32_t kComputeSlices = 7;

}  // namespace

std::int32_t compute_slices(std::string_view profile) {
  const auto g = profile.find("g.");
  if (g == std::string_view::npos || g == 0 || profile[g - 1] < '1' || profile[g - 1] > '7') return kComputeSlices;
  return profile[g - 1] - '0';
}

std::vector<std::int32_t> mig_shares(const std::vector<std::string>& profiles, std::int32_t of) {
  QM_ASSERT(of > 0, "a GPU of {} compute slices", of);
  std::vector<std::int32_t> out;
  std::int32_t slices = 0, given = 0;
  for (const std::string& profile : profiles) {
    slices = std::min(slices + compute_slices(profile), of);
    const auto end = static_cast<std::int32_t>(kWholeDevice * slices / of);
    out.push_back(end - given);
    given = end;
  }
  return out;
}

std::int64_t GpuShape::total_milli(std::int64_t pods) const {
  // Rounded down for MIG, so that the instances that fill a device never add up to more than the device.
  const std::int64_t mig =
      mig_count == 0 ? 0 : kWholeDevice * compute_slices(mig_profile) * mig_count * pods / kComputeSlices;
  return (whole * kWholeDevice + milli) * pods + mig;
}

std::int64_t WorkloadSpec::total_gpu_milli() const {
  std::int64_t total = 0;
  for (const PodSet& set : pod_sets) total += set.shape.gpu.total_milli(set.count);
  return total;
}

std::int32_t WorkloadSpec::total_pods() const {
  std::int32_t total = 0;
  for (const PodSet& set : pod_sets) total += set.count;
  return total;
}

bool tolerates(const Toleration& toleration, const Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (!toleration.key.empty() && toleration.key != taint.key) return false;
  if (toleration.op == "Exists") return true;
  return (toleration.op.empty() || toleration.op == "Equal") && toleration.value == taint.value;
}

std::string text_of(const Taint& taint) {
  const auto value = taint.value.empty() ? taint.key : fmt::format("{}={}", taint.key, taint.value);
  if (taint.effect.empty()) return taint.value.empty() ? value : value + ":";
  return fmt::format("{}:{}", value, taint.effect);
}

const Taint* untolerated(const std::vector<Taint>& taints, const std::vector<Toleration>& tolerations) {
  for (const Taint& taint : taints) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute") continue;
    const auto covers = [&](const Toleration& toleration) { return tolerates(toleration, taint); };
    if (std::none_of(tolerations.begin(), tolerations.end(), covers)) return &taint;
  }
  return nullptr;
}

}  // namespace qm
