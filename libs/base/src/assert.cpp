#include "qm/base/assert.hpp"

#include <execinfo.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace qm {
namespace {
std::atomic<void (*)(std::string_view)> hook{nullptr};
}

void set_assertion_hook(void (*new_hook)(std::string_view)) { hook = new_hook; }

void assertion_failed(std::string_view condition, std::string_view file, int line, std::string_view text) {
  const std::string message =
      fmt::format("broken law at {}:{}: {} {}{}\n", file, line, condition, text.empty() ? "" : "- ", text);
  std::fwrite(message.data(), 1, message.size(), stderr);
  void* frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
  // The hook is cleared first, so that an assertion inside the hook does not recurse.
  if (auto* fn = hook.exchange(nullptr)) fn(message);
  std::abort();
}

}  // namespace qm
