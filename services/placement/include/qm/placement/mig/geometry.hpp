#pragma once
#include "qm/catalog/mig.hpp"

/// The tables of MIG, under the names that placement has for them: which GPUs can be cut, how, and what the instances are
/// called. They are the catalog's, as admission resolves what pods need by the same tables.
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
