#pragma once
#include "qm/config/manifest.hpp"

#include <fmt/format.h>

#include <span>
#include <string>
#include <variant>
#include <vector>

namespace qm::config {

/// The objects of one kind in the files at `paths`; kInvalid has file, line, field and remedy.
template <class T>
Result<std::vector<T>> typed_manifests(std::span<const std::string> paths) {
  std::vector<T> out;
  for (const auto& path : paths) {
    const auto loaded = load_path(path);
    for (const auto& d : loaded.diagnostics) {
      if (d.severity == Diagnostic::Severity::kError)
        return fail(Error{Code::kInvalid, d.to_string(), d.field, d.remedy});
    }
    for (const auto& object : loaded.objects) {
      if (const auto* typed = std::get_if<T>(&object.typed)) out.push_back(*typed);
    }
  }
  return out;
}

/// The one object of an API server as its kind; kInvalid names the field.
template <class T>
Result<T> typed_object(const Json& object, std::string_view kind) {
  const auto loaded = load_text(object.dump(), fmt::format("{}/{}", kind, object["metadata"]["name"].string()));
  for (const auto& d : loaded.diagnostics) {
    if (d.severity == Diagnostic::Severity::kError)
      return fail(Error{Code::kInvalid, d.field + ": " + d.message, d.field, d.remedy});
  }
  const auto* read = loaded.objects.empty() ? nullptr : std::get_if<T>(&loaded.objects.front().typed);
  if (read == nullptr) return fail(Code::kInvalid, "it is not a {} of a supported version", kind);
  return *read;
}

}  // namespace qm::config
