#pragma once
#include "qm/admission/volcano/resources.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::volcano {

/// Which running jobs of a queue give way to a need. A queue names its own (`preemptionPolicy`).
///
/// kFifo      who came last goes first: what is left is what first-in-first-out would have let in.
/// kPriority  the lowest priority goes first, of equals who came last.
/// kBestFit   as few jobs as can be, of these sets the one that frees least beyond the need.
enum class VictimPolicy : std::uint8_t { kFifo, kPriority, kBestFit };
/// The words FIFO, priority and bestFit, in any case.
[[nodiscard]] std::optional<VictimPolicy> policy_of(std::string_view word);

/// A job, or a part of one, that could go.
struct Candidate {
  std::string name;
  std::int32_t priority = 0;
  std::int64_t since = 0;  ///< when it started
  Resources frees;
};

struct Victims {
  std::vector<std::size_t> chosen;  ///< places in the list of candidates, in the order of the policy
  bool enough = false;              ///< else nobody is chosen: nobody goes for nothing
  bool proven = true;               ///< bestFit: the search came to its end within its bound
};

/// Chooses who goes.
///
/// fifo and priority take one after the other until the need is met, and then spare, from the last chosen back, whoever turns
/// out not to be needed. bestFit searches all sets of 1, 2, 3 ... jobs. The surplus of a set is its largest over the
/// resources in need, (freed - need) / need; of equal sets that of the policy's order counts: lowest priority, then last come.
///
/// Order    ties: priority, then later start, then greater name; never the place in the list.
/// Law      the need is met or nobody is chosen; no victim could be spared; with bestFit no set of fewer, and none of as
///          many with less surplus, meets the need.
/// Cost     fifo, priority: O(n log n). bestFit: exponential at worst, cut off by sums of the largest, by equal candidates
///          and after `steps` looks at a candidate, when the best found so far counts, or what the largest first give.
/// Threads  any.
/// Source   rows S-108 and S-109 of the coverage table; Volcano evicts in the order of its priority plugin (as kPriority).
[[nodiscard]] Victims choose(VictimPolicy policy, std::span<const Candidate> candidates, const Resources& need,
                             std::int64_t steps = 1'000'000);

}  // namespace qm::admission::volcano
