#pragma once
#include "cluster.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::cli {

enum class Outcome { kPass, kNote, kWarn, kFail };

/// One line of preflight: the check, its object, the result, and the remedy.
struct Checked {
  std::string id;  ///< DRIVER, DOUBLE_DRIVER, ...; for scripts
  Outcome outcome = Outcome::kPass;
  std::string found, remedy;
};

/// The components that the values of a GPU Operator install enable, by key; upstream's defaults for missing keys.
using OperatorFlags = std::map<std::string, bool>;
[[nodiscard]] OperatorFlags operator_flags(const Json& values);

/// The GPU stack of a cluster: the six components, then forbidden combinations. `flags` are those of a planned or
/// completed install; null if no install is known.
[[nodiscard]] std::vector<Checked> check_stack(const Cluster& cluster, const OperatorFlags* flags);

/// One node after an install: its labels, its allocatable GPUs, the exporter's pod on it.
[[nodiscard]] std::vector<Checked> check_node(const Cluster& cluster, const std::string& node);

/// Grades the result of nccl-tests by the last average in its output: over 300 GB/s is healthy on InfiniBand with H100,
/// under 200 means a fallback to Ethernet. kInvalid if the output has no average.
[[nodiscard]] Result<Checked> check_nccl(std::string_view output);

[[nodiscard]] bool any_failed(const std::vector<Checked>& checks);

}  // namespace qm::cli
