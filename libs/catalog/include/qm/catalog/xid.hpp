#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

/// NVIDIA's XIDs: what each code means, and what it asks of the node. The one table of the suite: verdicts on nodes and the
/// health of devices are both taken from it.
///
/// Threads  any; tables that never change.
namespace qm::catalog::xid {

enum class Severity { kInfo, kWarning, kCritical, kFatal };
/// What is to be done, in order of weight. A GPU that needs a reset takes no new work, and neither does its node until it is
/// reset: both lead to a cordon.
enum class Action { kNone, kWatch, kResetGpu, kCordon };
/// Where a code alone does not decide, what does.
enum class DecidedBy {
  kCode,
  kRecoveryAction,  ///< 154: the action that the driver asks for from now on, none included
  kNvlinkFault,     ///< 144 to 150, NVLink 5: fatal or nonfatal
};

struct Xid {
  std::int32_t code;
  std::string_view name;
  Severity severity;
  Action action;  ///< where the details are not known, too
  DecidedBy decided_by = DecidedBy::kCode;
};
/// Null for codes that NVIDIA marks unused: those are watched.
const Xid* find(std::int32_t code);

/// What is known of one XID besides its code.
struct Details {
  std::optional<bool> fatal;                    ///< as in an NVLink 5 line
  std::optional<std::int32_t> recovery_action;  ///< of the GPU, as the driver has it: DCGM's field 1523
  friend auto operator<=>(const Details&, const Details&) = default;
};
/// The details in the kernel's line of the code, "NVRM: Xid (PCI:0000:04:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 00 (0x3 ...)"
/// or "... 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)". Unset where the line has neither.
[[nodiscard]] Details details_in(std::int32_t code, std::string_view line);

/// The action for a recovery action of the driver: 0 asks for nothing; a value that is not known counts as the heaviest.
[[nodiscard]] Action action_for_recovery(std::int32_t recovery_action);

/// The action for an XID. Where the code leaves it to details, the heaviest that is known of them; where nothing is known, the
/// code's own. Fatal, or not known to be nonfatal, is a reset; nonfatal is watched. A code that is in no table is watched.
[[nodiscard]] Action action_for(std::int32_t code, const Details& details);

/// Whether the driver's recovery action has a part in the action for the code.
[[nodiscard]] inline bool recovery_decides(std::int32_t code) {
  const Xid* known = find(code);
  return known != nullptr && known->decided_by != DecidedBy::kCode;
}

/// Whether a GPU does no work after it until the GPU is reset or its node reboots.
[[nodiscard]] inline bool breaks_gpu(std::int32_t code, const Details& details) {
  return action_for(code, details) >= Action::kResetGpu;
}

}  // namespace qm::catalog::xid
