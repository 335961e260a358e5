#pragma once
#include "qm/admission/exact/victims.hpp"

#include <functional>
#include <vector>

namespace qm::admission::exact {

/// What a search for cheaper victims goes over.
struct Thrift {
  const Field& field;  ///< with all candidates in their places
  const Contest& contest;
  const std::vector<const Work*>& candidates;
  int most = 0;  ///< searches
};

struct Cheapest {
  Plan plan;
  bool proven = false;  ///< no answer of the search that spares everybody else loses less
};

/// Of all answers that a search for victims gives when it is told to spare everybody else, the one that loses least: GPU-seconds since the
/// last checkpoint and until it is reached again. Every answer is the search's own, so all its rules hold for it. Priority comes
/// before loss: nobody is taken who is stronger than the strongest of the first answer. An answer that the search comes to only by
/// taking somebody and giving him back may lose less, and is not looked for.
///
/// Branch and bound over whom to spare. An answer that loses less than a given one lacks somebody of it, so the cases are: without its
/// first; with the first, without its second; and so on. A case is dropped when those that it must take, and the cheapest
/// parts of others that make up what is still missing, lose as much as the best answer so far. It begins with the answer that is
/// found among as few of the cheapest candidates as will do.
///
/// Order    the first case is that of the dearest victim; of equal ones, of the smaller uid. Equal plans: the one found first.
/// Law      never loses more than `first`; the same within the same number of searches.
/// Cost     `most` searches, each with O(candidates · cells).
/// Source   the partition: Lawler, A procedure for computing the K best solutions to discrete optimization problems, 1972; the
///          bound: Dantzig, Discrete-variable extremum problems, 1957.
[[nodiscard]] Cheapest cheapest(const Thrift& thrift, Plan first, const std::function<Plan(const Spared&)>& search);

/// The highest standing of those who would be told to go.
[[nodiscard]] std::int64_t strongest_of(const std::vector<Target>& targets);

/// What a plan loses; who is leaving already loses nothing by it.
[[nodiscard]] std::int64_t loss(const Plan& plan, std::int64_t now);

}  // namespace qm::admission::exact
