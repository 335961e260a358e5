#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string_view>
#include <vector>

namespace qm {

/// A named place where a test may kill the process (SIGKILL, no unwinding), to prove that nothing depends on luck.
///
/// Armed by the environment: QM_CRASH_AT="store.before_commit:3" kills at the third passage of that point;
/// "store.before_commit:3:stop" stops the process there (SIGSTOP) until somebody continues it, so that a test can take
/// away what the process talks to at just this point. Several are separated by commas.
///
/// Unarmed, a passage costs one relaxed load. Every name that is linked into the program is in crash_points() before
/// main() begins, passed or not, so that a test can go through all of them and none is forgotten.
///
///   QM_CRASH_POINT("store.after_commit");
void pass_crash_point(std::string_view name);
extern std::atomic<bool> crash_points_armed;

/// All names that the program contains, sorted.
[[nodiscard]] std::vector<std::string_view> crash_points();

/// Arms a point from inside the process; `action` replaces the kill where it is given (in-process tests).
void arm_crash_point(std::string_view name, int passage, void (*action)(std::string_view name) = nullptr);
void disarm_crash_points();

struct CrashPointRegistration {
  explicit CrashPointRegistration(std::string_view name);
};

/// The name of a point as a template argument: each name has one registration in the program, made at its start.
template <std::size_t N>
struct CrashPointName {
  char text[N]{};
  consteval CrashPointName(const char (&name)[N]) { std::copy_n(name, N, text); }  // a literal is meant
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
