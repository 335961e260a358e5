#pragma once
#include "qm/cloud/credentials.hpp"

#include <functional>
#include <string>

namespace qm::cloud {

struct CredentialSource {
  std::string name;
  std::function<Result<Keys>()> fetch;
};

/// The first configured source. `options.outside` is complete. A wrong configuration is the error of its fetch.
[[nodiscard]] CredentialSource choose_source(const CredentialOptions& options);

/// Whether the URL may receive a container's authorization token: https, or plain HTTP to a loopback address, the ECS
/// agent or the EKS Pod Identity agent.
[[nodiscard]] bool allowed_for_container(const std::string& url);

}  // namespace qm::cloud
