#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::apiserver {

/// The findings of the API server when it decodes the JSON of an object, before validation.
struct Decoded {
  /// `unknown field "spec.paralelism"` and `duplicate field "spec.parallelism"`, in the order of the document:
  /// errors or warnings, depending on fieldValidation of the request.
  std::vector<std::string> strict;
  /// The first value of a wrong type: `json: cannot unmarshal string into Go struct field JobSpec.spec.parallelism
  /// of type int32`. Empty = none. With such a value the object is not usable.
  std::string mistake;
};

/// Decodes an object of a kind that is built into the API server: removes unknown fields, nulls, and all but the
/// last of duplicate fields. Objects of other kinds remain unchanged, without findings.
///
/// Fails    never as a call.
/// Threads  any.
/// Cost     linear in the object's fields, with one lookup each.
/// Source   fields.csv, which fields.py writes from the OpenAPI documents of an API server (Kubernetes 1.36);
///          sigs.k8s.io/json, strict decoding.
[[nodiscard]] Decoded decode(std::string_view kind, Json& object);

/// The rows of fields.csv: a type, one of its fields, and the type of the field ("PodSpec", "containers",
/// "[]Container").
struct FieldRow {
  std::string_view type, field, of;
};
[[nodiscard]] const std::vector<FieldRow>& field_rows();

}  // namespace qm::apiserver
