#include "qm/catalog/catalog.hpp"
#include "qm/catalog/mig.hpp"
#include "qm/cost/prices.hpp"

namespace qm::cost {

std::int32_t compute_slices_of(std::string_view instance_type) {
  const auto* type = catalog::find(instance_type);
  const auto* model = type == nullptr ? nullptr : catalog::mig::model_of(type->gpu_product);
  return model == nullptr ? 7 : catalog::mig::geometry_of(model->family).compute_slices;
}

}  // namespace qm::cost
