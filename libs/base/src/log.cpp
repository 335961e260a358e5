#include "qm/base/log.hpp"

#include "qm/base/json.hpp"
#include "qm/base/time.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

namespace qm::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::kTrace:
      return spdlog::level::trace;
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

std::string_view name_of(Level level) {
  constexpr std::string_view words[] = {"trace", "debug", "info", "warn", "error", "off"};
  return words[static_cast<int>(level)];
}

struct State {
  std::string process = "qm";
  std::atomic<Format> format{Format::kText};
  std::atomic<Level> level{Level::kInfo};
  std::shared_ptr<spdlog::logger> logger =
      std::make_shared<spdlog::logger>("qm", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  State() {
    logger->set_pattern("%v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::trace);
  }
};

State& state() {
  static State instance;
  return instance;
}

// A value with spaces, quotes or control characters is quoted, so that a line splits on spaces.
void append_value(std::string& out, std::string_view value) {
  const bool plain = !value.empty() && value.find_first_of(" \"=\n\t") == std::string_view::npos;
  if (plain) {
    out += value;
  } else {
    append_json_string(out, value);
  }
}

}  // namespace

void init(std::string_view process, Format format, Level level) {
  state().process = process;
  state().format = format;
  state().level = level;
}

void set_level(Level level) { state().level = level; }
Level level() { return state().level; }

Result<Level> parse_level(std::string_view text) {
  for (int i = 0; i <= static_cast<int>(Level::kOff); ++i) {
    if (text == name_of(static_cast<Level>(i))) return static_cast<Level>(i);
  }
  return fail(Error{Code::kInvalid, fmt::format("unknown log level \"{}\"", text), "log-level",
                    "use trace, debug, info, warn, error or off"});
}

std::string_view trace_id(std::string_view trace_parent) {
  // version "-" 32 hex "-" 16 hex "-" flags
  constexpr std::size_t kFrom = 3, kLength = 32;
  const bool known =
      trace_parent.size() > kFrom + kLength && trace_parent[kFrom - 1] == '-' && trace_parent[kFrom + kLength] == '-';
  return known ? trace_parent.substr(kFrom, kLength) : trace_parent;
}

void write(Level level, std::string_view text, Fields fields) {
  auto& s = state();
  if (level < s.level.load(std::memory_order_relaxed)) return;
  const auto now = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const std::string at = to_rfc3339(from_micros(now.time_since_epoch().count() * 1000));
  std::string line;
  if (s.format == Format::kJson) {
    line = fmt::format("{{\"time\":\"{}\",\"level\":\"{}\",\"process\":\"{}\",\"msg\":", at, name_of(level), s.process);
    append_json_string(line, text);
    for (const auto& f : fields) {
      line += ',';
      append_json_string(line, f.key);
      line += ':';
      append_json_string(line, f.value);
    }
    line += '}';
  } else {
    line = fmt::format("{} {:5} {}: {}", at, name_of(level), s.process, text);
    for (const auto& f : fields) {
      line += ' ';
      line += f.key;
      line += '=';
      append_value(line, f.value);
    }
  }
  s.logger->log(to_spdlog(level), line);
}

}  // namespace qm::log
