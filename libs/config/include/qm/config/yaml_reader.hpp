#pragma once
#include "qm/config/manifest.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::config {

/// Parses the documents of a YAML text to JSON values with the line of every field; the identity is not set yet.
///
/// Scalars have types as in Kubernetes (YAML 1.1: y, n, yes, no, on, off are booleans, 0644 is octal). Empty
/// documents are omitted; at the first error the rest of the text is not parsed.
struct YamlText {
  std::vector<Document> documents;
  std::vector<Diagnostic> diagnostics;
};
YamlText read_yaml(std::string_view text, const std::string& file);

inline constexpr std::size_t kMaxBytes = 1 << 20;
inline constexpr std::size_t kMaxDepth = 64;
inline constexpr std::size_t kMaxAliases = 50;
inline constexpr std::size_t kMaxNodes = 100'000;

}  // namespace qm::config
