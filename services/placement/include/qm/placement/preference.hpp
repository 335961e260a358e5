#pragma once
#include "qm/base/lookup.hpp"
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
/// The demand that it knows are the pods of all workloads that placement knows, waiting, running or just ended. MIG instances and
/// other counted resources do not weigh. One pod for each size of node is added: nobody may be known who wants a whole node.
///
/// What it weighs lags behind what it knows until they are a quarter apart: scores are kept (shortlists.hpp), and each of them depends on all
/// of the mix. The mix that is weighed is a row of the engine's, so an engine that starts again weighs alike.
///
/// Bounds   models behind the 63rd and types of nodes behind the 255th, in the order of their names and sizes, count as one.
/// Threads  one.
/// Cost     weigh(): a fraction of a millisecond where the mix is another, and O(nodes); score(): a fraction of a microsecond.
class Preference {
 public:
  explicit Preference(std::string policy = "quartermaster");  ///< one of pack::policy_names()

  /// Pods of these sets are known from now on (1), or no more (-1).
  void count(const std::vector<PodSet>& pod_sets, int sign);
  /// The node is there, and so made; or it is gone.
  void keep(const NodeName& node, const NodeFacts& facts);
  void drop(const NodeName& node);
  [[nodiscard]] const Mix& known() const { return known_; }
  /// What is known and what is weighed are a quarter apart, or a machine is of a make that is not weighed.
  [[nodiscard]] bool drifted() const;
  void weigh(const Mix& mix);
  /// One that weighs what is known, and knows no node by name.
  [[nodiscard]] Preference anew() const;
  /// Makes ready to score on these nodes, for a question: on all that were kept, or where none was, on any.
  void prepare(const Rooms& rooms);

  /// Of a pod on a node that it fits: larger is better.
  [[nodiscard]] std::int64_t score(const Room& room, const PodShape& shape) const;
  [[nodiscard]] std::int64_t score(const pack::NodeState& state, const PodShape& shape) const;
  /// Takes one pod of the shape off the room, as take() does, but a share from the device that is best for it.
  std::vector<DeviceRef> take(Room& room, const NodeName& node, const PodShape& shape) const;

  /// What the policy knows a node by, and the policy itself; both as weighed.
  [[nodiscard]] pack::NodeState state_of(const Room& room) const;
  [[nodiscard]] const pack::Policy& policy() const { return *policy_; }
  /// Another number, other scores.
  [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

  friend bool operator==(const Preference& a, const Preference& b) {
    return a.known_ == b.known_ && a.machine_of_ == b.machine_of_;
  }

 private:
  [[nodiscard]] pack::PodClass class_of(const PodSize& size) const;
  [[nodiscard]] pack::NodeState empty(const Machine& machine) const;

  std::string name_;
  Mix known_, weighed_;
  std::map<NodeName, Machine> machine_of_;
  std::map<std::string, std::uint8_t> model_number_;
  struct Alike {  // finds a machine by what facts say of it, without making one
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return std::tie(a.model, a.cpu_milli, a.memory_bytes, a.gpus) <
             std::tie(b.model, b.cpu_milli, b.memory_bytes, b.gpus);
    }
  };
  std::map<Machine, std::uint8_t, Alike> type_number_;
  std::shared_ptr<const pack::Policy> policy_;
  std::uint64_t epoch_ = 0;
};

/// What Preference::score() says of pods of one shape, each state of nodes asked for once. The shape and the preference outlive it.
class Scores {
 public:
  Scores(const Preference& preference, const PodShape& shape) : preference_(preference), shape_(shape) {}
  [[nodiscard]] std::int64_t of(const Room& room);

 private:
  const Preference& preference_;
  const PodShape& shape_;
  Lookup<pack::NodeState, std::int64_t, pack::StateHash> known_;
};

}  // namespace qm::placement
