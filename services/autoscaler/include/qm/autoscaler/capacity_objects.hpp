#pragma once
#include "qm/autoscaler/buffer.hpp"
#include "qm/autoscaler/condition_writer.hpp"
#include "qm/kube/config_feed.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A NodeOverlay object (karpenter.sh/v1alpha1). Fails kInvalid with the field: a requirement that cannot be read, price
/// and priceAdjustment together, or capacity of a resource that is not an extended one.
[[nodiscard]] Result<Overlay> overlay_from(const Json& object);

/// The replicas and the pod template that a CapacityBuffer refers to.
struct BufferSource {
  Json pod_template;
  std::optional<std::int64_t> replicas;  ///< of the scalable object; none = it refers to a PodTemplate
};
/// A CapacityBuffer object (autoscaling.x-k8s.io) with what it refers to.
///
/// Count    the larger one of `replicas` and `percentage` of the scalable object, rounded up; at most what `limits`
///          allow. With limits alone as many as they allow.
/// Fails    kInvalid with the field: neither of the three, percentage without a scalable object, a provisioning strategy
///          other than active capacity, or requests that cannot be read.
[[nodiscard]] Result<Buffer> buffer_from(const Json& object, const BufferSource& source);

/// The NodeOverlays of the API server, and their status.
///
/// Threads  informers of its own; the rest one.
class OverlayWatch {
 public:
  OverlayWatch(kube::Client& client, const DomainClock& clock);
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// Those that apply; nullopt until they were listed. Writes their status.
  [[nodiscard]] std::optional<std::vector<Overlay>> overlays();

 private:
  Status take(const Json& object);
  std::mutex mutex_;
  std::map<std::string, Overlay> seen_;
  std::map<std::string, std::string> refused_;  ///< by name: why
  kube::ConfigFeed feed_;
  ConditionWriter status_;
};

/// The CapacityBuffers of the API server with the templates that they refer to, and their status.
///
/// Cost     one or two reads for each buffer every `period`.
/// Threads  informers of its own; the rest one.
class BufferWatch {
 public:
  BufferWatch(kube::Client& client, const DomainClock& clock, SteadyDuration period = std::chrono::seconds(10));
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// Those that can be read; nullopt until they were listed.
  [[nodiscard]] std::optional<std::vector<Buffer>> buffers();
  /// Writes the status of all: the number of pods, and whether there is capacity for them.
  void write_status(const std::map<std::string, BufferState>& states);

 private:
  [[nodiscard]] Result<BufferSource> source_of(const Json& object);
  void refresh();

  kube::Client& client_;
  const SteadyDuration period_;
  std::mutex mutex_;
  std::map<std::string, Json> objects_;  ///< by "namespace/name"
  bool changed_ = true;
  std::map<std::string, Buffer> read_;
  std::map<std::string, std::string> faults_;  ///< by "namespace/name"
  SteadyInstant due_{};
  kube::ConfigFeed feed_;
  ConditionWriter status_;
};

}  // namespace qm::autoscaler
