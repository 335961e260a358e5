#pragma once
#include "engine/allocator/mounts.hpp"
#include "qm/placement/engine.hpp"

#include <map>
#include <set>

namespace qm::placement {

/// Excludes nodes that have reached the attach limit of a volume driver. A volume counts once per node, for
/// all its pods; a pod without a new volume is not excluded.
///
/// Source   the filter NodeVolumeLimits of kube-scheduler, for CSI drivers.
/// Cost     one pass over the attach limits. The volumes of a node are looked up only if the number of its
///          claims and those of the gang exceeds the limit.
class VolumeLimits final : public InterPodConstraints {
 public:
  using ClaimsByNode = std::map<NodeName, std::set<ClaimUse>>;
  using Likes = std::vector<std::optional<rules::PodTemplate>>;
  /// `free_capacity`: nodes for the gang; nodes that fit few of its pods need fewer look-ups. It and `others` may be
  /// null; `likes` belong to the first sets. All arguments must outlive it.
  VolumeLimits(const Tables& tables, const ClaimsByNode& claims, const Likes& likes,
               const std::vector<PodSet>& pod_sets, const FreeCapacity* free_capacity, InterPodConstraints* others);

  /// Whether some node cannot attach the volumes of all pods that may be placed there.
  [[nodiscard]] bool matters() const { return !nodes_.empty(); }
  struct Bound {
    std::int64_t pods;          ///< of the set that the node still fits
    const std::string* driver;  ///< whose limit one more pod would exceed; null if none
  };
  [[nodiscard]] Bound bound(std::size_t set, const NodeName& node) const;

  [[nodiscard]] bool one_by_one(std::size_t set) const override;
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const override;
  [[nodiscard]] const DynamicConstraints* dynamic(std::size_t set) const override;
  [[nodiscard]] std::int64_t most(std::size_t set, const NodeName& node) const override;
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node, const NodeCapacity& capacity) const override;
  [[nodiscard]] bool has_data(std::size_t set, const NodeCapacity& capacity) const override;
  void take(std::size_t set, const NodeName& node) override;

 private:
  struct Volumes {                 // of one driver
    std::set<std::string> shared;  // by name
    std::int64_t own = 0;          // number of additional volumes, each of a single pod
  };
  using ByDriver = std::map<std::string, Volumes>;
  struct There {
    const AttachLimits* limits;
    bool known = false;  // whether `attached` is complete
    ByDriver attached;
  };
  void find_nodes(const std::vector<PodSet>& pod_sets, const FreeCapacity* free_capacity);
  [[nodiscard]] bool takes_all(const AttachLimits& limits, std::int64_t used, const std::vector<PodSet>& pod_sets,
                               const NodeCapacity* capacity) const;
  /// Null if the node fits the whole gang.
  There* there(const NodeName& node) const;

  const Tables& tables_;
  const ClaimsByNode& claims_;
  InterPodConstraints* others_;
  std::vector<ByDriver> uses_;               // of each pod, by pod set
  mutable std::map<NodeName, There> nodes_;  // nodes that may not fit all pods
};

}  // namespace qm::placement
