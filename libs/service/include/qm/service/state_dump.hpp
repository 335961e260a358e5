#pragma once
#include "qm/base/json.hpp"

#include <any>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace qm::service {

/// Collects a state for /debug/state in chunks, each of which reads a bounded number of objects.
///
/// A codec writes its sections in a fixed order at each turn. A section continues after the last key that it read,
/// and is skipped once it is complete. Objects that a batch changes between two turns appear in the state at the time
/// of reading.
///
/// Bounds   `most` objects per turn, and the last of them with all of its parts (see weigh).
/// Threads  one.
class StateDump {
 public:
  explicit StateDump(std::size_t most) : most_(most) {}

  void begin_turn() {
    used_ = 0;
    complete_ = true;
  }
  /// Whether all sections are complete after this turn.
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] std::size_t used() const { return used_; }  ///< objects in this turn

  /// Sets a value that is cheap to read; the last turn determines it.
  void set(std::string_view name, Json value) { part(name).value = std::move(value); }

  /// Sets a value that is read in one turn of the dump: `read` bounds its own work.
  template <class Fn>
  void once(std::string_view name, Fn&& read) {
    Part& p = part(name);
    if (p.whole) return;
    p.whole = used_ < most_;
    complete_ = complete_ && p.whole;
    if (!p.whole) return;
    ++used_;
    p.value = read();
  }

  /// An object with a member for each row: `member(key, row)` returns its name and value. `rows` iterates
  /// over pairs in the order of their keys and has upper_bound(key), as std::map.
  template <class Map, class Fn>
  void map(std::string_view name, const Map& rows, Fn&& member) {
    Part& p = part(name);
    if (!p.value.is_object()) p.value = Json::object();
    walk(p, rows, [&](const auto& key, const auto& row) { p.value.members_mut().push_back(member(key, row)); });
  }
  /// An array with an item for each row for which `item(key, row)` returns one.
  template <class Map, class Fn>
  void list(std::string_view name, const Map& rows, Fn&& item) {
    Part& p = part(name);
    if (!p.value.is_array()) p.value = Json::array();
    walk(p, rows, [&](const auto& key, const auto& row) {
      if (std::optional<Json> one = item(key, row)) p.value.push_back(std::move(*one));
    });
  }
  /// Increments a counter of a section.
  void tally(std::string_view name, std::string_view counter) {
    Json& value = part(name).value.set(counter);
    value = Json(value.integer() + 1);
  }
  /// The current row has this number of parts: they count as objects.
  void weigh(std::size_t parts) { used_ += parts; }

  [[nodiscard]] Json take() {
    Json::Object out;
    for (auto& p : parts_) out.emplace_back(std::move(p.name), std::move(p.value));
    return Json(std::move(out));
  }

 private:
  struct Part {
    std::string name;
    Json value;
    std::any last;  ///< the last read key
    bool whole = false;
  };
  Part& part(std::string_view name) {
    for (auto& p : parts_) {
      if (p.name == name) return p;
    }
    parts_.push_back({std::string(name), {}, {}, false});
    return parts_.back();
  }
  template <class Map, class Fn>
  void walk(Part& p, const Map& rows, Fn&& fn) {
    if (p.whole) return;
    using Key = std::decay_t<decltype(rows.begin()->first)>;
    const auto* last = std::any_cast<Key>(&p.last);
    auto it = last == nullptr ? rows.begin() : rows.upper_bound(*last);
    auto read = rows.end();
    for (; it != rows.end() && used_ < most_; ++it) {
      ++used_;
      fn(it->first, it->second);
      read = it;
    }
    if (read != rows.end()) p.last = read->first;
    p.whole = it == rows.end();
    complete_ = complete_ && p.whole;
  }

  std::size_t most_, used_ = 0;
  bool complete_ = true;
  std::deque<Part> parts_;  ///< references stay valid while a section adds others
};

}  // namespace qm::service
