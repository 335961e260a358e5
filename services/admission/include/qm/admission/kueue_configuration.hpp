#pragma once
#include "qm/admission/engine.hpp"

#include <string>
#include <vector>

namespace qm::admission {

/// What admission reads of the Configuration of Kueue's controller (config.kueue.x-k8s.io, v1beta1 and v1beta2):
/// `waitForPodsReady` in full. Its other fields have separate settings here or no meaning, and are listed in `left`.
///
/// Fails  kInvalid names the field; kNotFound the file.
struct KueueConfiguration {
  std::optional<PodsReady> pods_ready;  ///< empty: pod readiness is not awaited
  std::vector<std::string> left;        ///< top-level fields that are not used
};
[[nodiscard]] Result<KueueConfiguration> kueue_configuration_from(const std::string& text, const std::string& source);
[[nodiscard]] Result<KueueConfiguration> read_kueue_configuration(const std::string& path);

}  // namespace qm::admission
