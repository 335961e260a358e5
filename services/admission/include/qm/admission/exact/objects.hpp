#pragma once
#include "qm/admission/exact/forest.hpp"
#include "qm/base/json.hpp"
#include "qm/model/resources.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qm::admission::exact {

/// Small numbers for names.
class Names {
 public:
  int of(std::string_view name);
  [[nodiscard]] std::optional<int> find(std::string_view name) const;
  [[nodiscard]] const std::string& operator[](int id) const { return names_.at(static_cast<std::size_t>(id)); }
  [[nodiscard]] int size() const { return static_cast<int>(names_.size()); }

 private:
  std::map<std::string, int, std::less<>> ids_;
  std::vector<std::string> names_;
};

/// A quantity in canonical integers: cpu in thousandths, all else in units, rounded up. What does not fit is kUnlimited.
[[nodiscard]] std::int64_t canonical(std::string_view resource, const Json& quantity);

/// What one pod of this spec asks for: containers together or the largest init container, sidecars with both, and the
/// overhead; limits stand for requests that are not given. Source: Kubernetes, sidecar containers.
[[nodiscard]] std::map<std::string, std::int64_t> pod_requests(const Json& pod_spec);

/// An amount as people write it: cpu from thousandths, memory in binary units.
[[nodiscard]] std::string amount_text(std::string_view resource, std::int64_t amount);

/// Kueue's objects (v1beta1 and v1beta2) as the rules see them, numbered. Quantities that cannot be read count as zero;
/// the reader of manifests refuses them before.
class Objects {
 public:
  Names flavors, resources;
  Forest forest;

  void add_flavor(const Json& object);
  void add_cohort(const Json& object);
  void add_queue(const Json& object);

  /// Pod sets, priority, order; `queue` and `id` are the caller's. Pods that have ended already ask for nothing.
  [[nodiscard]] Work work(const Json& workload);
  [[nodiscard]] std::string to_string(const Why& why) const;
  /// Annotation kueue.x-k8s.io/priority-boost counts (gate PriorityBoost).
  bool priority_boost = false;
  /// Who was evicted because its pods did not become ready queues from then on (requeuingStrategy.timestamp: Eviction).
  bool requeued_by_eviction = true;
  /// Who was displaced by a queue that borrowed queues from then on; only where priority does not order (gate
  /// PrioritySortingWithinCohort off).
  bool requeued_by_reclaim = false;
  /// Annotation kueue.x-k8s.io/workload-allowed-resource-flavors counts (gate ConcurrentAdmission).
  bool allowed_flavors = false;
  /// What an admitted workload uses, in the cells of its tree.
  [[nodiscard]] Amounts usage(const Json& workload, const std::map<std::pair<Flavor, Resource>, Cell>& cells) const;

 private:
  struct FlavorSpec {
    Labels labels;
    std::vector<Taint> taints;
    std::vector<Toleration> tolerations;
  };
  void take(const Json& groups, std::vector<Forest::Offer>& offers, std::vector<QueueRules::Group>* rules);
  [[nodiscard]] std::optional<Refusal> refuses(Flavor flavor, const Json& pod_spec) const;

  std::map<Flavor, FlavorSpec> specs_;
  Names shapes_;
};

}  // namespace qm::admission::exact
