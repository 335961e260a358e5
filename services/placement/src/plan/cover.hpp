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

/// Whether a wish has a place inside one domain, asked again and again as gangs are lifted and put back.
class Question {
 public:
  explicit Question(Scene& scene) : scene_(scene) {}
  virtual ~Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  virtual void lift(GangId gang) { scene_.lift(gang); }
  virtual void put_back(GangId gang) { scene_.put_back(gang); }
  [[nodiscard]] virtual bool fits() = 0;
  /// Whether each node counts for itself, so that slots() of all nodes say whether it fits.
  [[nodiscard]] virtual bool additive() const = 0;
  /// Pods of the wish that the node takes as it is; a measure of the room there where nodes do not count for themselves.
  [[nodiscard]] virtual std::int32_t slots(NodeId node) const = 0;
  /// What one question costs, in lifts.
  [[nodiscard]] virtual std::int64_t price() const = 0;
  [[nodiscard]] Scene& scene() { return scene_; }

 protected:
  Scene& scene_;
};

/// One set of pods that each count for themselves: room is a sum over the nodes of the domain.
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

/// Any gang: the fleet is asked.
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

/// Of one kind, with no rule that ties nodes together: then room is a sum.
[[nodiscard]] std::optional<gang::Kind> counted_kind(const gang::Request& request, const gang::Tree& tree);
/// The request with elastic sets at their least.
[[nodiscard]] gang::Request least_of(const gang::Request& request);

struct Chosen {
  std::vector<Victim> victims;  ///< by gang
  MicroUsd cost = 0;
  bool exact = false;
};

/// The cheapest gangs to lift so that the wish fits, such that none of them could stay; none where all of them do not suffice.
/// All are lifted before and after, but for those that are not among the victims.
///
/// Effort is counted down, and below zero only what is needed for an answer is done.
[[nodiscard]] std::optional<Chosen> cover(Question& question, std::span<const Victim> victims, std::int64_t& effort);

}  // namespace qm::placement::plan
