#pragma once
#include "qm/autoscaler/replicas/keda.hpp"
#include "qm/autoscaler/replicas/spec.hpp"
#include "qm/base/result.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler::replicas {

/// A HorizontalPodAutoscaler or a ScaledObject, read from the JSON of its manifest. Callers of this header see neither
/// JSON nor time zones; the files of time zones are read with the manifest.
///
/// Threads  any; a value. Copies share what was read.
class Scaler {
 public:
  /// As read_hpa(); kInvalid also if the text is not JSON, or two metrics of one source have the same name.
  [[nodiscard]] static Result<Scaler> read_autoscaler(const std::string& manifest);
  /// As read_scaled_object() and read_annotations().
  [[nodiscard]] static Result<Scaler> read_object(const std::string& manifest);

  [[nodiscard]] const HpaSpec* autoscaler() const;   ///< null for a ScaledObject
  [[nodiscard]] const ScaledObject* object() const;  ///< null for an autoscaler
  [[nodiscard]] const ScalingAnnotations& annotations() const;
  [[nodiscard]] Duration polling() const;  ///< pollingInterval of a ScaledObject
  [[nodiscard]] std::int32_t min() const;
  [[nodiscard]] std::int32_t max() const;
  [[nodiscard]] std::optional<std::int32_t> idle() const;
  /// The names of the metrics of a decision, in their order.
  [[nodiscard]] const std::vector<std::string>& metrics() const;
  /// The names of the triggers, in their order.
  [[nodiscard]] std::vector<std::string> triggers() const;
  /// Whether a metric needs the pods of the target: their samples, their requests, or how many are ready.
  [[nodiscard]] bool needs_pods() const;

 private:
  struct Impl;
  explicit Scaler(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace qm::autoscaler::replicas
