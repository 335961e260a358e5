#pragma once
#include "kinds.hpp"

namespace qm::fleet {

/// The openAPIV3Schema of a version of a custom kind, from the CustomResourceDefinitions that the chart ships
/// (deploy/crds). Null for the API server's own kinds, and for custom kinds without a definition in the chart: their
/// fields are not validated.
///
/// Threads  any; the definitions are read once.
const Json* schema_of(const Kind& kind);

}  // namespace qm::fleet
