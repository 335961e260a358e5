#pragma once
#include "qm/admission/options.hpp"
#include "qm/settings/table.hpp"

#include <set>
#include <string>

namespace qm::admission {

/// All kinds that are suspended and unsuspended as a whole.
[[nodiscard]] std::set<std::string> suspending_kinds();

/// Settings of the engine, and of admission relative to other controllers of the cluster.
struct ClusterSettings {
  Options engine;
  std::string quota = "auto";    ///< owner of quota in unlabeled namespaces: auto, quartermaster, kueue, none, ...
  std::string binding = "auto";  ///< owner of binding: which scheduler binds admitted pods
  std::set<std::string> kinds = suspending_kinds();  ///< the kinds to watch
  bool workload_objects = false;                     ///< other kinds get a Workload of Kueue too
};

/// Their table. Other members of Options are constants of the service.
[[nodiscard]] const settings::Table<ClusterSettings>& cluster_table();

}  // namespace qm::admission
