#pragma once
#include "fields.hpp"

#include <string>

namespace qm::config {

/// The parsed fields of a pod's spec.
struct PodRead {
  PodShape shape;
  PodSetTopology topology;
  bool node_affinity_is_in_shape = true;  ///< all of it was converted
  std::string priority_class;
  Labels needs;  ///< annotations with the GPU need; see choose_parts
};

/// Parses an annotation of a pod template if it is a topology constraint (Kueue's annotations) or requests exclusive
/// nodes ("quartermaster.dev/exclusive-nodes").
[[nodiscard]] bool read_topology(const Cursor& annotation, std::string_view name, PodSetTopology& out);
/// Writes the annotations that read_topology parses.
void write_topology(const PodSetTopology& topology, Json& annotations);
/// Checks the annotations together for contradictions.
void check_topology(const Cursor& annotations, const PodSetTopology& topology);

/// The scheduling rules of a template or a Pod in addition to its shape, as JSON of its own fields: affinity, spread
/// constraints, host ports and claims, with its labels, because its own and other pods' rules may select them. Empty
/// = no rules, and no labels but those of the Job controller.
[[nodiscard]] std::string rules_of_template(const Json& pod_template, bool node_affinity_is_in_shape);

/// Reports amounts that no node can have and fractions of devices, each at its container.
void check_ranges(const Cursor& pod_spec);
/// Reports further errors of an API server: a request above its limit, and devices with different request and limit.
/// Resource names that are close to a known one are unknown fields.
void check_resources(const Cursor& pod_spec);
/// Reports fields that the Kubernetes API does not have, from an object of this type down ("Job", "PodSpec").
void check_known_fields(const Cursor& at, std::string_view type);

/// Parses a pod's spec; unused fields are carried.
void read_pod(const Cursor& at, PodRead& out);

/// Whether an annotation of a pod specifies a GPU need; then it is stored for choose_parts.
[[nodiscard]] bool read_need(const Cursor& annotation, std::string_view name, PodRead& out);
/// Adds the requests of the needs to the shape, after the template is parsed, annotations and spec in either order.
void choose_parts(const Cursor& pod, PodRead& out);

}  // namespace qm::config
