#pragma once
#include "qm/placement/mig/table.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace qm::placement::mig {

/// What waits, by ProfileId.
struct Waiting {
  int count = 0;
  std::int64_t weight = 1;  ///< of each; not negative: 1 counts requests, its slices count GPUs
};

/// Requests packed into GPUs at once.
struct Packing {
  std::vector<StateId> states;  ///< of each GPU afterwards; holds what it held
  std::vector<int> placed;      ///< by ProfileId
  std::int64_t weight = 0;      ///< of what was placed
  std::int64_t bound = 0;       ///< no packing has more; equal to weight where the packing is proven best
  [[nodiscard]] bool best() const { return weight == bound; }
};

/// As much weight of what waits as fits into GPUs in these states, without moving what is there.
///
/// Order    GPUs as given; the first packing found of the greatest weight, so the same input packs alike.
/// Threads  any; reads only its arguments.
/// Cost     branch and bound over the combinations of profiles that each GPU can take, until proven or after `steps`
///          combinations tried; up to eight GPUs are proven well before a million.
Packing pack(const StateTable& table, std::span<const StateId> gpus, std::span<const Waiting> waiting,
             std::int64_t steps = 1'000'000);

}  // namespace qm::placement::mig
