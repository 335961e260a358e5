#pragma once
#include "qm/admission/kueue/victims.hpp"

#include <functional>
#include <vector>

namespace qm::admission::kueue {

/// Input of a search for less expensive victims.
struct CheapestSearch {
  const QuotaState& field;  ///< with all candidates holding their quota
  const Contest& contest;
  const std::vector<const Work*>& candidates;
  int most = 0;  ///< limit of searches
};

struct Cheapest {
  Plan plan;
  bool proven = false;  ///< no plan of the search, with any candidates spared, loses less
};

/// Finds the plan with the least loss among the plans that a victim search returns when it must spare all other
/// candidates. Loss is GPU-seconds since the last checkpoint, plus the time to reach it again. Each plan is a
/// result of the search, so all rules of the search hold for it. Priority precedes loss: no victim ranks above the
/// highest-ranking victim of the first plan. A plan that the search reaches only by taking and giving back a victim
/// may lose less, and is not searched for.
///
/// Branch and bound over the spared candidates. A plan that loses less than a given one lacks one of its victims.
/// So the cases are: without its first victim; with the first, without its second; and so on. A case is dropped if
/// its lower bound is not below the loss of the best plan so far. The bound is the loss of its required victims,
/// plus the least expensive parts of other candidates for the missing quota. The search starts with a plan from as
/// few of the least expensive candidates as suffice.
///
/// Order    the first case is that of the most expensive victim; ties: the smaller uid. Equal plans: the first found.
/// Law      never loses more than `first`; deterministic for one number of searches.
/// Cost     `most` searches, each O(candidates · cells).
/// Source   the partition: Lawler, A procedure for computing the K best solutions to discrete optimization
///          problems, 1972; the bound: Dantzig, Discrete-variable extremum problems, 1957.
[[nodiscard]] Cheapest cheapest(const CheapestSearch& thrift, Plan first,
                                const std::function<Plan(const Spared&)>& search);

/// The highest effective_priority() of the victims that are not leaving already.
[[nodiscard]] std::int64_t strongest_of(const std::vector<Target>& targets);

/// The loss of a plan; a victim that is leaving already adds no loss.
[[nodiscard]] std::int64_t loss(const Plan& plan, std::int64_t now);

}  // namespace qm::admission::kueue
