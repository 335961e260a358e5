#pragma once
#include "qm/placement/preference.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace qm::placement {

/// The nodes that pods of one shape fit, best first, kept from one question to the next: a node is looked at again only when it has changed.
/// They hold what a look at all rooms would find, so that no decision depends on them.
///
/// Bounds   kMost shapes, those that were asked for last, and kMostNodes nodes in all lists together.
/// Threads  one.
/// Memory   some 250 bytes a node and shape.
/// Cost     of(): O(nodes that have changed since, times log of nodes); a first time, or when other nodes are preferred: O(nodes).
class Shortlists {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostNodes = 1'000'000;

  struct List {
    using Bucket = std::pair<std::int64_t, std::int64_t>;  ///< pods that fit, above 0; GPUs that NVLink joins
    struct Standing {
      Bucket bucket;
      std::int64_t score = 0;
    };
    using Order = std::set<std::pair<std::int64_t, NodeName>>;  ///< (-score, name)
    std::map<NodeName, Standing> nodes;
    std::map<Bucket, Order> by_fits;  ///< none empty
    std::int64_t fits = 0;            ///< pods in all
  };

  /// The room of the node is another, or there is none any more.
  void touch(const NodeName& node);
  /// For pods of the shape, of work of the type and for GPUs of the pool: nodes that a filter rejects, that have pods of another type, or GPUs of
  /// another pool, are not in it. Good until the next call.
  [[nodiscard]] const List& of(const PodShape& shape, std::uint32_t type, GpuPool pool, const Rooms& rooms,
                               const Preference& preference);
  /// Asserts that every list is what a look at all rooms finds.
  void audit(const Rooms& rooms, const Preference& preference);

 private:
  using Kind = std::tuple<PodShape, std::uint32_t, GpuPool>;
  struct Kept {
    List list;
    std::uint64_t read = 0;   // of the journal
    std::uint64_t epoch = 0;  // of the preference
    std::uint64_t asked = 0;
  };
  void look(List& list, const Kind& kind, const NodeName& node, const Rooms& rooms, const Preference& preference);
  void make_way(std::size_t fleet);

  std::map<Kind, Kept> kept_;
  std::vector<NodeName> journal_;  // changed nodes, in their order
  std::uint64_t begins_ = 0;       // number of the first in the journal
  std::uint64_t read_ = 0;         // up to there by somebody
  std::uint64_t questions_ = 0;
};

}  // namespace qm::placement
