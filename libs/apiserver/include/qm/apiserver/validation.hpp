#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::apiserver {

/// Why the API server does not accept an object, with its own text: {"spec.parallelism", "Invalid value: -1: must be ..."}.
struct Cause {
  std::string field, message;
  friend bool operator==(const Cause&, const Cause&) = default;
};
using Causes = std::vector<Cause>;

/// Each check adds what is wrong to `out`, in the API server's order. Objects are decoded and have their defaults. Checked is what
/// users of GPU jobs get wrong; the API server checks more.
///
/// Threads  any.
/// Source   Kubernetes 1.36: apimachinery/pkg/api/validation/objectmeta.go, pkg/apis/core/validation, pkg/apis/batch/validation.

/// Fills in what a new object does not say, as far as Jobs, pods and namespaces need it, with their first status.
void set_defaults(std::string_view kind, Json& object);
/// All that is checked of a new object of the kind: its metadata, and what a pod or a Job has.
void check_object(std::string_view kind, const Json& object, Causes& out);
/// Likewise of a change, with the fields that cannot be changed.
void check_update(std::string_view kind, const Json& before, const Json& after, Causes& out);

/// Name, generateName, labels and keys of annotations.
void check_metadata(std::string_view kind, const Json& metadata, Causes& out);
/// `at` is the path of the spec. Containers with names and images, their resources, the node selector, the restart policy.
void check_pod_spec(const Json& spec, const std::string& at, Causes& out);
/// Counts, completion mode, restart policy and template, and names that its pods cannot have. Its metadata is checked before.
void check_job(const Json& job, Causes& out);

/// What one or all of them are called in a Status: "FieldValueRequired".
[[nodiscard]] std::string_view reason_of(const Cause& cause);
/// "spec.a: Required value", or all in brackets; equal ones once.
[[nodiscard]] std::string text_of(const Causes& causes);

}  // namespace qm::apiserver
