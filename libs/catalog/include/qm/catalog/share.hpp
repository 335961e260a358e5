#pragma once
#include "qm/base/result.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::catalog {

/// Translates a pod's GPU need, in memory and SMs, into a resource request: a MIG instance, a share, or a GPU.

/// Annotations of a pod. All annotations with the prefix kNeedPrefix are about GPUs.
inline constexpr std::string_view kNeedPrefix = "quartermaster.dev/gpu-";
inline constexpr std::string_view kMemoryNeed = "quartermaster.dev/gpu-memory";  ///< a quantity: "10Gi"
inline constexpr std::string_view kSmsNeed = "quartermaster.dev/gpu-sms";        ///< a whole number: "26"

/// The need of one GPU; 0 = not specified. At least one of the two is above 0.
struct Need {
  std::int64_t memory_bytes = 0;
  std::int64_t sms = 0;
  friend bool operator==(const Need&, const Need&) = default;
};

/// Whether a pod's annotations specify a need, even an invalid one: whether a key begins with kNeedPrefix.
[[nodiscard]] bool states_need(const Labels& annotations);

/// The need of a pod by its annotations; none if they specify no need.
///
/// Range    memory as Kubernetes quantities, from 1Mi on; SMs from 1 on.
/// Fails    kInvalid, also for other annotations with the prefix; `field` is the annotation.
Result<std::optional<Need>> need_of(const Labels& annotations);

/// The GPUs that a pod may use.
struct ForGpus {
  std::vector<std::string> products;  ///< values of nvidia.com/gpu.product; each of them is allowed
  bool uncut = false;                 ///< only nodes with whole GPUs, regardless of possible MIG layouts
};

/// Determined by the node selector and the models of a pod: nvidia.com/gpu.product, else the product of its instance
/// type. GPUs are uncut with nvidia.com/mig.config=all-disabled or nvidia.com/mig.capable=false.
[[nodiscard]] ForGpus gpus_for(const Labels& node_selector, const std::vector<std::string>& models);

/// The resource request for a need.
struct Share {
  std::string resource;  ///< "nvidia.com/mig-1g.10gb", "quartermaster.dev/gpu-milli", or "nvidia.com/gpu"
  std::int64_t amount = 0;
  friend bool operator==(const Share&, const Share&) = default;
};

/// The smallest request that covers the need: the smallest MIG profile of the model. For a GPU that is uncut, or
/// without MIG, it is the share in thousandths, rounded up; all of it is a whole GPU. If all instances of a node are
/// equal and count as GPUs (a product with "-MIG-1g.10gb"), it is one of those.
///
/// Units    Memory counts as in NVIDIA's names, with a gigabyte of 2^30 bytes: 10Gi is a 1g.10gb, of which the
///          driver reserves a little. A share counts SMs and memory of the profile that is the whole GPU.
/// Fails    kInvalid if no model is specified or known, nothing is large enough, the model's SMs are not known, or
///          the products result in different requests. `field` is the annotation at fault; message and remedy name
///          both.
/// Source   libs/catalog/include/qm/catalog/mig.hpp; memory of GPUs without MIG as EC2's DescribeInstanceTypes has
///          it.
Result<Share> share_of(const Need& need, const ForGpus& gpus);

}  // namespace qm::catalog
