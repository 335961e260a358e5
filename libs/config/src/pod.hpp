#pragma once
#include "fields.hpp"

#include <string>

namespace qm::config {

/// What a pod's spec says to us.
struct PodRead {
  PodShape shape;
  PodSetTopology topology;
  bool node_affinity_is_in_shape = true;  ///< none of it is left over
  std::string priority_class;
  Labels needs;  ///< annotations that say what is needed of a GPU; see choose_parts
};

/// Reads an annotation of a pod template, if it says how near to one another the pods are to stand (Kueue's words), or that their nodes are
/// to be theirs alone ("quartermaster.dev/exclusive-nodes").
[[nodiscard]] bool read_topology(const Cursor& annotation, std::string_view name, PodSetTopology& out);
/// As annotations that read_topology reads.
void write_topology(const PodSetTopology& topology, Json& annotations);
/// What its annotations ask together must make sense.
void check_topology(const Cursor& annotations, const PodSetTopology& topology);

/// What a template, or a Pod, says about where pods may run, beside its shape, as JSON of its own fields: affinity, spread constraints and
/// host ports and claims, with its labels, of which these and others' rules may speak. Empty = nothing, and no label but the Job controller's.
[[nodiscard]] std::string rules_of_template(const Json& pod_template, bool node_affinity_is_in_shape);

/// Amounts that no node can have and fractions of devices, each at its container.
void check_ranges(const Cursor& pod_spec);
/// What an API server refuses beyond that: a request above its limit, and devices whose request and limit differ. Names of
/// resources that are close to a known one are unknown fields.
void check_resources(const Cursor& pod_spec);
/// Fields that the Kubernetes API does not have, from an object of this type down ("Job", "PodSpec").
void check_known_fields(const Cursor& at, std::string_view type);

/// Reads a pod's spec; what it does not use is carried.
void read_pod(const Cursor& at, PodRead& out);

/// Whether an annotation of a pod says what is needed of a GPU; it is kept then, for choose_parts.
[[nodiscard]] bool read_need(const Cursor& annotation, std::string_view name, PodRead& out);
/// Once a template is read, annotations and spec in either order: its needs become what its shape asks for.
void choose_parts(const Cursor& pod, PodRead& out);

}  // namespace qm::config
