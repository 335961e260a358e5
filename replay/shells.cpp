#include "shells.hpp"

#include "qm/admission/codec.hpp"
#include "qm/admission/settings.hpp"
#include "qm/autoscaler/settings.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/cost/settings.hpp"
#include "qm/cost/shell.hpp"
#include "qm/placement/settings.hpp"
#include "qm/placement/shell.hpp"
#include "qm/telemetry/shell.hpp"

#include <fmt/format.h>

namespace qm::replay {

Result<std::unique_ptr<service::Shell>> open_shell(const std::string& service, const settings::Values& settings) {
  using Opened = std::unique_ptr<service::Shell>;
  if (service == "admission") {
    QM_ASSIGN(const auto chosen, admission::read_settings(settings));
    const auto& options = chosen.cluster.engine;
    return Opened(std::make_unique<admission::AdmissionShell>(std::make_unique<admission::Engine>(options),
                                                              admission::Codec{!options.places}));
  }
  if (service == "placement") {
    QM_ASSIGN(const auto chosen, placement::settings_table().read(settings));
    return Opened(
        std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(chosen.engine), placement::Codec()));
  }
  if (service == "autoscaler") {
    QM_ASSIGN(const auto chosen, autoscaler::settings_table().read(settings));
    return Opened(std::make_unique<autoscaler::Shell>(
        std::make_unique<autoscaler::Engine>(autoscaler::catalog_types(), autoscaler::engine_options(chosen)),
        autoscaler::Codec(chosen.cluster.alone, chosen.cluster.driver)));
  }
  if (service == "telemetry") {
    QM_TRY(settings::check_names(settings, {}));
    return Opened(std::make_unique<telemetry::Shell>(std::make_unique<telemetry::Engine>(), telemetry::Codec()));
  }
  if (service == "cost") {
    QM_ASSIGN(const auto chosen, cost::settings_table().read(settings));
    return Opened(std::make_unique<cost::Shell>(std::make_unique<cost::Engine>(chosen.engine), cost::Codec{}));
  }
  return fail({Code::kInvalid, fmt::format("\"{}\" is not a service", service), "--service",
               "use admission, placement, autoscaler, telemetry or cost"});
}

}  // namespace qm::replay
