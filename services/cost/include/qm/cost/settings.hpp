#pragma once
#include "qm/base/result.hpp"
#include "qm/cost/engine.hpp"

#include <map>
#include <string>

namespace qm::cost {

/// The settings of the service by `--set NAME=VALUE`.
struct Settings {
  Options engine;      ///< settle=600: seconds after which a slice is posted
  bool alone = false;  ///< observe=cluster: without the rest of the suite, from the nodes and pods of the API server
};

/// Fails    kInvalid with the setting's name: it does not exist, or its value is not valid.
[[nodiscard]] Result<Settings> settings_of(const std::map<std::string, std::string>& given);

}  // namespace qm::cost
