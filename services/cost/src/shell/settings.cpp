#include "qm/cost/settings.hpp"

namespace qm::cost {

const settings::Table<Settings>& settings_table() {
  using namespace settings;
  using namespace std::chrono_literals;
  static const settings::Table<Settings> table{
      {"observe",
       choice<bool>({{"bus", false}, {"cluster", true}}, "bus, or cluster if no other service of the suite runs"),
       at(&Settings::alone), "Source of nodes and pods."},
      {"posting-delay", duration(0s, 24h), at(&Settings::engine, &Options::settle_after),
       "Time from the end of a slice to its posting; observations that arrive later are corrections."}};
  return table;
}

}  // namespace qm::cost
