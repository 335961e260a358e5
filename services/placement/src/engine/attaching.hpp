#pragma once
#include "engine/mounts.hpp"
#include "qm/placement/engine.hpp"

#include <map>
#include <set>

namespace qm::placement {

/// Keeps pods off nodes that have as many volumes of a driver attached as they may. A volume counts once on a node, whoever of its pods uses
/// it; a pod that brings none is kept off nowhere.
///
/// Source   the filter NodeVolumeLimits of kube-scheduler, for drivers of CSI.
/// Cost     O(volumes there) for a node, once.
class Engine::Attaching final : public Neighbourhood {
 public:
  /// All must outlive it; `others` may be null.
  Attaching(const Engine& engine, const std::vector<std::optional<rules::PodTemplate>>& likes, Neighbourhood* others);

  /// Whether any pod of the gang uses volumes that a driver attaches, and some node bounds any.
  [[nodiscard]] bool matters() const { return matters_; }
  struct Bound {
    std::int64_t pods;          ///< of the set that the node may take yet
    const std::string* driver;  ///< whose volumes would be too many with one more pod; null where none would
  };
  [[nodiscard]] Bound bound(std::size_t set, const NodeName& node) const;

  [[nodiscard]] bool one_by_one(std::size_t set) const override;
  [[nodiscard]] bool suits(std::size_t set, const NodeName& node, const Room& room) const override;
  [[nodiscard]] const Shifting* shifting(std::size_t set) const override;
  [[nodiscard]] std::int64_t most(std::size_t set, const NodeName& node) const override;
  [[nodiscard]] std::string rejects(std::size_t set, const NodeName& node, const Room& room) const override;
  [[nodiscard]] bool has_data(std::size_t set, const Room& room) const override;
  void take(std::size_t set, const NodeName& node) override;

 private:
  struct Volumes {                 // of one driver
    std::set<std::string> shared;  // by name
    std::int64_t own = 0;          // how many more, that are a pod's alone
  };
  struct There {
    const AttachLimits* limits = nullptr;
    std::map<std::string, Volumes> attached;  // by driver
  };
  There& there(const NodeName& node) const;

  const Engine& engine_;
  Neighbourhood* others_;
  std::vector<std::map<std::string, Volumes>> uses_;  // of each pod, by pod set and driver
  bool matters_ = false;
  mutable std::map<NodeName, There> nodes_;
};

}  // namespace qm::placement
