#include "trace.hpp"

#include "qm/base/log.hpp"

#include <algorithm>

namespace qm::service {

namespace {

/// "a/b/c" -> "a/b" -> "a" -> "".
std::string_view above(std::string_view key) {
  const auto slash = key.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
}

/// "promise/a/b" -> "a/b" -> "b" -> "".
std::string_view without_prefix(std::string_view key) {
  const auto slash = key.find('/');
  return slash == std::string_view::npos ? std::string_view() : key.substr(slash + 1);
}

/// The first trace remains: of two inputs about one key either is right.
void note(std::map<std::string_view, std::string_view>& to, std::string_view key, std::string_view trace) {
  auto& slot = to[key];
  if (slot.empty()) slot = trace;
}

}  // namespace

Traces::Traces(std::span<const Input> inputs) {
  for (const auto& in : inputs) {
    if (in.trace_parent.empty()) continue;
    const auto id = log::trace_id(in.trace_parent);
    if (std::ranges::find(ids_, id) == ids_.end()) ids_.push_back(id);
  }
  if (ids_.empty()) return;  // the usual batch
  for (const auto& in : inputs) {
    if (in.key.empty()) continue;
    note(exact_, in.key, in.trace_parent);
    for (auto key = above(in.key); !key.empty(); key = above(key)) note(below_, key, in.trace_parent);
  }
}

std::string_view Traces::of(std::string_view key) const {
  if (ids_.empty()) return {};
  for (auto object = key; !object.empty(); object = without_prefix(object)) {
    for (auto up = object; !up.empty(); up = above(up)) {
      if (const auto found = exact_.find(up); found != exact_.end()) return found->second;
    }
  }
  const auto found = below_.find(key);
  return found != below_.end() ? found->second : std::string_view();
}

}  // namespace qm::service
