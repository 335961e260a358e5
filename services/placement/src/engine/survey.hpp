#pragma once
#include "qm/placement/obstacles.hpp"
#include "qm/placement/rules/pod_rules.hpp"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace qm::placement {

/// What is counted on a node; kOneEach where its pods take nodes or domains one by one.
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

/// A condition that pods put to nodes, and how it can be lifted.
struct Condition {
  std::string words;                   ///< of the demand
  std::string lifted;                  ///< of the change
  std::function<void(Asked&)> lift{};  ///< none: not theirs to lift
  bool moves = false;
  std::string one_by{};
  bool fails = false;  ///< some node does not meet it
  /// Whether it can be in the way at all.
  [[nodiscard]] bool counts() const { return fails || moves || !one_by.empty(); }
};

/// A pod set beside the rooms: every node is seen once, which conditions it fails, as a mask, and how many pods each resource would let it
/// take. All questions after that are sums over nodes: how many pods fit if these conditions are dropped and that resource is not counted.
class Survey {
 public:
  /// All but the demands must outlive it.
  Survey(const Asked& asked, std::size_t position, const Rooms& rooms, const Demands& demands);

  [[nodiscard]] std::size_t nodes() const { return nodes_.size(); }
  [[nodiscard]] std::size_t position() const { return position_; }
  [[nodiscard]] const PodSet& set() const { return set_; }
  [[nodiscard]] const std::vector<Condition>& conditions() const { return conditions_; }
  [[nodiscard]] bool asks(unsigned resource) const { return (asked_ & resource) != 0; }
  /// Whether the gang's own pods change where the next may go, beside these conditions.
  [[nodiscard]] bool moves(Conditions dropped) const;
  /// Whether soft rules tell nodes apart.
  [[nodiscard]] bool weighs() const { return weighs_; }
  /// Pods that fit on nodes that fail none but the dropped conditions, by the resources that are counted. Never fewer than fit.
  [[nodiscard]] std::int64_t pods(Conditions dropped, unsigned counted) const;
  /// The largest amount, below what is asked, with which all pods fit; 0 where none does.
  [[nodiscard]] std::int64_t largest(unsigned resource) const;
  /// The rooms without these conditions and resources, as far as they have room for pods of the shape: as many as take so many pods, or
  /// some where no number is given.
  [[nodiscard]] Rooms rooms(Conditions dropped, unsigned uncounted, const PodShape& shape,
                            std::optional<std::int64_t> enough) const;
  /// The room without those of these conditions and resources that are not the gang's.
  [[nodiscard]] Room without(const Room& room, Conditions dropped, unsigned uncounted) const;

 private:
  static constexpr std::size_t kCounts = 7;
  struct Seen {
    const NodeName* name = nullptr;
    const Room* room = nullptr;
    Conditions failed = 0;
    std::array<std::int64_t, kCounts> by{};  // pods by each resource, in their order
  };
  using Sums = std::array<std::int64_t, kAll + 1>;  // by the resources that are counted
  using Buckets = std::map<Conditions, Sums>;
  /// Nodes of one value of a label take one pod together, as long as the condition stands.
  struct Domains {
    Conditions condition = 0;
    using Kind = std::pair<Conditions, unsigned>;  // what nodes fail, and of which resources they have none for a pod
    std::map<std::vector<Kind>, std::int64_t> values;  // how many have nodes of just these kinds
    Buckets elsewhere;                                 // nodes without the label
  };

  /// The bit of the condition of that key; `make` is asked for it where it is new.
  template <class Make>
  Conditions add(const std::string& key, Make&& make);
  [[nodiscard]] Conditions untolerated_by(const Taint& taint);
  [[nodiscard]] Conditions not_of_model(const std::string& model);
  void look(const NodeName& name, const Room& room);
  void fill_buckets();
  [[nodiscard]] static std::int64_t sum_of(const Buckets& buckets, Conditions dropped, unsigned counted);
  [[nodiscard]] static std::int64_t pods_on(const Seen& seen, unsigned counted);
  [[nodiscard]] std::int64_t pods_of(const Seen& seen, unsigned resource, std::int64_t each) const;

  const PodSet& set_;
  const std::size_t position_;
  const std::map<std::string, std::int64_t> wanted_;
  std::vector<std::string> keys_;
  std::vector<Condition> conditions_;
  std::vector<Seen> nodes_;
  unsigned asked_ = 0;       // resources that are asked for
  Conditions out_ = 0;       // of nodes out of service
  Conditions alone_ = 0;     // of nodes that one gang has for itself
  Conditions one_each_ = 0;  // while one of these stands, a node takes one pod
  bool weighs_ = false;
  std::map<Taint, Conditions> taints_;        // none where they are tolerated
  std::map<std::string, Conditions> models_;  // none where they are asked for
  Buckets buckets_;
  std::vector<Domains> domains_;
};

/// Gives up a word of the rules of the set of that position.
void edit_rules(Asked& asked, std::size_t position, const std::function<void(rules::PodTemplate&)>& edit);

}  // namespace qm::placement
