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
/// Cost     one pass over the bounds of nodes; the volumes of a node are looked up where the claims that are used there, and those of the gang,
///          are too many to be told apart by their number alone.
class Engine::Attaching final : public Neighbourhood {
 public:
  using Likes = std::vector<std::optional<rules::PodTemplate>>;
  /// `rooms`, where the gang goes: nodes that have room for few pods of it are looked up less often. It and `others` may be null; `likes` are of
  /// the first of the sets. What is there must outlive it.
  Attaching(const Engine& engine, const Likes& likes, const std::vector<PodSet>& pod_sets, const Rooms* rooms,
            Neighbourhood* others);

  /// Whether some node may not have the volumes of all pods that might go there.
  [[nodiscard]] bool matters() const { return !nodes_.empty(); }
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
  using ByDriver = std::map<std::string, Volumes>;
  struct There {
    const AttachLimits* limits;
    bool known = false;  // what is attached
    ByDriver attached;
  };
  void find_nodes(const std::vector<PodSet>& pod_sets, const Rooms* rooms);
  [[nodiscard]] bool takes_all(const AttachLimits& limits, std::int64_t used, const std::vector<PodSet>& pod_sets,
                               const Room* room) const;
  /// Null where all of the gang may go.
  There* there(const NodeName& node) const;

  const Engine& engine_;
  Neighbourhood* others_;
  std::vector<ByDriver> uses_;               // of each pod, by pod set
  mutable std::map<NodeName, There> nodes_;  // that may not have all
};

}  // namespace qm::placement
