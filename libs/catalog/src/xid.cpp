// NVIDIA's XID catalog, with severities and actions as in services/telemetry/README.md.
#include "qm/catalog/xid.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace qm::catalog::xid {
namespace {

using enum Action;
using enum Severity;
using enum DecidedBy;

constexpr Xid kXids[] = {
    {8, "ROBUST_CHANNEL_FIFO_ERROR_IDLE_TIMEOUT", kWarning, kWatch},
    {11, "ROBUST_CHANNEL_GR_ERROR_MISSING_HW", kWarning, kWatch},
    {13, "ROBUST_CHANNEL_GR_EXCEPTION", kWarning, kWatch},
    {14, "ROBUST_CHANNEL_FAKE_ERROR", kInfo, kNone},
    {25, "ROBUST_CHANNEL_GR_ILLEGAL_NOTIFY", kWarning, kWatch},
    {31, "ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT", kWarning, kWatch},
    {32, "ROBUST_CHANNEL_PBDMA_ERROR", kWarning, kWatch},
    {37, "ROBUST_CHANNEL_FECS_ERR_UNIMP_FIRMWARE_METHOD", kInfo, kNone},
    {38, "ROBUST_CHANNEL_FECS_ERR_WATCHDOG_TIMEOUT", kWarning, kNone},
    {39, "ROBUST_CHANNEL_CE0_ERROR", kWarning, kWatch},
    {40, "ROBUST_CHANNEL_CE1_ERROR", kWarning, kWatch},
    {41, "ROBUST_CHANNEL_CE2_ERROR", kWarning, kWatch},
    {43, "ROBUST_CHANNEL_RESETCHANNEL_VERIF_ERROR", kInfo, kNone},
    {44, "ROBUST_CHANNEL_GR_FAULT_DURING_CTXSW", kWarning, kNone},
    {45, "ROBUST_CHANNEL_PREEMPTIVE_REMOVAL", kWarning, kNone},
    {46, "ROBUST_CHANNEL_GPU_TIMEOUT_ERROR", kCritical, kResetGpu},
    {48, "ROBUST_CHANNEL_GPU_ECC_DBE", kCritical, kResetGpu},
    {54, "SILENT_RUNNING_PWR_REDUCED_CLOCKING", kCritical, kCordon},
    {60, "ROBUST_CHANNEL_SEC2_ERROR", kWarning, kWatch},
    {62, "PMU_HALT_ERROR", kCritical, kResetGpu},
    {63, "INFOROM_DRAM_RETIREMENT_EVENT", kInfo, kNone},
    {64, "INFOROM_DRAM_RETIREMENT_FAILURE", kCritical, kResetGpu},
    {66, "ROBUST_CHANNEL_FECS_ERR_REG_ACCESS_VIOLATION", kWarning, kNone},
    {67, "ROBUST_CHANNEL_FECS_ERR_VERIF_VIOLATION", kWarning, kNone},
    {68, "ROBUST_CHANNEL_NVDEC0_ERROR", kWarning, kWatch},
    {69, "ROBUST_CHANNEL_GR_CLASS_ERROR", kWarning, kWatch},
    {70, "ROBUST_CHANNEL_CE3_ERROR", kWarning, kWatch},
    {71, "ROBUST_CHANNEL_CE4_ERROR", kWarning, kWatch},
    {72, "ROBUST_CHANNEL_CE5_ERROR", kWarning, kWatch},
    {74, "NVLINK_ERROR", kCritical, kResetGpu},
    {75, "ROBUST_CHANNEL_CE6_ERROR", kWarning, kWatch},
    {76, "ROBUST_CHANNEL_CE7_ERROR", kWarning, kWatch},
    {77, "ROBUST_CHANNEL_CE8_ERROR", kWarning, kWatch},
    {78, "VGPU_START_ERROR", kCritical, kWatch},
    {79, "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS", kFatal, kCordon},
    {80, "PBDMA_PUSHBUFFER_CRC_MISMATCH", kWarning, kWatch},
    {82, "ROBUST_CHANNEL_NVJPG0_ERROR", kWarning, kWatch},
    {83, "ROBUST_CHANNEL_NVDEC1_ERROR", kWarning, kWatch},
    {84, "ROBUST_CHANNEL_NVDEC2_ERROR", kWarning, kWatch},
    {85, "ROBUST_CHANNEL_CE9_ERROR", kWarning, kWatch},
    {86, "ROBUST_CHANNEL_OFA0_ERROR", kWarning, kWatch},
    {88, "ROBUST_CHANNEL_NVDEC3_ERROR", kWarning, kWatch},
    {89, "ROBUST_CHANNEL_NVDEC4_ERROR", kWarning, kWatch},
    {92, "EXCESSIVE_SBE_INTERRUPTS", kWarning, kNone},
    {93, "INFOROM_ERASE_LIMIT_EXCEEDED", kWarning, kNone},
    {94, "ROBUST_CHANNEL_CONTAINED_ERROR", kWarning, kWatch},
    {95, "ROBUST_CHANNEL_UNCONTAINED_ERROR", kCritical, kResetGpu},
    {96, "ROBUST_CHANNEL_NVDEC5_ERROR", kWarning, kWatch},
    {97, "ROBUST_CHANNEL_NVDEC6_ERROR", kWarning, kWatch},
    {98, "ROBUST_CHANNEL_NVDEC7_ERROR", kWarning, kWatch},
    {99, "ROBUST_CHANNEL_NVJPG1_ERROR", kWarning, kWatch},
    {100, "ROBUST_CHANNEL_NVJPG2_ERROR", kWarning, kWatch},
    {101, "ROBUST_CHANNEL_NVJPG3_ERROR", kWarning, kWatch},
    {102, "ROBUST_CHANNEL_NVJPG4_ERROR", kWarning, kWatch},
    {103, "ROBUST_CHANNEL_NVJPG5_ERROR", kWarning, kWatch},
    {104, "ROBUST_CHANNEL_NVJPG6_ERROR", kWarning, kWatch},
    {105, "ROBUST_CHANNEL_NVJPG7_ERROR", kWarning, kWatch},
    {106, "SMBPBI_TEST_MESSAGE", kInfo, kNone},
    {107, "SMBPBI_TEST_MESSAGE_SILENT", kInfo, kNone},
    {108, "NVLINK_REMOTE_TRANSLATION_ERROR", kInfo, kNone},
    {109, "ROBUST_CHANNEL_CTXSW_TIMEOUT_ERROR", kCritical, kResetGpu},
    {110, "SEC_FAULT_ERROR", kCritical, kResetGpu},
    {119, "GSP_RPC_TIMEOUT", kCritical, kResetGpu},
    {120, "GSP_ERROR", kCritical, kResetGpu},
    {121, "C2C_ERROR", kInfo, kNone},
    {126, "ROBUST_CHANNEL_CE10_ERROR", kWarning, kWatch},
    {127, "ROBUST_CHANNEL_CE11_ERROR", kWarning, kWatch},
    {128, "ROBUST_CHANNEL_CE12_ERROR", kWarning, kWatch},
    {129, "ROBUST_CHANNEL_CE13_ERROR", kWarning, kWatch},
    {130, "ROBUST_CHANNEL_CE14_ERROR", kWarning, kWatch},
    {131, "ROBUST_CHANNEL_CE15_ERROR", kWarning, kWatch},
    {132, "ROBUST_CHANNEL_CE16_ERROR", kWarning, kWatch},
    {133, "ROBUST_CHANNEL_CE17_ERROR", kWarning, kWatch},
    {134, "ROBUST_CHANNEL_CE18_ERROR", kWarning, kWatch},
    {135, "ROBUST_CHANNEL_CE19_ERROR", kWarning, kWatch},
    {136, "ALI_TRAINING_FAIL", kCritical, kResetGpu},
    {137, "NVLINK_PRIV_ERR", kInfo, kNone},
    {139, "ROBUST_CHANNEL_OFA1_ERROR", kWarning, kWatch},
    {140, "UNRECOVERABLE_ECC_ERROR_ESCAPE", kCritical, kResetGpu},
    {141, "ROBUST_CHANNEL_FAST_PATH_ERROR", kInfo, kNone},
    {142, "ROBUST_CHANNEL_NVENC3_ERROR", kCritical, kWatch},
    {143, "GPU_INIT_ERROR", kCritical, kResetGpu},
    {144, "NVLINK_SAW_ERROR", kCritical, kResetGpu, kNvlinkFault},
    {145, "NVLINK_RLW_ERROR", kCritical, kResetGpu, kNvlinkFault},
    {146, "NVLINK_TLW_ERROR", kCritical, kResetGpu, kNvlinkFault},
    {147, "NVLINK_TREX_ERROR", kCritical, kResetGpu, kNvlinkFault},
    {148, "NVLINK_NVLPW_CTRL_ERROR", kCritical, kResetGpu, kNvlinkFault},
    {149, "NVLINK_NETIR_ERROR", kCritical, kResetGpu, kNvlinkFault},
    {150, "NVLINK_MSE_ERROR", kCritical, kResetGpu, kNvlinkFault},
    {151, "ROBUST_CHANNEL_KEY_ROTATION_ERROR", kFatal, kCordon},
    {152, "ROBUST_CHANNEL_DLA_SMMU_ERROR", kInfo, kNone},
    {153, "ROBUST_CHANNEL_DLA_TIMEOUT", kInfo, kNone},
    {154, "GPU_RECOVERY_ACTION_CHANGED", kCritical, kCordon, kRecoveryAction},
    {155, "NVLINK_SW_DEFINED_ERROR", kCritical, kResetGpu},
    {156, "RESOURCE_RETIREMENT_EVENT", kCritical, kResetGpu},
    {157, "RESOURCE_RETIREMENT_FAILURE", kWarning, kNone},
    {158, "GPU_FATAL_TIMEOUT", kCritical, kResetGpu},
    {159, "ROBUST_CHANNEL_CHI_NON_DATA_ERROR", kWarning, kResetGpu},
    {160, "CHANNEL_RETIREMENT_EVENT", kInfo, kNone},
    {161, "CHANNEL_RETIREMENT_FAILURE", kInfo, kNone},
    {162, "PSHC_REENGAGED", kInfo, kNone},
    {163, "PSHC_DISENGAGED", kWarning, kNone},
    {164, "PSHC_LOW_LIFETIME", kWarning, kNone},
    {165, "PSHC_ZERO_LIFETIME", kWarning, kNone},
    {166, "NVLINK_SECURE_CRYPTO_ERR", kCritical, kResetGpu},
    {167, "PCIE_FATAL_TIMEOUT", kCritical, kResetGpu},
    {168, "REDUCED_GPU_MEMORY_CAPACITY", kWarning, kCordon},
    {169, "SEC2_HALT_ERROR", kCritical, kResetGpu},
    {170, "NVLINK_SECURE_OTHER", kWarning, kWatch},
    {171, "UNCORRECTABLE_DRAM_ERROR", kInfo, kNone},
    {172, "UNCORRECTABLE_SRAM_ERROR", kCritical, kResetGpu},
    {173, "C2C_FATAL_LINK_FAILURE", kCritical, kResetGpu},
};
static_assert(std::ranges::is_sorted(kXids, {}, &Xid::code));

/// The recovery actions of the driver, from 0 on: none, GPU reset, node reboot, drain of peers, drain and reset,
/// recovery of the IMEX domain, bus reset, system reboot.
constexpr Action kRecoveryActions[] = {kNone, kResetGpu, kCordon, kResetGpu, kResetGpu, kCordon, kResetGpu, kCordon};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

/// The number at the start of the text: "0x1 (GPU Reset Required)" or "1".
std::optional<std::int32_t> number_at(std::string_view text) {
  const bool hex = text.starts_with("0x");
  if (hex) text.remove_prefix(2);
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  return error == std::errc() && end != text.data() ? std::optional(value) : std::nullopt;
}

}  // namespace

const Xid* find(std::int32_t code) {
  const auto* at = std::ranges::lower_bound(kXids, code, {}, &Xid::code);
  return at != std::end(kXids) && at->code == code ? at : nullptr;
}

Details details_in(std::int32_t code, std::string_view line) {
  Details out;
  const Xid* known = find(code);
  if (known == nullptr || known->decided_by == kCode) return out;
  const std::string text = lower(line);
  if (known->decided_by == kRecoveryAction) {
    constexpr std::string_view kChanged = "recovery action changed from ", kTo = " to ";
    const auto changed = text.find(kChanged);
    const auto to = changed == std::string::npos ? changed : text.find(kTo, changed + kChanged.size());
    if (to != std::string::npos) out.recovery_action = number_at(std::string_view(text).substr(to + kTo.size()));
  } else if (text.find(" nonfatal ") != std::string::npos || text.find(" non-fatal ") != std::string::npos) {
    out.fatal = false;
  } else if (text.find(" fatal ") != std::string::npos) {
    out.fatal = true;
  }
  return out;
}

Action action_for_recovery(std::int32_t recovery_action) {
  const bool known = recovery_action >= 0 && recovery_action < std::ssize(kRecoveryActions);
  return known ? kRecoveryActions[recovery_action] : kCordon;
}

Action action_for(std::int32_t code, const Details& details) {
  const Xid* known = find(code);
  if (known == nullptr) return kWatch;
  std::optional<Action> decided;
  if (known->decided_by != kCode && details.recovery_action) decided = action_for_recovery(*details.recovery_action);
  if (known->decided_by == kNvlinkFault && (details.fatal || decided))
    decided = std::max({decided.value_or(kWatch), kWatch, details.fatal.value_or(false) ? kResetGpu : kNone});
  return decided.value_or(known->action);
}

}  // namespace qm::catalog::xid
