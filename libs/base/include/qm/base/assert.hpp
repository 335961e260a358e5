#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace qm {

/// Prints the failed assertion with its values and stack position to stderr, runs the dump hook, and aborts.
[[noreturn]] void assertion_failed(std::string_view condition, std::string_view file, int line, std::string_view text);

/// Sets a hook that is called once, before abort, with the text of the failed assertion; a service dumps its state
/// there.
void set_assertion_hook(void (*hook)(std::string_view text));

}  // namespace qm

/// An invariant, also checked in release builds: `QM_ASSERT(used <= total, "node {} used {} of {}", n, u, t);`
#define QM_ASSERT(condition, ...)                                                            \
  do {                                                                                       \
    if (!(condition)) [[unlikely]]                                                           \
      ::qm::assertion_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
  } while (false)
