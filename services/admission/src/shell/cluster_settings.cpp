#include "qm/admission/cluster_settings.hpp"

#include "qm/admission/kueue_configuration.hpp"
#include "qm/config/manifest.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission {

std::set<std::string> suspending_kinds() {
  std::set<std::string> out;
  for (const auto& kind : config::workload_kinds()) {
    if (kind.suspends()) out.emplace(kind.kind);
  }
  return out;
}

namespace {

settings::Kind<std::set<std::string>> workload_kinds() {
  const auto known = suspending_kinds();
  return settings::list<std::set<std::string>>(
      fmt::format("some of {}", fmt::join(known, ", ")), {}, [known](const auto& kinds) {
        return std::ranges::all_of(kinds, [&](const auto& kind) { return known.contains(kind); });
      });
}

using Weights = std::map<std::string, double>;

std::optional<Weights> read_weights(const std::string& text) {
  Weights out;
  for (const std::string& one : settings::split(text, ',')) {
    const auto colon = one.rfind(':');
    const auto weight = Quantity::parse(colon == std::string::npos ? "" : one.substr(colon + 1));
    if (!weight || weight->milli() < 0 || colon == 0) return std::nullopt;
    out[one.substr(0, colon)] = static_cast<double>(weight->milli()) / 1000;
  }
  return out.empty() ? std::nullopt : std::optional(out);
}

std::string write_weights(const Weights& weights) {
  std::string out;
  for (const auto& [resource, weight] : weights)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", resource, weight);
  return out;
}

settings::Kind<Weights> resource_weights() {
  return {{.type = settings::Type::kList,
           .allowed = "RESOURCE:WEIGHT with weights of 0 or more, such as nvidia.com/gpu:1,cpu:0.1"},
          read_weights,
          write_weights};
}

auto kueue_configuration() {
  return settings::into([](ClusterSettings& settings, const std::string& path) -> Status {
    QM_ASSIGN(const auto configuration, read_kueue_configuration(path));
    settings.engine.wait_for_pods_ready = configuration.pods_ready;
    return {};
  });
}

}  // namespace

const settings::Table<ClusterSettings>& cluster_table() {
  using namespace settings;
  using namespace std::chrono_literals;
  constexpr auto engine = &ClusterSettings::engine;
  constexpr auto rules = &Options::rules;
  constexpr auto usage = &Rules::usage;
  const auto owner = text("auto, quartermaster, none, or the name of another controller");
  static const settings::Table<ClusterSettings> table{
      // Decisions.
      {"rules",
       choice<bool>({{"continuous", false}, {"kueue", true}},
                    "continuous, or kueue for the decisions of Kueue, cycle by cycle"),
       at(engine, rules, &Rules::kueue_cycles), "Rules by which pending workloads are admitted."},
      {"fair-sharing", boolean(), at(engine, rules, &Rules::fair_sharing),
       "Admission order and victims follow the shares of the queues."},
      {"usage-half-life-time", duration(0s), at(engine, rules, usage, &UsageMemory::half_life),
       "Half-life of remembered usage of LocalQueues; 0s remembers none."},
      {"usage-sampling-interval", duration(1s), at(engine, rules, usage, &UsageMemory::sampling),
       "Interval of usage samples."},
      {"resource-weights", resource_weights(), at(engine, rules, usage, &UsageMemory::weights),
       "Weights of resources in usage; a resource that is not listed has weight 1, so memory counts in bytes."},
      {"preemption-cooldown", duration(0s), at(engine, rules, &Rules::preemption_cooldown),
       "Time before a victim may preempt its preemptor."},
      {"disruptions-per-hour", integer(0, std::numeric_limits<std::int64_t>::max(), "workloads in an hour"),
       at(engine, &Options::disruptions_per_hour),
       "Workloads that placement may have evicted or migrated: by preemption, defragmentation and MIG repartition."},
      {"start-window", integer(0, std::numeric_limits<std::int64_t>::max(), "pods"), at(engine, &Options::start_window),
       "A gang with nodes starts when fewer pods of gangs that are not larger are unbound, and the first after a pause alone; 0 starts all at once."},
      {"kueue-configuration", text("the path of a Configuration of Kueue's controller"), kueue_configuration(),
       "File of which waitForPodsReady applies."},
      // Parts of the suite, and other controllers of the cluster.
      {"placement",
       choice<bool>({{"own", true}, {"none", false}}, "own, or none where another scheduler binds all pods"),
       at(engine, &Options::places), "Scheduler of admitted pods."},
      {"kinds", workload_kinds(), at(&ClusterSettings::kinds), "Workload kinds that are watched."},
      {"workload-objects", boolean(), at(&ClusterSettings::workload_objects),
       "Workloads of each kind get a Workload object of Kueue."},
      {"quota", owner, at(&ClusterSettings::quota), "Owner of quota in a namespace that names none."},
      {"binding", owner, at(&ClusterSettings::binding),
       "Owner of the binding of pods in a namespace that names none."}};
  return table;
}

}  // namespace qm::admission
