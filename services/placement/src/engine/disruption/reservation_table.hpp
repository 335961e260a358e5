#pragma once
#include "qm/placement/model.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace qm::placement {

/// The kind of row that holds capacity.
enum class HoldSource : std::uint8_t {
  kProposal,         ///< a preemption, a migration, or the recovery of a gang
  kDefragmentation,  ///< the current step of the defragmentation run
  kRepartition,      ///< a MIG repartition for a pending workload
};
inline constexpr std::size_t kHoldSources = 3;

/// Capacity of one node that is held for one workload.
struct Reservation {
  WorkloadUid holder;                ///< the workload that will use it; empty: only `drains`
  std::vector<HeldCapacity> places;  ///< on the node
  std::set<AttemptId> used_by;       ///< victims that may use a part of it until they leave
  bool drains = false;               ///< no other pods are placed on the node
  Instant until = Instant::max();    ///< end of the hold; max(): it ends with its row
  friend bool operator==(const Reservation&, const Reservation&) = default;
};

/// Which capacity is held for which workload until when, by node and by the row that holds it. It follows from the
/// rows of proposals, repartitions and the defragmentation run.
///
/// Threads  one.
/// Cost     logarithmic in nodes and rows.
class ReservationTable {
 public:
  /// The workload of a proposal or a repartition; empty for the defragmentation run.
  using Row = WorkloadUid;
  using OnNode = std::map<std::pair<HoldSource, Row>, std::vector<Reservation>>;

  /// Sets what the row holds on the node. The node counts as held even if there are no reservations.
  void put(HoldSource source, const Row& row, const NodeName& node, std::vector<Reservation> reservations);
  void erase(HoldSource source, const Row& row, const NodeName& node);
  /// Erases all reservations of the row.
  void erase(HoldSource source, const Row& row);

  /// Proposals first, by workload; then defragmentation, then repartitions.
  [[nodiscard]] const OnNode& on(const NodeName& node) const;
  [[nodiscard]] bool holds(HoldSource source, const NodeName& node) const;
  /// Rows with reservations on the node.
  [[nodiscard]] std::set<Row> rows_on(HoldSource source, const NodeName& node) const;
  /// Nodes on which the row holds capacity.
  [[nodiscard]] const std::set<NodeName>& nodes(HoldSource source, const Row& row = {}) const;
  [[nodiscard]] const std::map<Row, std::set<NodeName>>& rows(HoldSource source) const;

  friend bool operator==(const ReservationTable&, const ReservationTable&) = default;

 private:
  std::map<NodeName, OnNode> by_node_;
  std::array<std::map<Row, std::set<NodeName>>, kHoldSources> by_row_;
};

/// Adds what an active proposal holds.
void put_reservations(ReservationTable& table, const WorkloadUid& uid, const Proposal& row);
/// Replaces what the defragmentation run holds: the nodes and targets of its current step.
void put_reservations(ReservationTable& table, const DefragRun& run);

}  // namespace qm::placement
