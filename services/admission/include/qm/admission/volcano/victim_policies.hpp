#pragma once
#include "qm/admission/volcano/resources.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::volcano {

/// How a queue (`preemptionPolicy`) chooses victims among its running jobs.
///
/// kFifo      last started first: the remaining jobs are those that first-in-first-out would have admitted.
/// kPriority  lowest priority first, then last started.
/// kBestFit   as few jobs as possible; among these sets the one with the least surplus.
enum class VictimPolicy : std::uint8_t { kFifo, kPriority, kBestFit };
/// The values FIFO, priority and bestFit, in any case.
[[nodiscard]] std::optional<VictimPolicy> policy_of(std::string_view word);

/// A job, or a part of one, that could be evicted.
struct Candidate {
  std::string name;
  std::int32_t priority = 0;
  std::int64_t since = 0;  ///< when it started
  Resources frees;
};

struct Victims {
  std::vector<std::size_t> chosen;  ///< indexes into the list of candidates, in the order of the policy
  bool enough = false;              ///< otherwise `chosen` is empty: no eviction without effect
  bool proven = true;               ///< bestFit: the search finished within its bound
};

/// Chooses victims.
///
/// fifo and priority choose one after the other until the need is met. Then they spare, from the last chosen back, each
/// victim that turns out to be unnecessary. bestFit searches all sets of 1, 2, 3 ... jobs. The surplus of a set is its
/// largest over the needed resources, (freed - need) / need. Among equal sets the order of the policy decides: lowest
/// priority, then last started.
///
/// Order    ties: priority, then later start, then greater name; never the position in the list.
/// Law      the need is met or there are no victims; no victim could be spared; with bestFit no smaller set, and no
///          set of equal size with less surplus, meets the need.
/// Cost     fifo, priority: O(n log n). bestFit: exponential at worst; pruned by sums of the largest and by equal
///          candidates. After `steps` visits of a candidate the search ends with the best set so far, or, if there
///          is none, with the largest first.
/// Threads  any.
/// Source   rows S-108 and S-109 of the coverage table; Volcano evicts in the order of its priority plugin (as
///          kPriority).
[[nodiscard]] Victims choose(VictimPolicy policy, std::span<const Candidate> candidates, const Resources& need,
                             std::int64_t steps = 1'000'000);

}  // namespace qm::admission::volcano
