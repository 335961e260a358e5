#pragma once
#include "qm/placement/plan/plan.hpp"

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace qm::placement::plan {

struct Victim {
  GangId gang = 0;
  MicroUsd cost = 0;
};

/// Checks whether the pending gang fits inside one domain. It is called many times while
/// hypothetical evictions are applied and reverted.
class FeasibilityCheck {
 public:
  explicit FeasibilityCheck(ClusterModel& model) : model_(model) {}
  virtual ~FeasibilityCheck() = default;
  FeasibilityCheck(const FeasibilityCheck&) = delete;
  FeasibilityCheck& operator=(const FeasibilityCheck&) = delete;

  virtual void apply_eviction(GangId gang) { model_.apply_eviction(gang); }
  virtual void revert_eviction(GangId gang) { model_.revert_eviction(gang); }
  [[nodiscard]] virtual bool fits() = 0;
  /// True if each node counts by itself, so that the sum of slots() over all nodes decides whether the gang fits.
  [[nodiscard]] virtual bool additive() const = 0;
  /// Pods of the pending gang that fit on the node as it is now. If nodes do not count by
  /// themselves: a measure of the node's free capacity.
  [[nodiscard]] virtual std::int32_t slots(NodeId node) const = 0;
  /// The cost of one check, in hypothetical evictions.
  [[nodiscard]] virtual std::int64_t price() const = 0;
  [[nodiscard]] ClusterModel& model() { return model_; }

 protected:
  ClusterModel& model_;
};

/// One set of pods that each count by themselves: free capacity is a sum over the nodes of the domain.
class CountedCapacity final : public FeasibilityCheck {
 public:
  CountedCapacity(ClusterModel& model, const gang::Kind& kind, std::int32_t count, Domain domain);
  void apply_eviction(GangId gang) override;
  void revert_eviction(GangId gang) override;
  [[nodiscard]] bool fits() override { return sum_ >= count_; }
  [[nodiscard]] bool additive() const override { return true; }
  [[nodiscard]] std::int32_t slots(NodeId node) const override;
  [[nodiscard]] std::int64_t price() const override { return 0; }

 private:
  void recount(GangId gang);
  gang::Kind kind_;
  std::int32_t count_;
  Domain domain_;
  std::int64_t sum_ = 0;
  std::vector<std::int32_t> slots_;  // by node, of the domain
};

/// Any gang: the check searches the fleet.
class FleetQuery final : public FeasibilityCheck {
 public:
  FleetQuery(ClusterModel& model, gang::Request least) : FeasibilityCheck(model), least_(std::move(least)) {}
  [[nodiscard]] bool fits() override;
  [[nodiscard]] bool additive() const override { return false; }
  [[nodiscard]] std::int32_t slots(NodeId node) const override;
  [[nodiscard]] std::int64_t price() const override { return 64; }

 private:
  gang::Request least_;
};

/// The kind of a gang's pods if all are of one kind and no rule ties nodes together: then free capacity is a sum.
[[nodiscard]] std::optional<gang::Kind> counted_kind(const gang::Request& request, const gang::Tree& tree);
/// The request with elastic sets at their minimum count.
[[nodiscard]] gang::Request minimum_of(const gang::Request& request);

struct VictimSet {
  std::vector<Victim> victims;  ///< sorted by gang
  MicroUsd cost = 0;
  bool exact = false;
};

/// Returns the cheapest victims whose eviction makes the pending gang fit, such that none of them
/// could stay; nothing if evicting all candidates is not enough. `victims` are the candidates: before
/// the call and after it, their evictions are applied, and those of no other gang.
///
/// `effort` is counted down. Below zero, only the work needed for a result is done.
[[nodiscard]] std::optional<VictimSet> cover(FeasibilityCheck& check, std::span<const Victim> victims,
                                             std::int64_t& effort);

}  // namespace qm::placement::plan
