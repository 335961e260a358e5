#pragma once
#include "qm/autoscaler/commands.hpp"
#include "qm/base/json.hpp"
#include "qm/kube_rules/rule_book.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Running nodes and their pods in a cluster without placement: which pending pods fit them, by the rules of
/// kube-scheduler.
///
/// Threads  one at a time.
/// Cost     find_room: one query of the rule book for each pod that fits.
class RunningNodes {
 public:
  void put_node(const Json& node, bool ready);
  void drop_node(const std::string& name);
  /// A pod of any kind that is bound to a node and has not ended.
  void put_pod(const Json& pod);
  void drop_pod(const std::string& uid);
  /// Sets the room of gangs: how many of their pods fit running nodes of one zone. The pods of items with a higher
  /// priority have their places before.
  void find_room(std::vector<DemandUpdated::Item>& items);

 private:
  using Planned = std::vector<std::string>;  ///< uids of pods in the book that do not exist
  void find_room(DemandUpdated::Item& item, Planned& planned);

  kube_rules::RuleBook book_;
  std::map<std::string, std::string> zones_;  ///< by node
};

}  // namespace qm::autoscaler
