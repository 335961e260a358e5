#pragma once
#include "qm/admission/exact/outcome.hpp"

#include <vector>

namespace qm::admission::exact {

/// A change that, alone, lets a waiting workload in.
struct Unlock {
  enum class Kind : std::uint8_t {
    kQuota,           ///< `more` nominal quota of its queue
    kBorrowingLimit,  ///< `more` that its queue may borrow
    kPriority,        ///< `priority`; `works` give way then
    kVictims,         ///< `works` end
    kFlavor,          ///< nothing of `flavor` refuses it: `refusal`
    kFewerPods,       ///< `count` pods in pod set `set`
  };
  Kind kind = Kind::kQuota;
  std::vector<Amount> more;
  std::int32_t priority = 0;
  std::vector<int> works;
  Refusal refusal{};
  std::size_t set = 0;
  std::int32_t count = 0;
};

/// The smallest change of each kind that lets the workload in at once, each tried on the field, which is as before afterwards.
/// Kinds that cannot help alone are left out; for one that fits there is nothing to change.
///
/// Law      each of them made, nominate() has something for it, or any_fit().
/// Cost     bounded: 64 combinations of flavors, 512 holders, 32 priorities, one search for each.
[[nodiscard]] std::vector<Unlock> unlocks(Field& field, const Work& work);

}  // namespace qm::admission::exact
