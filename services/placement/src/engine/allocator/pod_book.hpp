#pragma once
#include "engine/gangs/pods.hpp"
#include "engine/state.hpp"

#include <map>
#include <set>
#include <string>

namespace qm::placement {

/// Keeps the rule book and the claims of each node up to date with the pods there.
class PodBook {
 public:
  PodBook(State& state, const Pods& pods)
      : tables_(state.tables), index_(state.index), scratch_(state.scratch), pods_(pods) {}

  /// Live members by their pod, or by the rules known when they were placed; and pods without a member.
  [[nodiscard]] std::map<std::string, BookedPod> booked_pods_on(const NodeName& name) const;
  /// Claims of the pods in the rule book, by the names of their own claims if the pods are known.
  [[nodiscard]] std::set<ClaimUse> claims_on(const NodeName& name) const;
  /// Updates the pods of the node in the rule book.
  void book_node(const NodeName& name);

 private:
  Tables& tables_;
  Index& index_;
  Scratch& scratch_;
  const Pods& pods_;
};

}  // namespace qm::placement
