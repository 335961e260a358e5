#pragma once
#include "qm/config/manifest.hpp"

#include <span>
#include <string>
#include <variant>
#include <vector>

namespace qm::cost {

/// The documents of one kind in manifest files. Fails: the first error of any document.
template <class Kind>
Result<std::vector<Kind>> typed_from_manifests(std::span<const std::string> paths) {
  std::vector<Kind> out;
  for (const auto& path : paths) {
    const auto loaded = config::load_path(path);
    for (const auto& diagnostic : loaded.diagnostics) {
      if (diagnostic.severity != config::Diagnostic::Severity::kError) continue;
      return fail(Error{Code::kInvalid, diagnostic.to_string(), diagnostic.field, diagnostic.remedy});
    }
    for (const auto& object : loaded.objects) {
      if (const auto* found = std::get_if<Kind>(&object.typed)) out.push_back(*found);
    }
  }
  return out;
}

}  // namespace qm::cost
