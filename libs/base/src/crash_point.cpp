#include "qm/base/crash_point.hpp"

#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>

namespace qm {

std::atomic<bool> crash_points_armed{false};

namespace {

struct Armed {
  int passage = 1;
  void (*action)(std::string_view) = nullptr;
};

/// Another process detects the stop and continues the process.
void stop_here(std::string_view) { kill(getpid(), SIGSTOP); }

struct Points {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
  std::map<std::string, Armed, std::less<>> armed;

  Points() {
    // "name:3,other,third:1:stop" - read once; a malformed count means the first passage.
    const char* text = std::getenv("QM_CRASH_AT");
    if (text == nullptr) return;
    std::string_view rest = text;
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      std::string_view item = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
      const auto colon = item.find(':');
      const int n = colon == std::string_view::npos ? 1 : std::atoi(std::string(item.substr(colon + 1)).c_str());
      armed[std::string(item.substr(0, colon))] = Armed{n < 1 ? 1 : n, item.ends_with(":stop") ? &stop_here : nullptr};
    }
    crash_points_armed = !armed.empty();
  }
};

Points& points() {
  static Points instance;
  return instance;
}

const bool read_environment_at_start = (points(), true);

}  // namespace

CrashPointRegistration::CrashPointRegistration(std::string_view name) {
  auto& p = points();
  std::lock_guard lock(p.mutex);
  p.names.emplace(name);
}

void pass_crash_point(std::string_view name) {
  auto& p = points();
  void (*action)(std::string_view) = nullptr;
  {
    std::lock_guard lock(p.mutex);
    auto it = p.armed.find(name);
    if (it == p.armed.end() || --it->second.passage > 0) return;
    action = it->second.action;
    p.armed.erase(it);
  }
  if (action != nullptr) {
    action(name);
  } else {
    kill(getpid(), SIGKILL);
  }
}

std::vector<std::string_view> crash_points() {
  auto& p = points();
  std::lock_guard lock(p.mutex);
  return {p.names.begin(), p.names.end()};
}

void arm_crash_point(std::string_view name, int passage, void (*action)(std::string_view)) {
  auto& p = points();
  std::lock_guard lock(p.mutex);
  p.armed[std::string(name)] = Armed{passage, action};
  crash_points_armed = true;
}

void disarm_crash_points() {
  auto& p = points();
  std::lock_guard lock(p.mutex);
  p.armed.clear();
  crash_points_armed = false;
}

}  // namespace qm
