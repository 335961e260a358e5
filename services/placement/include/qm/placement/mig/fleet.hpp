#pragma once
#include "qm/placement/mig/value.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement::mig {

using GpuId = std::uint32_t;

/// The instances of one GPU. Where its layout is given, it has been cut beforehand (mig-parted, MIG manager): a request
/// takes an instance of its profile that is there and idle. Otherwise instances are made on idle slices when they are asked
/// for and go when they are freed (DRA).
struct Gpu {
  StateId used = StateTable::empty();
  StateId layout = kNoState;  ///< holds `used`; kNoState = made on demand
  friend auto operator<=>(const Gpu&, const Gpu&) = default;
};

/// GPUs of one family, those alike kept together: a choice looks at each kind once, however many there are of it.
///
/// Threads  one writer; no locking.
/// Cost     take and give_back O(log n).
class Fleet {
 public:
  /// The table outlives the fleet.
  explicit Fleet(const StateTable& table) : table_(&table) {}

  [[nodiscard]] const StateTable& table() const { return *table_; }
  /// Numbers go up from 0. Requires that a given layout holds what is used.
  GpuId add(const Gpu& gpu = {});
  [[nodiscard]] std::size_t size() const { return gpus_.size(); }
  [[nodiscard]] const Gpu& gpu(GpuId id) const { return gpus_[id]; }
  /// What the device says is the truth: another layout after it was cut anew, instances that somebody else uses. Requires
  /// that a given layout holds what is used.
  void set(GpuId id, const Gpu& gpu);
  /// Whether an instance there could be given to a request now.
  [[nodiscard]] bool can_take(const Gpu& gpu, SpotId spot) const;
  /// Requires can_take.
  void take(GpuId id, SpotId spot);
  /// Requires that it is in use.
  void give_back(GpuId id, SpotId spot);

  [[nodiscard]] const std::map<Gpu, std::set<GpuId>>& kinds() const { return kinds_; }

 private:
  void check(const Gpu& gpu) const;

  const StateTable* table_;
  std::vector<Gpu> gpus_;
  std::map<Gpu, std::set<GpuId>> kinds_;
};

/// What a request costs the others: the rule by which places are compared.
///
/// Threads  any; policies do not change once made.
class Policy {
 public:
  virtual ~Policy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// What is lost when a GPU's used instances change so; may be negative.
  [[nodiscard]] virtual std::int64_t loss(StateId before, StateId after) const = 0;
};

/// Nothing is lost anywhere, so the first place is as good as any: the lowest GPU, the lowest start.
class FirstFit final : public Policy {
 public:
  [[nodiscard]] std::string_view name() const override { return "first_fit"; }
  [[nodiscard]] std::int64_t loss(StateId, StateId) const override { return 0; }
};

/// What the state loses of its worth.
class LeastLoss final : public Policy {
 public:
  LeastLoss(std::string name, Worth worth) : name_(std::move(name)), worth_(std::move(worth)) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::int64_t loss(StateId before, StateId after) const override {
    return worth_[before] - worth_[after];
  }

 private:
  std::string name_;
  Worth worth_;
};

struct Choice {
  GpuId gpu = 0;
  SpotId spot = 0;
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

/// Where the next instance of the profile goes; none where no GPU can take it.
///
/// Order    least loss; ties go to the lower GPU, then to the lower start.
/// Cost     O(kinds of GPU); placement_mig_bench.
std::optional<Choice> choose(const Fleet& fleet, ProfileId profile, const Policy& policy);

}  // namespace qm::placement::mig
