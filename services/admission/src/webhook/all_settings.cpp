#include "qm/admission/settings.hpp"

namespace qm::admission {

const settings::Table<Settings>& settings_table() {
  static const auto table = settings::Table<Settings>{}
                                .with(cluster_table(), &Settings::cluster)
                                .with(webhook::settings_table(), &Settings::webhook);
  return table;
}

Result<Settings> read_settings(const settings::Values& given) {
  QM_ASSIGN(auto out, settings_table().read(given));
  webhook::complete(out.webhook);
  return out;
}

}  // namespace qm::admission
