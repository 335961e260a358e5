#pragma once
#include <cstdint>
#include <string_view>

namespace qm::telemetry {

enum class Severity { kInfo, kWarning, kCritical, kFatal };
/// What is to be done, in order of weight. A GPU that needs a reset takes no new work, and neither does its node until
/// somebody resets it: both lead to a cordon.
enum class Action { kNone, kWatch, kResetGpu, kCordon };

struct Xid {
  std::int32_t code;
  std::string_view name;
  Severity severity;
  Action action;
};
/// Null for codes that NVIDIA marks unused: those are watched.
const Xid* find_xid(std::int32_t code);

}  // namespace qm::telemetry
