#pragma once
#include "qm/kube_rules/pod_rules.hpp"
#include "qm/placement/diagnosis.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace qm::placement {

/// Counted resources of a node; kOneEach if its pods need nodes or domains of their own.
enum Resource : unsigned {
  kCpu = 1,
  kMemory = 2,
  kGpu = 4,
  kOther = 8,
  kPods = 16,
  kAligned = 32,
  kOneEach = 64,
  kAll = 127
};
using Conditions = std::uint32_t;

/// A condition of pods on nodes, and the change that drops it.
struct Condition {
  std::string words;                               ///< text of the condition
  std::string remedy;                              ///< text of the change
  std::function<void(PlacementRequest&)> relax{};  ///< none: the gang cannot drop it
  bool moves = false;
  std::string one_by{};
  bool fails = false;  ///< some node fails it
  /// Whether it can prevent a placement at all.
  [[nodiscard]] bool counts() const { return fails || moves || !one_by.empty(); }
};

/// Evaluates a pod set against all nodes once: the conditions that each node fails, as a mask, and how many
/// pods each resource allows. Later queries are sums over nodes: how many pods fit without these conditions
/// and without counting that resource.
class FeasibilityCounts {
 public:
  /// All but the demands must outlive it.
  FeasibilityCounts(const PlacementRequest& request, std::size_t position, const FreeCapacity& free_capacity,
                    const Demands& demands);

  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] const PodSet& set() const { return set_; }
  [[nodiscard]] const std::vector<Condition>& conditions() const { return conditions_; }
  [[nodiscard]] bool asks(unsigned resource) const { return (asked_ & resource) != 0; }
  /// Whether the gang's own pods change where the next one may go, without these conditions.
  [[nodiscard]] bool moves(Conditions dropped) const;
  /// Whether soft rules give nodes different scores.
  [[nodiscard]] bool weighs() const { return weighs_; }
  /// Upper bound of pods that fit nodes which fail only dropped conditions, by the counted resources.
  [[nodiscard]] std::int64_t pods(Conditions dropped, unsigned counted) const;
  /// The largest amount, below the request, with which all pods fit; 0 if none does.
  [[nodiscard]] std::int64_t largest(unsigned resource) const;
  /// The nodes without these conditions and resources, as far as they fit pods of the shape: enough for so
  /// many pods, or a sample if no number is given.
  [[nodiscard]] FreeCapacity free_capacity(Conditions dropped, unsigned uncounted, const PodShape& shape,
                                           std::optional<std::int64_t> enough) const;
  /// The free capacity without those conditions and resources that do not belong to the gang.
  [[nodiscard]] NodeCapacity without(const NodeCapacity& capacity, Conditions dropped, unsigned uncounted) const;

 private:
  static constexpr std::size_t kCounts = 7;
  struct Observed {
    const NodeName* name = nullptr;
    const NodeCapacity* capacity = nullptr;
    Conditions failed = 0;
    std::array<std::int64_t, kCounts> by{};  // pods by each resource, in the order of Resource
  };
  using Sums = std::array<std::int64_t, kAll + 1>;  // by the mask of counted resources
  using Buckets = std::map<Conditions, Sums>;
  /// Nodes with the same label value together fit one pod while the condition is in force.
  struct Domains {
    Conditions condition = 0;
    using Kind = std::pair<Conditions, unsigned>;      // failed conditions, and resources that do not fit one pod
    std::map<std::vector<Kind>, std::int64_t> values;  // number of values with exactly these kinds of nodes
    Buckets unlabeled;                                 // nodes without the label
  };

  /// The bit of the condition with that key; `make` creates a new one.
  template <class Make>
  Conditions add(const std::string& key, Make&& make);
  [[nodiscard]] Conditions untolerated_by(const Taint& taint);
  [[nodiscard]] Conditions not_of_model(const std::string& model);
  void look(const NodeName& name, const NodeCapacity& capacity);
  void fill_buckets();
  [[nodiscard]] static std::int64_t sum_of(const Buckets& buckets, Conditions dropped, unsigned counted);
  [[nodiscard]] static std::int64_t pods_on(const Observed& seen, unsigned counted);
  [[nodiscard]] std::int64_t pods_of(const Observed& seen, unsigned resource, std::int64_t each) const;

  const PodSet& set_;
  const std::size_t position_;
  const std::map<std::string, std::int64_t> wanted_;
  std::vector<std::string> keys_;
  std::vector<Condition> conditions_;
  std::vector<Observed> nodes_;
  unsigned asked_ = 0;       // requested resources
  Conditions out_ = 0;       // unusable nodes
  Conditions alone_ = 0;     // nodes of an exclusive gang
  Conditions one_each_ = 0;  // while one of these is in force, a node fits one pod
  bool weighs_ = false;
  std::map<Taint, Conditions> taints_;        // empty if tolerated
  std::map<std::string, Conditions> models_;  // empty if requested
  Buckets buckets_;
  std::vector<Domains> domains_;
};

/// Edits the rules of the set at that position.
void edit_rules(PlacementRequest& request, std::size_t position, const std::function<void(rules::PodTemplate&)>& edit);

}  // namespace qm::placement
