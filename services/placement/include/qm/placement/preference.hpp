#pragma once
#include "qm/placement/pack/policy.hpp"
#include "qm/placement/policy.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace qm::placement {

/// Which of the nodes that can take a pod is best: by one of pack's policies, for the pods that are known and the nodes that
/// there are.
///
/// The mix it weighs are the pods of all workloads that placement knows, waiting, running or just ended. MIG instances and
/// other counted resources do not weigh. One pod for each size of node is added: nobody may be known who wants a whole node.
///
/// Bounds   models behind the 63rd and types of nodes behind the 255th, in the order of their names and sizes, count as one.
/// Threads  one.
/// Cost     prepare(): O(nodes), and a fraction of a millisecond where the mix or the machines have changed; score(): a
///          fraction of a microsecond.
class Preference {
 public:
  explicit Preference(std::string policy = "quartermaster");  ///< one of pack::policy_names()
  Preference(const Preference& other);                        ///< to be prepared anew
  Preference(Preference&&) noexcept;
  Preference& operator=(Preference&&) noexcept;
  ~Preference();

  /// Pods of these sets are known from now on (1), or no more (-1).
  void count(const std::vector<PodSet>& pod_sets, int sign);
  /// Makes ready to score on these nodes.
  void prepare(const Rooms& rooms);
  /// Of a pod on a node that it fits: larger is better.
  [[nodiscard]] std::int64_t score(const Room& room, const PodShape& shape) const;
  /// Takes one pod of the shape off the room, as take() does, but a share from the device that is best for it.
  std::vector<DeviceRef> take(Room& room, const NodeName& node, const PodShape& shape) const;

  /// What the policy knows a node by, and the policy itself; both as prepared.
  [[nodiscard]] pack::NodeState state_of(const Room& room) const;
  [[nodiscard]] const pack::Policy& policy() const { return *policy_; }

  friend bool operator==(const Preference& a, const Preference& b) { return a.asked_ == b.asked_; }

 private:
  /// CPU, devices, milli of each, allowed models.
  using Asked = std::tuple<std::int64_t, std::int32_t, std::int32_t, std::vector<std::string>>;
  /// Model, CPU, memory, devices.
  using Machine = std::tuple<std::string, std::int64_t, std::int64_t, std::int32_t>;

  [[nodiscard]] pack::PodClass class_of(const Asked& asked) const;

  std::string name_;
  std::map<Asked, std::int64_t> asked_;
  bool changed_ = true;                       // the mix, since it was prepared
  std::map<Machine, std::int64_t> machines_;  // as prepared
  std::map<std::string, std::uint8_t> model_number_;
  std::map<Machine, std::uint8_t> type_number_;
  std::unique_ptr<pack::Policy> policy_;
};

}  // namespace qm::placement
