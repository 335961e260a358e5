#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/quantity.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::admission::webhook {

struct Finding;

/// A ResourceQuota, as the API server holds pods against it.
///
/// It refuses pods one by one, so the controller of a Job learns it from pods that never come. Here it is known before: for
/// `qmctl admit`, and as a warning at the door about pods that no quota counts.
///
/// Units    as Kubernetes writes them.
/// Threads  any, as a value.
/// Fails    read: kInvalid names the field.
/// Source   kube-apiserver's quota evaluator for pods; persistent volume claims and other objects are not judged.
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
  /// Whether pods of this kind count against it. A class that is not named is no member of any set: NotIn holds for it, as
  /// for the API server.
  [[nodiscard]] bool counts(const Json& pod_spec) const;
  friend bool operator==(const ResourceQuota&, const ResourceQuota&) = default;
};

/// What a pod costs, by the names that quotas use: "pods", "cpu" and "requests.cpu", "limits.nvidia.com/gpu", ...
[[nodiscard]] std::map<std::string, Quantity> charge_of(const Json& pod_spec);

/// What the API server would say of `pods` more pods: quotas that would be passed, and amounts that a quota counts and
/// the pod does not give.
[[nodiscard]] std::vector<Finding> beyond_quota(const std::vector<ResourceQuota>& quotas, const Json& pod_spec,
                                                std::int64_t pods = 1);

/// GPU resources of the pod that quotas of the namespace limit, but only for priority classes that this pod is none of.
[[nodiscard]] std::vector<Finding> past_quota(const std::vector<ResourceQuota>& quotas, const Json& pod_spec);

}  // namespace qm::admission::webhook
