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
class Question {
 public:
  explicit Question(Scene& scene) : scene_(scene) {}
  virtual ~Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  virtual void lift(GangId gang) { scene_.lift(gang); }
  virtual void put_back(GangId gang) { scene_.put_back(gang); }
  [[nodiscard]] virtual bool fits() = 0;
  /// True if each node counts by itself, so that the sum of slots() over all nodes decides whether the gang fits.
  [[nodiscard]] virtual bool additive() const = 0;
  /// Pods of the pending gang that fit on the node as it is now. If nodes do not count by
  /// themselves: a measure of the node's free capacity.
  [[nodiscard]] virtual std::int32_t slots(NodeId node) const = 0;
  /// The cost of one check, in hypothetical evictions.
  [[nodiscard]] virtual std::int64_t price() const = 0;
  [[nodiscard]] Scene& scene() { return scene_; }

 protected:
  Scene& scene_;
};

/// One set of pods that each count by themselves: free capacity is a sum over the nodes of the domain.
class Counting final : public Question {
 public:
  Counting(Scene& scene, const gang::Kind& kind, std::int32_t count, Domain domain);
  void lift(GangId gang) override;
  void put_back(GangId gang) override;
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
  std::vector<std::int32_t> takes_;  // by node, of the domain
};

/// Any gang: the check searches the fleet.
class Asking final : public Question {
 public:
  Asking(Scene& scene, gang::Request least) : Question(scene), least_(std::move(least)) {}
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
[[nodiscard]] gang::Request least_of(const gang::Request& request);

struct Chosen {
  std::vector<Victim> victims;  ///< sorted by gang
  MicroUsd cost = 0;
  bool exact = false;
};

/// Returns the cheapest victims whose eviction makes the pending gang fit, such that none of them
/// could stay; nothing if evicting all candidates is not enough. `victims` are the candidates: before
/// the call and after it, their evictions are applied, and those of no other gang.
///
/// `effort` is counted down. Below zero, only the work needed for a result is done.
[[nodiscard]] std::optional<Chosen> cover(Question& question, std::span<const Victim> victims, std::int64_t& effort);

}  // namespace qm::placement::plan
