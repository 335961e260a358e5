#pragma once
#include "qm/admission/kueue/work.hpp"
#include "qm/topology/assign.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::kueue {

/// A pod set to place on nodes of one flavor.
struct NodeRequest {
  std::size_t set = 0;
  Flavor flavor = 0;
  topology::PodSetRequest request;
};

/// A pod set with its nodes.
struct Placed {
  std::size_t set = 0;
  Flavor flavor = 0;
  topology::Assignment assignment;
  topology::Requests each;  ///< of one pod
};

/// The result for all requests of one workload: all placed, or the first that could not be placed.
struct Placing {
  std::vector<Placed> placed;
  std::optional<std::size_t> failed;  ///< the pod set
  std::string reason;                 ///< in Kueue's words
};

/// The pods that a workload has on leaves in addition to those that it had there before.
/// Source   Kueue, pkg/scheduler/flavorassigner/assignment.go ComputeTASNetUsage.
[[nodiscard]] LeafUses beyond(const LeafUses& now, const LeafUses& before);

/// The nodes of all flavors with a topology, and their usage. All trees share one object, because they share the
/// nodes; a field without it has only flavors without topology.
///
/// If leaves are hosts, a host of several flavors is one host: usage by one of them is subtracted for all.
///
/// Units    as topology::Requests, with the numbers of names().
/// Threads  one.
/// Cost     place: as topology::Search, times the number of `node_requests`; take, give_back and fits: O(used leaves ·
///          resources).
/// Source   Kueue, pkg/cache/scheduler/tas_flavor.go, clusterqueue_snapshot.go;
///          pkg/scheduler/flavorassigner/tas_flavorassigner.go.
class Topologies {
 public:
  /// `shares_hosts`: gate TASHandleOverlappingFlavors.
  explicit Topologies(topology::Gates gates = {}, bool shares_hosts = true)
      : gates_(gates), shares_hosts_(shares_hosts) {}

  [[nodiscard]] topology::ResourceNames& names() { return names_; }
  /// Nodes that do not belong to the flavor are ignored.
  void add(Flavor flavor, topology::Flavor spec, std::span<const topology::Node> nodes);
  /// Adds the usage of pods that were not placed by topology, with their number.
  void take_outside(std::string_view node, const topology::Requests& usage);

  [[nodiscard]] const topology::Gates& gates() const { return gates_; }
  [[nodiscard]] bool empty() const { return flavors_.empty(); }
  [[nodiscard]] bool has(Flavor flavor) const { return flavors_.contains(flavor); }
  [[nodiscard]] bool has_levels(Flavor flavor, const topology::TopologyRequest& request) const;

  struct Options {
    bool empty = false;  ///< as if the nodes were unused
    const topology::Replacement* replacement = nullptr;
  };
  /// Flavor by flavor; each considers what earlier `node_requests` use of its hosts. Usage is not changed yet.
  [[nodiscard]] Placing place(std::span<const NodeRequest> node_requests, Options options);

  /// The leaves of a placed pod set: its own, and the same hosts in other flavors.
  void add_uses(LeafUses& to, Flavor flavor, const topology::Assignment& assignment,
                const topology::Requests& each) const;
  [[nodiscard]] LeafUses uses_of(std::span<const Placed> placed) const;
  /// Whether each leaf has free capacity for all of these.
  [[nodiscard]] bool fits(const LeafUses& uses);
  void take(const LeafUses& uses);
  void give_back(const LeafUses& uses);

  /// Usage of each leaf of a flavor, by all flavors, keyed by hostname or by all values; unused leaves are omitted.
  [[nodiscard]] std::map<std::string, topology::Requests> placed_on(Flavor flavor) const;

 private:
  struct Held {
    Held(const topology::ResourceNames& names, topology::Flavor spec, std::span<const topology::Node> nodes,
         topology::Gates gates)
        : nodes_of(names, std::move(spec), nodes), search(nodes_of, gates) {}
    topology::Topology nodes_of;
    topology::Search search;
  };
  [[nodiscard]] bool shared(const topology::Tree& a, const topology::Tree& b) const {
    return shares_hosts_ && a.leaves_are_hosts() && b.leaves_are_hosts();
  }

  topology::ResourceNames names_;
  topology::Gates gates_;
  bool shares_hosts_ = true;
  std::map<Flavor, Held> flavors_;
};

}  // namespace qm::admission::kueue
