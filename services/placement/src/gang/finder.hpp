#pragma once
#include "shape.hpp"

#include <optional>
#include <span>
#include <vector>

namespace qm::placement::gang {

/// What a search over domains needs to know about a gang, of one set or of several. The inner cost
/// of a domain is the cost of its parts in use, without its own weight.
class Finder {
 public:
  virtual ~Finder() = default;
  /// Returns false if the domain cannot hold the gang; then no part of it can.
  [[nodiscard]] virtual bool may_hold(Domain domain) const = 0;
  /// True if may_hold() is exact: every domain that may hold the gang does hold it.
  [[nodiscard]] virtual bool certain() const = 0;
  /// Pods that would fit in the domain in addition to the gang.
  [[nodiscard]] virtual std::int64_t leftover(Domain domain) const = 0;
  /// A lower bound of the inner cost.
  [[nodiscard]] virtual std::int64_t bound(Domain domain) const = 0;
  /// The least inner cost if it is below `below`. The domain must satisfy may_hold().
  [[nodiscard]] virtual std::optional<std::int64_t> cost(Domain domain, std::int64_t below) = 0;
  /// The best single node inside. Called only if certain() is true.
  [[nodiscard]] virtual std::optional<NodeId> best_node(Domain within) = 0;
};

struct Best {
  Domain domain;
  std::int64_t cost = 0;  ///< the weights of the domain, of the domains that contain it, and of its parts in use
};

/// Returns the best domain of `level` or deeper, inside `within`: least cost, then deepest level,
/// least left over, best score, first in order. With `any` it returns any domain that holds the
/// gang, for callers that only check whether one exists.
[[nodiscard]] std::optional<Best> best_domain(const Tree& tree, Finder& finder, std::span<const std::int64_t> weights,
                                              Domain within, Level level, bool any = false);

}  // namespace qm::placement::gang
