#pragma once
#include "kinds.hpp"

namespace qm::fleet {

/// The openAPIV3Schema of a custom kind in its version, from the CustomResourceDefinitions that the chart ships
/// (deploy/crds). Null for the API server's own kinds, and for custom ones that the chart has no definition of: their
/// fields are not checked.
///
/// Threads  any; the definitions are read once.
const Json* schema_of(const Kind& kind);

}  // namespace qm::fleet
