#pragma once
#include "qm/admission/watch.hpp"

#include <string>

namespace qm::admission {

/// Whether an external scheduler binds the pods of this namespace that name this scheduler.
[[nodiscard]] bool external_scheduler(const WatchOptions& options, const std::string& ns, const std::string& scheduler);
/// Whether the engine has a workload with this uid that has not finished.
[[nodiscard]] bool engine_follows(service::Host& host, const std::string& uid);

/// Whether the engine has a workload with this uid in a namespace other than `ns`: an annotation there that names it
/// is forged.
[[nodiscard]] bool is_of_other_namespace(service::Host& host, const std::string& uid, const std::string& ns);

}  // namespace qm::admission
