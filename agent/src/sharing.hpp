#pragma once
#include "qm/base/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::agent {

/// How devices are given out: as a whole, or in equal shares: by time, or side by side under MPS.
struct Sharing {
  std::map<std::string, int> shares;  ///< by resource; what is not named is given as a whole
  bool renamed = false;               ///< what is given in shares is called "<resource>.shared"
  bool mps = false;     ///< who has a share runs beside the others, held to his part of the threads and of the memory
  bool single = false;  ///< MIG instances are asked for as nvidia.com/gpu
  std::vector<std::string> warnings;  ///< what was read in another way than it stands there
  [[nodiscard]] int of(const std::string& resource) const;
};

/// Reads a configuration of NVIDIA's device plugin, or a ConfigMap with one (of several, that for `any` node).
///
/// Read     sharing.timeSlicing or sharing.mps: resources with replicas, or replicas alone, which count for nvidia.com/gpu, with a
///          warning; renameByDefault; flags.migStrategy; of the GPU Operator's values mps.enabled with mps.replicas. The rest is
///          NVIDIA's and left alone.
/// Fails    kInvalid names the field: no YAML, replicas not from 1 to 128, both ways of sharing at once, MIG instances under MPS.
Result<Sharing> sharing_of(std::string_view text, const std::string& file);

}  // namespace qm::agent
