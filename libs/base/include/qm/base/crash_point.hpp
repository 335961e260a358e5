#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

namespace qm {

/// A named point in the code where a test may kill the process (SIGKILL, no unwinding) to verify crash recovery.
///
/// The environment arms it: QM_CRASH_AT="store.before_commit:3" kills the process when it passes that point for the
/// third time; "store.before_commit:3:stop" stops the process there (SIGSTOP) until the test continues it. So the
/// test can shut down a dependency at exactly this point. Several points are separated by commas.
///
/// Passing an unarmed point costs one relaxed load. All names linked into the program are in crash_points() before
/// main() begins, whether passed or not. So a test can iterate over all of them.
///   QM_CRASH_POINT("store.after_commit");
void pass_crash_point(std::string_view name);
extern std::atomic<bool> crash_points_armed;

/// All crash point names in the program, sorted.
[[nodiscard]] std::vector<std::string_view> crash_points();

/// Arms a point from inside the process; `action` replaces the kill if given (in-process tests).
void arm_crash_point(std::string_view name, int passage, void (*action)(std::string_view name) = nullptr);
void disarm_crash_points();

struct CrashPointRegistration {
  explicit CrashPointRegistration(std::string_view name);
};

/// The name of a crash point as a template argument: each name is registered once, when the program starts.
template <std::size_t N>
struct CrashPointName {
  char text[N]{};
  consteval CrashPointName(const char (&name)[N]) { std::copy_n(name, N, text); }  // implicit, for string literals
  [[nodiscard]] constexpr std::string_view view() const { return {text, N - 1}; }
};

template <CrashPointName Name>
inline const CrashPointRegistration crash_point_registration{Name.view()};

}  // namespace qm

#define QM_CRASH_POINT(name)                                                                    \
  do {                                                                                          \
    (void)&::qm::crash_point_registration<name>;                                                \
    if (::qm::crash_points_armed.load(std::memory_order_relaxed)) ::qm::pass_crash_point(name); \
  } while (false)
