#pragma once
#include "test/engine/script.hpp"

#include <string>

namespace qm::placement::testing {

/// Additional words of a table: `H100` is a node's model, `cut=LAYOUT/STATE` its two labels,
/// `sevens=N` the instances that it advertises instead of GPUs, and `off` a cordon by Quartermaster.
inline std::string spelled(std::string table) {
  const auto replace = [&](const std::string& word, const std::string& by) {
    for (std::size_t at = 0; (at = table.find(word, at)) != std::string::npos; at += by.size()) {
      table.replace(at, word.size(), by);
    }
  };
  replace(" H100 ", " model=NVIDIA-H100-80GB-HBM3 ");
  replace(" H100\n", " model=NVIDIA-H100-80GB-HBM3\n");
  replace(" sevens=", " allocatable=0 ext=");
  replace(" off", " ours cause=layout");
  for (std::size_t at = 0; (at = table.find(" cut=", at)) != std::string::npos;) {
    const auto slash = table.find('/', at), end = table.find_first_of(" \n", at + 1);
    const std::string layout = table.substr(at + 5, slash - at - 5), state = table.substr(slash + 1, end - slash - 1);
    table.replace(at, end - at,
                  " label=nvidia.com/mig.config=" + layout +
                      (state.empty() ? "" : " label=nvidia.com/mig.config.state=" + state));
  }
  return table;
}

}  // namespace qm::placement::testing
