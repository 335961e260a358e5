#pragma once
#include "qm/model/resources.hpp"

#include <string>
#include <vector>

namespace qm::fleet {

/// What a node registers with, by its user data.
struct Registration {
  Labels labels;
  std::vector<Taint> taints;
};

/// Reads the kubelet's arguments --node-labels and --register-with-taints anywhere in the text, registerWithTaints of
/// each NodeConfig in a MIME archive (AL2023), and the tables node-labels and node-taints of Bottlerocket's TOML, with
/// one key a line.
[[nodiscard]] Registration registration_of(const std::string& user_data);

}  // namespace qm::fleet
