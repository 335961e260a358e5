#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace qm::apiserver {

/// The violations of the API server's format rules, with the API server's texts; empty for a valid text.
///
/// Threads  any.
/// Source   k8s.io/apimachinery/pkg/util/validation.
using Faults = std::vector<std::string>;

/// Names of most kinds: at most 253 characters, lower case, with dots.
[[nodiscard]] Faults subdomain_faults(std::string_view name);
/// Names of namespaces and containers: at most 63 characters, lower case, without dots.
[[nodiscard]] Faults label_faults(std::string_view name);
/// Keys of labels and annotations: "team" or "example.com/team".
[[nodiscard]] Faults key_faults(std::string_view key);
/// Values of labels.
[[nodiscard]] Faults value_faults(std::string_view value);

}  // namespace qm::apiserver
