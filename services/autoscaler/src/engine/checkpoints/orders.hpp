#pragma once
#include "state.hpp"

#include <string>

namespace qm::autoscaler {

/// Checkpoint orders, their answers, and the newest checkpoint of each workload.
class CheckpointOrders {
 public:
  explicit CheckpointOrders(State& state) : state_(state), tables_(state.tables) {}

  /// Orders a gang to save before `node` is taken from it, and evicts it when it has saved or cannot; once for each
  /// attempt and node. A gang whose workload is not known yet gets its order later, at the latest at the deadline.
  void save_and_evict(const AttemptId& id, const AttemptRow& attempt, const NodeName& node, Instant deadline,
                      const std::string& reason);
  /// Evicts a gang without an order of its own: it has just saved. Once for each attempt and node.
  void evict_saved(const AttemptId& id, const AttemptRow& attempt, const NodeName& node, Instant deadline,
                   const std::string& reason);
  /// Orders a gang to save and continue.
  void save(const AttemptId& id, const AttemptRow& attempt, Instant deadline, const std::string& reason);
  /// Adds the answer of a node.
  void receive(const AckUpdated& c);
  /// Gives orders their outcome, and removes those whose attempt has ended.
  void close();

  /// Whether the attempt saves already, or will not continue: an order has no outcome yet, or it evicts.
  [[nodiscard]] bool has_order(const AttemptId& id) const;
  /// How long the workload needs to save: as observed, as declared, or as assumed.
  [[nodiscard]] Duration save_time(const WorkloadUid& uid) const;

 private:
  /// Whether an order evicts the attempt by then, or for this node.
  [[nodiscard]] bool leaves_by(const AttemptId& id, const NodeName& node, Instant deadline) const;
  Order order_for(const AttemptId& id, const AttemptRow& attempt, Instant deadline, const std::string& reason);
  void send(const std::string& key, Order order);
  void settle(const std::string& key, const checkpoint::Verdict& verdict);
  void keep_newest(const Order& order);
  void evict(const Order& order, bool over);

  State& state_;
  Tables& tables_;
};

}  // namespace qm::autoscaler
