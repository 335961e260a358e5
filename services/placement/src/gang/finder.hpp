#pragma once
#include "shape.hpp"

#include <optional>
#include <span>
#include <vector>

namespace qm::placement::gang {

/// What a search over domains asks about a gang, of one set or of several. The inner cost of a domain is that of its parts in use, not
/// its own weight.
class Finder {
 public:
  virtual ~Finder() = default;
  /// False where the domain cannot hold the gang; then no part of it can.
  [[nodiscard]] virtual bool may_hold(Domain domain) const = 0;
  /// Whether what may hold the gang does.
  [[nodiscard]] virtual bool certain() const = 0;
  /// Pods that the domain would take besides.
  [[nodiscard]] virtual std::int64_t leftover(Domain domain) const = 0;
  /// The inner cost is no less.
  [[nodiscard]] virtual std::int64_t bound(Domain domain) const = 0;
  /// The least inner cost if it is below `below`; of a domain that may hold the gang.
  [[nodiscard]] virtual std::optional<std::int64_t> cost(Domain domain, std::int64_t below) = 0;
  /// The best single node inside, for who is certain.
  [[nodiscard]] virtual std::optional<NodeId> best_node(Domain within) = 0;
};

struct Best {
  Domain domain;
  std::int64_t cost = 0;  ///< of the domain, what it is part of, and what is used of it
};

/// The best domain of `level` or deeper, inside `within`: the least cost, then the deepest level, the least left over, the best
/// score, the first in order. Or `any` that holds the gang, for who asks no more than whether there is one.
[[nodiscard]] std::optional<Best> best_domain(const Tree& tree, Finder& finder, std::span<const std::int64_t> weights,
                                              Domain within, Level level, bool any = false);

}  // namespace qm::placement::gang
