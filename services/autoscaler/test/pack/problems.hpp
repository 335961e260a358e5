#pragma once
// Problems of tests: a type, a pod and constraints in one line each.
#include "qm/autoscaler/pack/plan.hpp"

#include <string>

namespace qm::autoscaler::pack::testing {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;
inline constexpr const char* kZone = "topology.kubernetes.io/zone";
inline constexpr const char* kHost = "kubernetes.io/hostname";

inline InstanceType type_of(std::string name, std::int64_t cpu, std::int64_t gib, double price, std::int64_t gpus = 0,
                            const std::vector<std::string>& zones = {"a"}) {
  InstanceType out;
  out.name = std::move(name);
  out.cpu_milli = cpu * 1000, out.memory_bytes = gib * kGiB, out.pods = 110;
  if (gpus > 0) out.extended["nvidia.com/gpu"] = gpus;
  for (const auto& zone : zones) out.offerings.push_back({zone, "on-demand", price, true});
  return out;
}

inline Pod pod_of(std::string uid, std::int64_t milli, std::int64_t gib, std::int64_t gpus = 0) {
  Pod out;
  out.uid = std::move(uid);
  out.name_space = "default";
  out.cpu_milli = milli, out.memory_bytes = gib * kGiB;
  if (gpus > 0) out.extended["nvidia.com/gpu"] = gpus;
  return out;
}

inline LabelSelector app_is(const std::string& app) { return {{{"app", LabelRequirement::Op::kIn, {app}}}}; }

/// xorshift: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ULL + 1) {}
  std::int64_t below(std::int64_t n) {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::int64_t>((state_ >> 11) % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

}  // namespace qm::autoscaler::pack::testing
