#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::node_groups {

/// The names of expanders: how Cluster Autoscaler chooses among the node groups that fit pending pods.
inline constexpr std::array<std::string_view, 6> kExpanders{"priority",  "price",       "least-waste",
                                                            "most-pods", "least-nodes", "random"};
/// The chain of "priority,least-waste": each expander breaks the ties of the previous one.
///
/// Fails    kInvalid: an unknown or repeated expander, or one that follows random; `grpc` has no counterpart.
[[nodiscard]] Result<std::vector<std::string>> expanders_of(std::string_view text);

/// "0.5" as 500; nullopt if it is no number of 0 to 1. More than three digits are cut off.
[[nodiscard]] std::optional<std::int64_t> share_of(std::string_view text);
/// The inverse of share_of.
[[nodiscard]] std::string share_text(std::int64_t milli);

/// When nodes may be scaled down, with the defaults of Cluster Autoscaler.
struct ScaleDown {
  bool enabled = true;
  Duration delay_after_add = std::chrono::minutes(10);     ///< nothing is scaled down for this time after a scale-up
  Duration unneeded = std::chrono::minutes(10);            ///< a node is scaled down after this time without need
  Duration unready = std::chrono::minutes(20);             ///< likewise one that is not ready
  std::int64_t utilization_milli = 500;                    ///< a node below it is not needed
  std::int64_t gpu_utilization_milli = 500;                ///< of a node with GPUs, where only GPUs count
  bool skip_system_pods = true;                            ///< nodes with pods of kube-system stay
  bool skip_local_storage = true;                          ///< nodes with pods on emptyDir or hostPath stay
  bool ignore_daemon_sets = false;                         ///< their requests are not utilization
  bool skip_custom_controllers = true;                     ///< nodes with pods of custom controllers stay
  Duration delay_after_delete{0};                          ///< nothing is scaled down for this time after a removal
  Duration delay_after_failure = std::chrono::minutes(3);  ///< likewise after one that failed
  std::int64_t max_empty = 10;                             ///< empty nodes that are removed at once
  std::int64_t max_drains = 1;                             ///< nodes with pods that are drained at once
  std::int64_t max_grace_seconds = 600;                    ///< of a pod on a node that is drained
  friend auto operator<=>(const ScaleDown&, const ScaleDown&) = default;
};

/// "--nodes=MIN:MAX:NAME".
struct NodesFlag {
  std::int64_t min = 0, max = 0;
  std::string name;
  friend auto operator<=>(const NodesFlag&, const NodesFlag&) = default;
};
/// Fails    kInvalid: not three parts, a bound that is no number, min > max, or no name.
[[nodiscard]] Result<NodesFlag> nodes_flag(std::string_view text);

/// The tags of "asg:tag=KEY[=VALUE],..."; an empty value is any value.
///
/// Fails    kInvalid: another form, or a tag without a key.
[[nodiscard]] Result<std::map<std::string, std::string>> discovery_flag(std::string_view text);

/// The configuration of a Cluster Autoscaler by its flags.
struct Flags {
  std::string cloud_provider;
  std::vector<NodesFlag> nodes;
  std::vector<std::string> discovery;  ///< each as given; see discovery_flag
  std::vector<std::string> expanders{"least-waste"};
  bool balance_similar = false;
  ScaleDown scale_down;
  Duration max_provision = std::chrono::minutes(15);
  std::vector<std::string> notes;  ///< flags without an effect here, with the reason
};

/// Reads the flags of a command line, without the program: "--name=value", "--name value", "--boolean".
///
/// Fails    kInvalid names the flag and the nearest known one; nothing is applied partially.
/// Source   Cluster Autoscaler 1.36, FAQ.md, "What are the parameters to CA?"
[[nodiscard]] Result<Flags> read_flags(std::span<const std::string> args);

/// The flags of the container of a Deployment (or another workload object) that runs Cluster Autoscaler.
///
/// Fails    kNotFound: no container has a command or an argument with the program cluster-autoscaler.
[[nodiscard]] Result<std::vector<std::string>> flags_of_workload(const Json& object);

/// The settings of qm-autoscaler with the meaning of the flags, by name; those with their default are omitted.
[[nodiscard]] std::map<std::string, std::string> settings_of(const Flags& flags);

}  // namespace qm::node_groups
