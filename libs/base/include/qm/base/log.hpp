#pragma once
#include "qm/base/result.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace qm::log {

enum class Level { kTrace, kDebug, kInfo, kWarn, kError, kOff };
enum class Format { kText, kJson };

/// One field of a log line: `log::info("reservation made", {{"uid", uid}, {"nodes", n}});` The message text is
/// constant and the values are fields. So log lines can be counted and searched.
struct Field {
  std::string_view key;
  std::string value;
  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, std::string_view v) : key(k), value(v) {}
  Field(std::string_view k, const char* v) : key(k), value(v) {}
  template <class T>
  Field(std::string_view k, const T& v) : key(k), value(fmt::format("{}", v)) {}
};
using Fields = std::initializer_list<Field>;

/// Sets the process name, format and level; lines go to stderr. Call once, at the start of main.
void init(std::string_view process, Format format = Format::kText, Level level = Level::kInfo);
/// Changes the level of the running process; any thread.
void set_level(Level level);
[[nodiscard]] Level level();
[[nodiscard]] Result<Level> parse_level(std::string_view text);

/// Returns the trace id of a W3C traceparent, for the field "trace_id"; the whole text if it has another form.
[[nodiscard]] std::string_view trace_id(std::string_view trace_parent);

void write(Level level, std::string_view text, Fields fields);
inline void debug(std::string_view text, Fields fields = {}) { write(Level::kDebug, text, fields); }
inline void info(std::string_view text, Fields fields = {}) { write(Level::kInfo, text, fields); }
inline void warn(std::string_view text, Fields fields = {}) { write(Level::kWarn, text, fields); }
inline void error(std::string_view text, Fields fields = {}) { write(Level::kError, text, fields); }

}  // namespace qm::log
