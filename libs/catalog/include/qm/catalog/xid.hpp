#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

/// NVIDIA's XIDs: the meaning of each code, and the action that it requires. This is the only XID table: node
/// verdicts and device health both use it.
///
/// Threads  any; the tables are constant.
namespace qm::catalog::xid {

enum class Severity { kInfo, kWarning, kCritical, kFatal };
/// The required action, in ascending order of severity. A GPU that needs a reset accepts no new work, and neither
/// does its node until the reset: both lead to a cordon.
enum class Action { kNone, kWatch, kResetGpu, kCordon };
/// The detail that determines the action where the code alone does not.
enum class DecidedBy {
  kCode,
  kRecoveryAction,  ///< 154: the action that the driver currently requires, including none
  kNvlinkFault,     ///< 144 to 150, NVLink 5: fatal or nonfatal
};

struct Xid {
  std::int32_t code;
  std::string_view name;
  Severity severity;
  Action action;  ///< also the action where the details are not known
  DecidedBy decided_by = DecidedBy::kCode;
};
/// Null for codes that NVIDIA marks unused: their action is kWatch.
const Xid* find(std::int32_t code);

/// The known details of one XID in addition to its code.
struct Details {
  std::optional<bool> fatal;                    ///< as in an NVLink 5 line
  std::optional<std::int32_t> recovery_action;  ///< of the GPU, as the driver reports it: DCGM's field 1523
  friend auto operator<=>(const Details&, const Details&) = default;
};
/// Parses the details in the kernel's log line of the code, "NVRM: Xid (PCI:0000:04:00): 145, RLW_CTRL Nonfatal XC0
/// i0 Link 00 (0x3 ...)" or "... 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)". Unset
/// where the line has neither.
[[nodiscard]] Details details_in(std::int32_t code, std::string_view line);

/// The action for a recovery action of the driver: 0 requires none; an unknown value counts as the most severe.
[[nodiscard]] Action action_for_recovery(std::int32_t recovery_action);

/// The action for an XID. If the code depends on details, the most severe known one; if no detail is known, the
/// code's own action. Fatal, or not known to be nonfatal, is a reset; nonfatal is kWatch. An unknown code is kWatch.
[[nodiscard]] Action action_for(std::int32_t code, const Details& details);

/// Whether the action for the code depends on the driver's recovery action.
[[nodiscard]] inline bool recovery_decides(std::int32_t code) {
  const Xid* known = find(code);
  return known != nullptr && known->decided_by != DecidedBy::kCode;
}

/// Whether the GPU is unusable after this XID until the GPU is reset or its node reboots.
[[nodiscard]] inline bool breaks_gpu(std::int32_t code, const Details& details) {
  return action_for(code, details) >= Action::kResetGpu;
}

}  // namespace qm::catalog::xid
