#pragma once
#include "model.hpp"

namespace qm::autoscaler::pack {

/// Prices each unit of a resource, such that no shape costs less than its room at these prices and all requests
/// together cost as much as possible. Fills price, resource_bound and the size of each class.
///
/// Cost     one linear program with a row for each resource and a column for each shape.
void price_resources(Model& model);

}  // namespace qm::autoscaler::pack
