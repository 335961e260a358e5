#pragma once
#include "qm/base/result.hpp"
#include "qm/service/shell.hpp"
#include "qm/settings/setting.hpp"

#include <memory>
#include <string>

namespace qm::replay {

/// A service's engine with its codec, in its first state: what its Host steps. `settings` are those of the service
/// that wrote the journal.
///
/// Fails    kInvalid: no service has this name, or a setting is wrong.
[[nodiscard]] Result<std::unique_ptr<service::Shell>> open_shell(const std::string& service,
                                                                 const settings::Values& settings);

}  // namespace qm::replay
