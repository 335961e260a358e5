#pragma once
#include "qm/base/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::agent {

/// How devices are allocated: whole, or in equal shares as time slices or under MPS.
struct Sharing {
  std::map<std::string, int> shares;  ///< by resource; a resource that is not listed is allocated whole
  bool renamed = false;               ///< a shared resource is named "<resource>.shared"
  bool mps = false;     ///< shares run concurrently, each limited to its part of the threads and of the memory
  bool single = false;  ///< MIG instances are requested as nvidia.com/gpu
  std::vector<std::string> warnings;  ///< values that were interpreted other than written
  [[nodiscard]] int of(const std::string& resource) const;
};

/// Parses a configuration of NVIDIA's device plugin, or a ConfigMap with one (of several, the one for `any` node).
///
/// Read     sharing.timeSlicing or sharing.mps: resources with replicas, or replicas alone, which apply to
///          nvidia.com/gpu, with a warning; renameByDefault; flags.migStrategy; of the GPU Operator's values
///          mps.enabled with mps.replicas. Other fields are ignored.
/// Fails    kInvalid names the field: invalid YAML, replicas not from 1 to 128, both kinds of sharing, MIG instances
///          under MPS.
Result<Sharing> sharing_of(std::string_view text, const std::string& file);

}  // namespace qm::agent
