#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::apiserver {

/// What the API server would say of the JSON of an object before it validates it.
struct Decoded {
  /// `unknown field "spec.paralelism"` and `duplicate field "spec.parallelism"`, in the order of the document: errors or warnings, as
  /// fieldValidation of the request says.
  std::vector<std::string> strict;
  /// The first value of another type: `json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism of type int32`.
  /// Empty = none. The object is not usable then.
  std::string mistake;
};

/// Decodes an object of a kind that the API server itself defines: unknown fields, nulls, and all but the last of equal fields
/// are removed. Another kind is left as it is; nothing is found in it.
///
/// Fails    never as a call.
/// Threads  any.
/// Cost     linear in the object's fields, with one lookup each.
/// Source   fields.csv, which fields.py writes from the OpenAPI documents of an API server (Kubernetes 1.36); sigs.k8s.io/json,
///          strict decoding.
[[nodiscard]] Decoded decode(std::string_view kind, Json& object);

/// The rows of fields.csv: a type, a field of it, and what that holds ("PodSpec", "containers", "[]Container").
struct FieldRow {
  std::string_view type, field, of;
};
[[nodiscard]] const std::vector<FieldRow>& field_rows();

}  // namespace qm::apiserver
