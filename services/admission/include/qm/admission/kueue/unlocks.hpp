#pragma once
#include "qm/admission/kueue/outcome.hpp"

#include <vector>

namespace qm::admission::kueue {

/// A single change that admits a pending workload.
struct QuotaRemedy {
  enum class Kind : std::uint8_t {
    kQuota,           ///< `more` nominal quota of its queue
    kBorrowingLimit,  ///< `more` borrowing limit of its queue
    kPriority,        ///< `priority`; `works` are then the victims
    kVictims,         ///< `works` end
    kFlavor,          ///< `flavor` of `refusal` no longer refuses it
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

/// The smallest change of each kind that admits the workload at once. Each is tried on the field, which is unchanged
/// afterwards. Kinds that cannot help alone are omitted; a workload that fits has no changes.
///
/// Law      after each of these changes nominate() or any_fit() has a result.
/// Cost     bounded: 64 combinations of flavors, 512 holders, 32 priorities, one search for each.
[[nodiscard]] std::vector<QuotaRemedy> quota_remedies(QuotaState& field, const Work& work);

}  // namespace qm::admission::kueue
