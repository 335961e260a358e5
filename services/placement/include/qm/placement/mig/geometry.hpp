#pragma once
#include "qm/catalog/mig.hpp"

/// Names of the catalog's MIG tables in this namespace: GPUs that support MIG, their partitionings, and the
/// names of instances. Admission resolves pod requests by the same tables.
namespace qm::placement::mig {

using catalog::mig::Family;
using catalog::mig::Geometry;
using catalog::mig::Model;
using catalog::mig::ModelProfile;
using catalog::mig::Profile;
using catalog::mig::ProfileId;

using catalog::mig::geometry_of;
using catalog::mig::model_of;
using catalog::mig::models;
using catalog::mig::profile_of;
using catalog::mig::resource_of;
using catalog::mig::smallest_with;

namespace seven = catalog::mig::seven;
namespace four = catalog::mig::four;

}  // namespace qm::placement::mig
