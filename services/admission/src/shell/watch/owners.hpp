#pragma once
#include "qm/admission/watch.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::admission {

/// Whether an external scheduler binds the pods of this namespace that name this scheduler.
[[nodiscard]] bool external_scheduler(const WatchOptions& options, const std::string& ns, const std::string& scheduler);
/// Whether the engine has a workload with this uid that has not finished.
[[nodiscard]] bool engine_follows(service::Host& host, const std::string& uid);

/// Whether the engine has a workload with this uid in a namespace other than `ns`: an annotation there that names it
/// is forged.
[[nodiscard]] bool is_of_other_namespace(service::Host& host, const std::string& uid, const std::string& ns);

/// Objects by uid in the order in which a watch sends them: each is decided as soon as it is sent, and a list of the
/// API server is ordered by name.
[[nodiscard]] std::vector<const Json*> oldest_first(const std::map<std::string, Json>& objects);

}  // namespace qm::admission
