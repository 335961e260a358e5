#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::apiserver {

/// One validation error of the API server, with its text: {"spec.parallelism", "Invalid value: -1: must be ..."}.
struct Cause {
  std::string field, message;
  friend bool operator==(const Cause&, const Cause&) = default;
};
using Causes = std::vector<Cause>;

/// Each check appends its errors to `out`, in the API server's order. Objects are decoded and defaulted before. The
/// checks cover frequent mistakes in GPU jobs; the API server checks more.
///
/// Threads  any.
/// Source   Kubernetes 1.36: apimachinery/pkg/api/validation/objectmeta.go, pkg/apis/core/validation,
///          pkg/apis/batch/validation.

/// Sets absent fields of a new object to their defaults, as far as Jobs, pods and namespaces need it, with the
/// initial status.
void set_defaults(std::string_view kind, Json& object);
/// Runs all checks of a new object of the kind: its metadata, and the fields of a pod or a Job.
void check_object(std::string_view kind, const Json& object, Causes& out);
/// Runs all checks of an update, including immutable fields.
void check_update(std::string_view kind, const Json& before, const Json& after, Causes& out);

/// Checks name, generateName, labels and keys of annotations.
void check_metadata(std::string_view kind, const Json& metadata, Causes& out);
/// Checks containers with names and images, resources, the node selector and the restart policy. `at` is the path of
/// the spec.
void check_pod_spec(const Json& spec, const std::string& at, Causes& out);
/// Checks counts, completion mode, restart policy and template, and invalid names of its pods. The metadata is
/// checked before.
void check_job(const Json& job, Causes& out);

/// The reason of one or all causes in a Status: "FieldValueRequired".
[[nodiscard]] std::string_view reason_of(const Cause& cause);
/// The text of the causes: "spec.a: Required value", or all in brackets; duplicates once.
[[nodiscard]] std::string text_of(const Causes& causes);

}  // namespace qm::apiserver
