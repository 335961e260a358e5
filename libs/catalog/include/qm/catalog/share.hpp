#pragma once
#include "qm/base/result.hpp"
#include "qm/model/resources.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::catalog {

/// From what a pod needs of a GPU, in memory and SMs, to what there is to ask for: a MIG instance, a share, or a GPU.

/// Annotations of a pod. All annotations of a pod that begin with kNeedPrefix are about GPUs.
inline constexpr std::string_view kNeedPrefix = "quartermaster.dev/gpu-";
inline constexpr std::string_view kMemoryNeed = "quartermaster.dev/gpu-memory";  ///< a quantity: "10Gi"
inline constexpr std::string_view kSmsNeed = "quartermaster.dev/gpu-sms";        ///< a whole number: "26"

/// What is needed of one GPU; 0 = not said. One of the two is above 0.
struct Need {
  std::int64_t memory_bytes = 0;
  std::int64_t sms = 0;
  friend bool operator==(const Need&, const Need&) = default;
};

/// Whether a pod's annotations speak of a need, be it one that nobody can read: whether one begins with kNeedPrefix.
[[nodiscard]] bool states_need(const Labels& annotations);

/// The need of a pod by its annotations; none where they say nothing of it.
///
/// Range    memory as Kubernetes quantities, from 1Mi on; SMs from 1 on.
/// Fails    kInvalid, for other annotations with the prefix, too; `field` is the annotation.
Result<std::optional<Need>> need_of(const Labels& annotations);

/// The GPUs that a pod is for.
struct ForGpus {
  std::vector<std::string> products;  ///< as nvidia.com/gpu.product has them; any of them may be the one
  bool uncut = false;                 ///< nodes whose GPUs are whole, whatever could be made of them
};

/// By the node selector and the models of a pod: nvidia.com/gpu.product, else the product of its instance type. GPUs are
/// uncut with nvidia.com/mig.config=all-disabled or nvidia.com/mig.capable=false.
[[nodiscard]] ForGpus gpus_for(const Labels& node_selector, const std::vector<std::string>& models);

/// What to ask for.
struct Share {
  std::string resource;  ///< "nvidia.com/mig-1g.10gb", "quartermaster.dev/gpu-milli", or "nvidia.com/gpu"
  std::int64_t amount = 0;
  friend bool operator==(const Share&, const Share&) = default;
};

/// The least that has what is needed: the smallest MIG profile of the model, and of a GPU that is uncut, or cannot be cut,
/// the share in thousandths, rounded up; all of it is a whole GPU. Where all instances of a node are alike and stand for
/// GPUs (a product with "-MIG-1g.10gb"), it is one of those.
///
/// Units    Memory counts as NVIDIA names it, with a gigabyte of 2^30 bytes: 10Gi is a 1g.10gb, of which the driver keeps
///          a little for itself. A share counts SMs and memory of the profile that is the whole GPU.
/// Fails    kInvalid where no model is said or known, nothing is large enough, the model's SMs are not known, or the
///          products come to different things. `field` is the annotation that is in the way; message and remedy name both.
/// Source   libs/catalog/include/qm/catalog/mig.hpp; memory of GPUs without MIG as EC2's DescribeInstanceTypes has it.
Result<Share> share_of(const Need& need, const ForGpus& gpus);

}  // namespace qm::catalog
