#pragma once
#include <atomic>
#include <string_view>
#include <vector>

namespace qm {

/// A named place where a test may kill the process (SIGKILL, no unwinding), to prove that nothing depends on luck.
///
/// Armed by the environment: QM_CRASH_AT="store.before_commit:3" kills at the third passage of that point.
/// Unarmed, a passage costs one relaxed load. Every name is listed once, in crash_points(), and a test arms each.
///
///   QM_CRASH_POINT("store.after_commit");
void pass_crash_point(std::string_view name);
extern std::atomic<bool> crash_points_armed;

/// All names that the program contains, sorted; filled by static registration.
[[nodiscard]] std::vector<std::string_view> crash_points();

struct CrashPointRegistration {
  explicit CrashPointRegistration(std::string_view name);
};

/// Arms a point from inside the process; `action` replaces the kill where it is given (in-process tests).
void arm_crash_point(std::string_view name, int passage, void (*action)(std::string_view name) = nullptr);
void disarm_crash_points();

}  // namespace qm

#define QM_CRASH_POINT(name)                                             \
  do {                                                                   \
    static const ::qm::CrashPointRegistration qm_crash_point_reg{name};  \
    if (::qm::crash_points_armed.load(std::memory_order_relaxed))        \
      ::qm::pass_crash_point(name);                                      \
  } while (false)
