#pragma once
#include "engine/disruption/reservation_table.hpp"
#include "qm/kube_rules/rule_book.hpp"
#include "qm/placement/commands.hpp"
#include "qm/placement/placement_request.hpp"
#include "qm/placement/preference.hpp"
#include "qm/placement/shortlists.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace qm::placement {

using MemberRef = std::pair<AttemptId, std::size_t>;

/// A pod in the rule book.
struct BookedPod {
  std::string rules;
  bool terminating = false;
  friend bool operator==(const BookedPod&, const BookedPod&) = default;
};

/// Lookups by node, workload and time. All of it follows from the tables; Rows keeps it up to date.
struct Lookups {
  std::map<NodeName, std::set<MemberRef>> members;  ///< live members of assignments that hold devices
  std::map<NodeName, std::set<std::string>> pods;   ///< pods bound to the node that have not ended
  /// Our pods by the workload that they name, whether or not it owns them.
  std::map<WorkloadUid, std::set<std::string>> naming;
  std::map<NodeName, Instant> not_ready;                ///< next loss of a member; max() = none
  std::set<std::pair<Instant, AttemptId>> timed;        ///< when a row expires or is deleted
  std::set<NodeName> with_layout_timer;                 ///< with an order that has a timer
  std::set<WorkloadUid> without_placement;              ///< quota without a placement
  std::set<WorkloadUid> below_size;                     ///< placed, with fewer members than requested
  std::map<WorkloadUid, std::int64_t> pods_with_rules;  ///< number of our unbound pods with rules
  std::set<WorkloadUid> affinity_waiters;    ///< of those without a placement: new pods on a node may make them fit
  std::set<WorkloadUid> short_of;            ///< on the demand list
  std::set<WorkloadUid> unplaced;            ///< of those below size: on the demand list with pods that have no node
  std::set<WorkloadUid> pending_with_rules;  ///< of those on the demand list, pending ones with rules about other pods
  std::set<WorkloadUid> requeueable;         ///< on the requeue list
  std::set<WorkloadUid> with_proposal;       ///< with an active proposal
  ReservationTable reservations;             ///< held capacity
  std::map<NodeName, Instant> kept;  ///< nodes kept for the pods that they were launched for, until then; max() = open
  std::map<WorkloadUid, std::set<NodeName>> kept_for;  ///< of these, by workload
  Preference preference;
  friend bool operator==(const Lookups&, const Lookups&) = default;
};

/// The lookups, and what is computed from them and the tables with much work.
struct Index : Lookups {
  /// Free capacity by node: Capacities::capacity_of(), set by Rows::set_capacity(). A query may place pods in it
  /// and reverts them.
  mutable FreeCapacity free_capacity;
  Shortlists lists;  ///< over `free_capacity`
  /// Pods known to the rules. Hypothetical placements add pods and remove them again.
  std::unique_ptr<rules::RuleBook> book = std::make_unique<rules::RuleBook>();
  std::map<NodeName, std::map<std::string, BookedPod>> booked;  ///< pods in the book, by node and key
  std::map<NodeName, std::set<ClaimUse>> claims;                ///< claims of pods on the node
};

/// State of the running step: the input of its phases, in the order in which they use it, and its output.
struct Scratch {
  Instant now{};
  Output out;
  std::size_t command = 0;                                         ///< index of the current command
  std::set<NodeName> nodes;                                        ///< to evaluate
  std::set<AttemptId> attempts;                                    ///< to reconcile
  std::set<WorkloadUid> requested;                                 ///< to place
  std::set<AttemptId> changed;                                     ///< to publish
  std::set<AttemptId> evictions;                                   ///< to publish
  std::set<NodeName> node_changed;                                 ///< to publish
  std::set<NodeName> observed;                                     ///< with a new observation
  std::set<NodeName> uncordoned;                                   ///< manually
  std::set<std::string> named;                                     ///< pods that name a workload; either is new
  std::map<NodeName, std::optional<HealthVerdict>> health_before;  ///< of nodes with a new verdict
  std::set<WorkloadUid> reservation_waiters;                       ///< holders of capacity on changed nodes
  std::set<WorkloadUid> proposals_to_recheck;                      ///< their proposals are to be checked again
  std::set<WorkloadUid> backoff_retries;                           ///< in back-off without capacity, pending again
  bool holds_released = false;                                     ///< held capacity was released
  bool demand = false;                                             ///< to publish
  bool requeue = false;                                            ///< to publish
  bool neighbors = false;            ///< neighbors changed: pending workloads with rules are compared again
  bool capacity_added = false;       ///< capacity was added: short workloads are placed again
  bool freed = false;                ///< the same, since the last decisions
  bool constraints_changed = false;  ///< neighbors changed: short workloads with rules are placed again
};

}  // namespace qm::placement
