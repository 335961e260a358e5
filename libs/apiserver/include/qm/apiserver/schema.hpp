#pragma once
#include "qm/apiserver/validation.hpp"
#include "qm/base/json.hpp"

#include <string>
#include <vector>

namespace qm::apiserver {

/// Prunes, defaults and validates objects of a CustomResourceDefinition as the API server does, by its structural
/// openAPIV3Schema.
///
/// Left out  rules in CEL (x-kubernetes-validations), nullable, formats other than int32 and int64, and allOf, anyOf,
///           oneOf and not.
/// Threads   any.
/// Cost      linear in the object, and a regular expression is compiled for each value that has a pattern.
/// Source    apiextensions-apiserver: pkg/apiserver/schema (pruning, defaulting, listtype), pkg/apiserver/validation.

/// Removes the fields that are not in the schema, and all but the last of duplicate fields. Each removal is reported
/// as `unknown field "spec.a"` or `duplicate field "spec.a"`, in the order of the document.
[[nodiscard]] std::vector<std::string> prune(const Json& schema, Json& object);
/// Fills in the defaults of fields that are absent.
void set_schema_defaults(const Json& schema, Json& object);
/// Checks types, required fields, enums, bounds of numbers, lengths, patterns, and items of lists that have keys or
/// are sets. `object` is already pruned.
void check_schema(const Json& schema, const Json& object, Causes& out);

}  // namespace qm::apiserver
