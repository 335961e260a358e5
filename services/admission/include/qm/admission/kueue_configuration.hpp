#pragma once
#include "qm/admission/engine.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// What admission takes from the Configuration that Kueue's controller is started with (config.kueue.x-k8s.io, v1beta1 and v1beta2):
/// `waitForPodsReady` as a whole. What stands there beside it has settings of its own here or no meaning, and is named in `left`.
///
/// Fails  kInvalid names the field; kNotFound the file.
struct KueueConfiguration {
  std::optional<PodsReady> pods_ready;  ///< nothing: pods are not waited for
  std::vector<std::string> left;        ///< top-level fields that are not taken
};
[[nodiscard]] Result<KueueConfiguration> kueue_configuration_from(const std::string& text, const std::string& source);
[[nodiscard]] Result<KueueConfiguration> read_kueue_configuration(const std::string& path);

}  // namespace qm::admission
