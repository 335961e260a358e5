#include "qm/placement/settings.hpp"

#include "qm/placement/gang/tree.hpp"
#include "qm/placement/pack/policy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace qm::placement {
namespace {

// ---- kinds of values ----

/// Labels of nodes, the widest level first.
settings::Kind<TopologyLevels> topology_levels() {
  return settings::list<TopologyLevels>(
      fmt::format("up to {} labels of nodes, each once, the widest level first, without {}", gang::Tree::kMaxLevels,
                  kHostname),
      {}, [](const auto& labels) {
        return labels.size() <= gang::Tree::kMaxLevels && std::ranges::all_of(labels, [&](const auto& label) {
                 return label != kHostname && std::ranges::count(labels, label) == 1;
               });
      });
}

settings::Kind<std::vector<std::string>> workload_types() {
  constexpr std::size_t kMostTypes = 32;
  return settings::list("up to 32 workload types, or none", "none",
                        [](const auto& types) { return types.size() <= kMostTypes; });
}

using GpuPools = std::map<std::string, GpuPool>;

std::optional<GpuPools> read_gpu_pools(const std::string& value) {
  GpuPools out;
  if (value == "none") return out;
  for (const std::string& pool : settings::split(value, ',')) {
    const auto colon = pool.find(':');
    const std::string kind = colon == std::string::npos ? std::string() : pool.substr(colon + 1);
    if (colon == 0 || (kind != "whole" && kind != "slices")) return std::nullopt;
    out[pool.substr(0, colon)] = kind == "whole" ? GpuPool::kWhole : GpuPool::kSlices;
  }
  return out;
}

std::string write_gpu_pools(const GpuPools& pools) {
  std::string out;
  for (const auto& [type, pool] : pools)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", type, pool == GpuPool::kWhole ? "whole" : "slices");
  return out.empty() ? "none" : out;
}

settings::Kind<GpuPools> gpu_pools() {
  return {{.type = settings::Type::kList,
           .allowed = "TYPE:whole or TYPE:slices, such as training:whole,inference:slices, or none",
           .words = {"none"}},
          read_gpu_pools,
          write_gpu_pools};
}

using Windows = std::vector<relayout::Weekly>;

settings::Kind<Windows> weekly_windows() {
  const auto read = [](const std::string& value) -> std::optional<Windows> {
    Windows out;
    for (const std::string& window : settings::split(value, ';')) {
      const auto weekly = relayout::weekly_of(window);
      if (!weekly) return std::nullopt;
      out.push_back(*weekly);
    }
    return out.empty() ? std::nullopt : std::optional(out);
  };
  return {{.type = settings::Type::kList,
           .allowed = "DAYS HH:MM-HH:MM, with ; between several, such as \"Sat,Sun 02:00-06:00;Wed 01:00-02:00\""},
          read,
          {}};
}

/// The node pools that may be repartitioned: nullopt = off, an empty set = on, for all of them.
using RepartitionPools = std::optional<std::set<std::string>>;

settings::Kind<RepartitionPools> repartition_pools() {
  const auto names = settings::list<std::set<std::string>>("");
  const auto read = [names](const std::string& value) -> std::optional<RepartitionPools> {
    const auto word = settings::word_of({"off", "on"}, value);
    if (word) return *word == "on" ? RepartitionPools(std::set<std::string>()) : RepartitionPools();
    const auto pools = names.read(value);
    return pools ? std::optional<RepartitionPools>(*pools) : std::nullopt;
  };
  const auto write = [names](const RepartitionPools& pools) {
    if (!pools) return std::string("off");
    return pools->empty() ? std::string("on") : names.write(*pools);
  };
  return {{.type = settings::Type::kList,
           .allowed = "off, on, or names of node pools, separated by commas",
           .words = {"off", "on"}},
          read,
          write};
}

// ---- places in the options that are more than one member ----

enum class Preempt : std::uint8_t { kOff, kEvict, kMigrate, kOn };

auto preemption() {
  return settings::Property{[](const Settings& s) {
                              const PreemptionOptions& rules = s.engine.preemption;
                              if (!rules.on) return Preempt::kOff;
                              if (rules.evicting && rules.moving) return Preempt::kOn;
                              return rules.evicting ? Preempt::kEvict : Preempt::kMigrate;
                            },
                            [](Settings& s, Preempt value) {
                              PreemptionOptions& rules = s.engine.preemption;
                              rules.on = value != Preempt::kOff;
                              rules.evicting = value != Preempt::kMigrate;
                              rules.moving = value != Preempt::kEvict;
                            }};
}

/// A pending workload may cost more lost work than defragmentation, for which no workload is pending.
constexpr std::int64_t kDefragShare = 3;

auto max_lost_gpu_seconds() {
  return settings::Property{[](const Settings& s) { return s.engine.preemption.max_lost_gpu_seconds; },
                            [](Settings& s, std::int64_t value) {
                              s.engine.preemption.max_lost_gpu_seconds = value;
                              s.engine.defrag.max_lost_gpu_seconds = value / kDefragShare;
                            }};
}

auto mig_repartition() {
  return settings::Property{[](const Settings& s) {
                              const MigRepartitionOptions& rules = s.engine.mig_repartition;
                              return rules.on ? RepartitionPools(rules.pools) : RepartitionPools();
                            },
                            [](Settings& s, RepartitionPools pools) {
                              s.engine.mig_repartition.on = pools.has_value();
                              s.engine.mig_repartition.pools = pools.value_or(std::set<std::string>());
                            }};
}

auto mig_windows() {
  return settings::into([](Settings& s, Windows windows) { s.engine.layout_windows = std::move(windows); });
}

settings::Kind<Duration> up_to_a_day(Duration least = std::chrono::seconds(1)) {
  return settings::duration(least, std::chrono::hours(24));
}

}  // namespace

const settings::Table<Settings>& settings_table() {
  using namespace settings;
  using namespace std::chrono_literals;
  constexpr auto engine = &Settings::engine;
  constexpr auto repartition = &Options::mig_repartition;
  const auto owner = text("auto, quartermaster, none, or the name of another controller");
  const auto policy = [] {
    std::vector<std::pair<std::string, std::string>> words;
    for (const auto name : pack::policy_names()) words.emplace_back(name, name);
    return choice(words);
  };
  static const settings::Table<Settings> table{
      // Where pods run.
      {"policy", policy(), at(engine, &Options::policy), "Policy of node scores."},
      {"topology", topology_levels(), at(engine, &Options::topology), "Levels of the topology."},
      {"isolate-workload-types", workload_types(), at(engine, &Options::apart),
       "Workload types of which no two share a node."},
      {"gpu-pools", gpu_pools(), at(engine, &Options::pools), "Whole GPUs or slices for the pods of a workload type."},
      // How long places are kept.
      {"hold", up_to_a_day(), at(engine, &Options::hold), "Life of a reservation whose pods do not appear."},
      {"node-timeout", up_to_a_day(), at(engine, &Options::node_timeout),
       "Life of a place without a running pod on a node that is not ready."},
      {"health-grace", up_to_a_day(), at(engine, &Options::health_grace), "Deadline of an eviction for a faulty GPU."},
      {"launch-hold", up_to_a_day(0s), at(engine, &Options::launch_hold),
       "Time for which a new node is kept for the pods that it was launched for; 0s keeps no node."},
      // Disruption of running work: four switches, all off by default. disruptions-per-hour of admission limits them.
      {"preemption",
       choice<Preempt>(
           {{"off", Preempt::kOff}, {"evict", Preempt::kEvict}, {"migrate", Preempt::kMigrate}, {"on", Preempt::kOn}},
           "off, evict (only evictions), migrate (only migrations) or on"),
       preemption(), "Victims are proposed for a workload that has quota and does not fit."},
      {"defragmentation", on_off(), at(engine, &Options::defrag, &DefragOptions::on),
       "Workloads are migrated so that whole nodes become free."},
      {"mig-repartition", repartition_pools(), mig_repartition(),
       "Idle GPUs get another MIG layout for a workload that waits for instances."},
      {"gang-recovery-hold", up_to_a_day(0s), at(engine, &Options::returning),
       "Time for which a gang that lost a node keeps its other places; 0s switches gang recovery off."},
      {"max-lost-gpu-seconds", integer(1, 1'000'000, "GPU-seconds"), max_lost_gpu_seconds(),
       "Work that a migration may lose, for each GPU that it frees; defragmentation may lose a third of it."},
      {"preemption-after", up_to_a_day(), at(engine, &Options::preemption, &PreemptionOptions::after),
       "Time for which a workload is pending before victims are searched."},
      {"mig-repartition-after", up_to_a_day(), at(engine, repartition, &MigRepartitionOptions::after),
       "Time for which a workload is pending before GPUs are repartitioned."},
      {"mig-repartition-cooldown", up_to_a_day(), at(engine, repartition, &MigRepartitionOptions::pause),
       "Time for which a node keeps its MIG layout."},
      {"mig-window", weekly_windows(), mig_windows(),
       "Hours of the week, in UTC, in which pods are evicted for a MIG layout order."},
      // Other controllers of the cluster.
      {"quota", owner, at(&Settings::quota), "Owner of quota in a namespace that names none."},
      {"binding", owner, at(&Settings::binding), "Owner of the binding of pods in a namespace that names none."}};
  return table;
}

}  // namespace qm::placement
