#pragma once
#include "cluster.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::cli {

enum class Outcome { kPass, kNote, kWarn, kFail };

/// One line of preflight: what was looked for, where, what was found, and what to do about it.
struct Checked {
  std::string id;  ///< DRIVER, DOUBLE_DRIVER, ...; for scripts
  Outcome outcome = Outcome::kPass;
  std::string found, remedy;
};

/// Which components the values of a GPU Operator install switch on, by their key; upstream's defaults where silent.
using OperatorFlags = std::map<std::string, bool>;
[[nodiscard]] OperatorFlags operator_flags(const Json& values);

/// The GPU stack of a cluster: the six components, then what must not be. `flags` are those of an install that is
/// planned or done; null where nothing is known of one.
[[nodiscard]] std::vector<Checked> check_stack(const Cluster& cluster, const OperatorFlags* flags);

/// One node after an install: its labels, the GPUs that it offers, the exporter's pod on it.
[[nodiscard]] std::vector<Checked> check_node(const Cluster& cluster, const std::string& node);

/// What nccl-tests found, by the last average that its output holds: over 300 GB/s is healthy on InfiniBand with H100, under 200 means that it
/// fell back to Ethernet. kInvalid where the output holds none.
[[nodiscard]] Result<Checked> check_nccl(std::string_view output);

[[nodiscard]] bool any_failed(const std::vector<Checked>& checks);

}  // namespace qm::cli
