#pragma once
#include "qm/placement/preference.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace qm::placement {

/// Nodes that fit pods of one shape, best first, cached between requests: a node is evaluated again only
/// after it has changed. A list equals the result of a pass over all nodes, so no decision depends on the
/// cache.
///
/// Bounds   the kMost most recently used shapes, and kMostNodes nodes in all lists together.
/// Threads  one.
/// Memory   some 250 bytes a node and shape.
/// Cost     of(): O(changed nodes * log nodes); for a new shape or after a change of the preference:
///          O(nodes).
class Shortlists {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostNodes = 1'000'000;

  struct List {
    using Bucket = std::pair<std::int64_t, std::int64_t>;  ///< pods that fit, above 0; GPUs that NVLink joins
    struct Entry {
      Bucket bucket;
      std::int64_t score = 0;
    };
    using Order = std::set<std::pair<std::int64_t, NodeName>>;  ///< (-score, name)
    std::map<NodeName, Entry> nodes;
    std::map<Bucket, Order> by_fits;  ///< none empty
    std::int64_t fits = 0;            ///< number of pods that fit
  };

  /// Reports that the free capacity of the node has changed or was removed.
  void touch(const NodeName& node);
  /// The list for pods of the shape, of this workload type and GPU pool. Nodes that a filter rejects, with
  /// pods of another type, or with GPUs of another pool, are left out. Valid until the next call.
  [[nodiscard]] const List& of(const PodShape& shape, std::uint32_t type, GpuPool pool,
                               const FreeCapacity& free_capacity, const Preference& preference);
  /// Asserts that every list equals the result of a pass over all nodes.
  void audit(const FreeCapacity& free_capacity, const Preference& preference);

 private:
  using Kind = std::tuple<PodShape, std::uint32_t, GpuPool>;
  struct ShortlistView {
    List list;
    std::uint64_t read = 0;   // of the journal
    std::uint64_t epoch = 0;  // of the preference
    std::uint64_t asked = 0;
  };
  void look(List& list, const Kind& kind, const NodeName& node, const FreeCapacity& free_capacity,
            const Preference& preference);
  void evict_old(std::size_t fleet);

  std::map<Kind, ShortlistView> kept_;
  std::vector<NodeName> journal_;  // changed nodes, in order
  std::uint64_t begins_ = 0;       // number of the first entry of the journal
  std::uint64_t read_ = 0;         // end of the read part of the journal
  std::uint64_t questions_ = 0;
};

}  // namespace qm::placement
