#pragma once
#include "qm/apiserver/validation.hpp"
#include "qm/base/json.hpp"

#include <string>
#include <vector>

namespace qm::apiserver {

/// What the API server does with objects of a CustomResourceDefinition, by its openAPIV3Schema (a structural schema).
///
/// Left out  rules in CEL (x-kubernetes-validations), nullable, formats other than int32 and int64, and allOf, anyOf, oneOf and not.
/// Threads   any.
/// Cost      linear in the object, and a regular expression is compiled for each value that has a pattern.
/// Source    apiextensions-apiserver: pkg/apiserver/schema (pruning, defaulting, listtype), pkg/apiserver/validation.

/// Removes the fields that the schema does not have, and all but the last of equal ones. Each becomes `unknown field "spec.a"` or
/// `duplicate field "spec.a"`, in the order of the document.
[[nodiscard]] std::vector<std::string> prune(const Json& schema, Json& object);
/// Fills in the defaults of fields that are absent.
void set_schema_defaults(const Json& schema, Json& object);
/// Types, required fields, enums, bounds of numbers, lengths, patterns, and items of lists that have keys or are sets. `object` is pruned.
void check_schema(const Json& schema, const Json& object, Causes& out);

}  // namespace qm::apiserver
