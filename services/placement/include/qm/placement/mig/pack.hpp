#pragma once
#include "qm/placement/mig/table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace qm::placement::mig {

/// Pending requests, by ProfileId.
struct Pending {
  int count = 0;
  std::int64_t weight = 1;  ///< of each; not negative: 1 maximizes requests, its slices maximize GPU use
};

/// A packing of requests into GPUs.
struct Packing {
  std::vector<StateId> states;  ///< of each GPU afterwards; contains its existing instances
  std::vector<int> placed;      ///< by ProfileId
  std::int64_t weight = 0;      ///< of what was placed
  std::int64_t bound = 0;       ///< no packing has more; equal to weight if the packing is proven optimal
  [[nodiscard]] bool best() const { return weight == bound; }
};

/// Packs as much weight of the pending requests as possible into GPUs with these states, without moving
/// instances.
///
/// Order    GPUs in the given order; the first packing found of the greatest weight. The same input gives the
///          same packing.
/// Threads  any; reads only its arguments.
/// Cost     branch and bound over the combinations of profiles that fit each GPU, until proven optimal or
///          after `steps` combinations; up to eight GPUs are proven well before a million.
Packing pack(const StateTable& table, std::span<const StateId> gpus, std::span<const Pending> pending,
             std::int64_t steps = 1'000'000);

}  // namespace qm::placement::mig
