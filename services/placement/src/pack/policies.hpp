#pragma once
#include "qm/placement/pack/policy.hpp"

#include <array>

namespace qm::placement::pack {

/// The policies of the FGD paper that depend on a node's state alone, and spread: policies.cpp.
[[nodiscard]] std::unique_ptr<Policy> make_bestfit();
[[nodiscard]] std::unique_ptr<Policy> make_dotprod();
[[nodiscard]] std::unique_ptr<Policy> make_clustering();
[[nodiscard]] std::unique_ptr<Policy> make_packing();
[[nodiscard]] std::unique_ptr<Policy> make_spread();
/// fgd.cpp
[[nodiscard]] std::unique_ptr<Policy> make_fgd(const Outlook& outlook);
/// quartermaster.cpp
[[nodiscard]] std::unique_ptr<Policy> make_quartermaster(const Outlook& outlook);

/// Calls fn(device_milli) once for each different amount of free milli from which the share could
/// be allocated, most first.
template <class Fn>
void each_device(const NodeState& node, const PodClass& pod, Fn&& fn) {
  std::int32_t last = 0;
  for (std::size_t i = 0; i < node.gpus && node.free[i] >= pod.gpu_milli; ++i) {
    if (node.free[i] != last) fn(last = node.free[i]);
  }
}

}  // namespace qm::placement::pack
