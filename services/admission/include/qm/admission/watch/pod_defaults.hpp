#pragma once
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/config_feed.hpp"
#include "qm/model/quantity.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace qm::admission {

/// The LimitRanges of a namespace combined, by type ("Container", "Pod"): of several for one resource, the tightest
/// bound and the first default. A Container limit without a default has its max as the default limit. The default
/// request is the default limit, or else its min. The API server does the same.
struct Limits {
  using Amounts = std::map<std::string, Quantity>;
  struct Item {
    Amounts max, min, standard, standard_request, most_ratio;
  };
  std::map<std::string, Item> by_type;
};
[[nodiscard]] Limits limits_of(const std::vector<Json>& ranges);

/// Writes into a pod what the API server would: its own defaults of requests and limits, then the defaults of
/// LimitRanges for containers that have none. Changes nothing without limits of type Container.
void add_defaults(Json& pod_spec, const Limits& limits);
/// Why the API server would refuse the pod, in Kueue's words, one text for each container and for the pod. The ratio of
/// limit and request, which Kueue does not check, is in the API server's words.
[[nodiscard]] std::vector<std::string> violations(const Json& pod_spec, const Limits& limits, const std::string& path);

/// Changes the pod templates of a job to what their pods will be, so that quota counts that: defaults of the
/// LimitRanges of the namespace, and the overhead of the RuntimeClass that a template names. Both are read from the API
/// server. Pods already include them. The `scheduling` of RuntimeClasses is stored under kRuntimeClasses for
/// with_runtime_classes(), because templates in the cluster must stay as the author wrote them.
///
/// Threads  any; listeners are called on a thread of the informers.
class PodDefaults {
 public:
  explicit PodDefaults(kube::Client& client);
  void start() { feed_.start(); }
  void stop() { feed_.stop(); }
  [[nodiscard]] bool synced() const { return feed_.synced(); }
  /// Changes the templates. Returns why they would be refused; empty if they would not.
  std::string apply(Json& job, const config::WorkloadKind& kind) const;
  /// `changed` is called after each change. Call before start().
  void listen(std::function<void()> changed) { listeners_.push_back(std::move(changed)); }

 private:
  Status take(const kube::ConfigFeed::Kind& kind, const Json& object);
  void on_deleted(const kube::ConfigFeed::Kind& kind, const kube::ConfigFeed::Key& at);
  void notify() const;

  std::vector<std::function<void()>> listeners_;
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, Json>> ranges_;  ///< namespace -> name -> LimitRange
  std::map<std::string, Json> classes_;                        ///< RuntimeClasses
  kube::ConfigFeed feed_;
};

}  // namespace qm::admission
