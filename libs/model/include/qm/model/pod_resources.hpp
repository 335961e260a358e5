#pragma once
#include "qm/base/json.hpp"
#include "qm/model/quantity.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm {

/// The resources of a pod by container, and their sums, as the API server and the scheduler compute them.
///
/// Range    set_defaults() rounds each amount up to milli-units, as the API server stores it, and bounds it to 0..2^62
///          units. A sum is bounded to 2^62 units too.
/// Fails    never: read() omits invalid quantities; the typed reader of libs/config reports them.
/// Threads  any, as a value.
/// Cost     linear in the number of containers and resources.
/// Source   Kubernetes 1.36: SetDefaults_Pod and SetDefaults_ResourceList in pkg/apis/core/v1/defaults.go; PodRequests
///          and PodLimits in component-helpers/resource/helpers.go.
struct PodResources {
  using Amounts = std::map<std::string, Quantity>;
  struct Container {
    Amounts requests, limits;
    bool sidecar = false;  ///< an init container with restartPolicy Always
  };
  std::vector<Container> init_containers, containers;
  Amounts requests, limits;  ///< of the pod as a whole (spec.resources)
  Amounts overhead;          ///< of its RuntimeClass

  [[nodiscard]] static Amounts amounts(const Json& resource_list);
  [[nodiscard]] static PodResources read(const Json& pod_spec);

  /// Sets the defaults that the API server sets in a pod, before admission plugins such as LimitRanger run: a
  /// missing request of a container is its limit. If the pod as a whole has limits, its requests of cpu and memory
  /// are the sum over the containers. For resources that no container requests, its requests are its limits. A second
  /// call changes nothing.
  void set_defaults();

  /// The sum over containers and sidecars, or an init container with the sidecars before it, whichever is more.
  /// Requests of the pod as a whole replace the sum of cpu, memory and huge pages. Overhead is added. Call after
  /// set_defaults().
  [[nodiscard]] Amounts total_requests() const;
  /// Likewise of limits; overhead is added only to limits that exist and are not zero.
  [[nodiscard]] Amounts total_limits() const;
};

}  // namespace qm
