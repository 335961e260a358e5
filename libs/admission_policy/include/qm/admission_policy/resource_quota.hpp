#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/quantity.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::admission_policy {

struct Finding;

/// A ResourceQuota, as the API server enforces it on pods.
///
/// The API server refuses pods one by one, so the controller of a Job notices only missing pods. This check reports it
/// earlier: in `qmctl admit`, and as a warning of the admission webhook about pods that no quota counts.
///
/// Units    as Kubernetes writes them.
/// Threads  any; a value.
/// Fails    read: kInvalid names the field.
/// Source   kube-apiserver's quota evaluator for pods; persistent volume claims and other objects are not checked.
struct ResourceQuota {
  struct Scope {
    std::string name, op;  ///< "PriorityClass", "In"
    std::vector<std::string> values;
    friend bool operator==(const Scope&, const Scope&) = default;
  };
  std::string ns, name;
  std::map<std::string, Quantity> hard, used;
  std::vector<Scope> scopes;  ///< all must hold
  static Result<ResourceQuota> read(const Json& object);
  /// Whether pods of this kind count against the quota. A pod without priority class is in no set: NotIn matches
  /// it, as in the API server.
  [[nodiscard]] bool counts(const Json& pod_spec) const;
  friend bool operator==(const ResourceQuota&, const ResourceQuota&) = default;
};

/// What a pod counts, by the names that quotas use: "pods", "cpu" and "requests.cpu", "limits.nvidia.com/gpu", ...
[[nodiscard]] std::map<std::string, Quantity> charge_of(const Json& pod_spec);

/// What the API server would report for `pods` more pods: quotas that would be exceeded, and amounts that a quota
/// counts and the pod omits.
[[nodiscard]] std::vector<Finding> beyond_quota(const std::vector<ResourceQuota>& quotas, const Json& pod_spec,
                                                std::int64_t pods = 1);

/// GPU resources of the pod that quotas of the namespace limit, but only for priority classes that this pod does
/// not have.
[[nodiscard]] std::vector<Finding> past_quota(const std::vector<ResourceQuota>& quotas, const Json& pod_spec);

}  // namespace qm::admission_policy
