// qm-placement: where gangs run. Wiring only.
#include "qm/bus/bus.hpp"
#include "qm/kube/connect.hpp"
#include "qm/placement/api.hpp"
#include "qm/placement/gang/tree.hpp"
#include "qm/placement/gap.hpp"
#include "qm/placement/shell.hpp"
#include "qm/replica/replica.hpp"
#include "qm/rpc/process.hpp"

#include <grpcpp/impl/service_type.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace {

/// --set quota=OWNER, --set binding=OWNER: who decides where a namespace is silent; "auto" is us unless somebody else is
/// at work.
qm::kube::Ownership::Options owners(const qm::rpc::Settings& settings, const std::string& what) {
  const auto it = settings.extra.find(what);
  return {what, it == settings.extra.end() || it->second.empty() ? "auto" : it->second, qm::kube::rivals_of(what)};
}

qm::Result<std::int64_t> whole_seconds(const std::string& name, const std::string& value) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error == std::errc() && end == value.data() + value.size() && seconds >= 1 && seconds <= 86'400) return seconds;
  return qm::fail(qm::Error{qm::Code::kInvalid, fmt::format("setting {}={} is not understood", name, value), name,
                            "give whole seconds from 1 to 86400"});
}

qm::Result<std::int64_t> whole_number(const std::string& name, const std::string& value) {
  constexpr std::int64_t kMost = 1'000'000;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size() && number >= 1 && number <= kMost) return number;
  return qm::fail(qm::Error{qm::Code::kInvalid, fmt::format("setting {}={} is not understood", name, value), name,
                            fmt::format("give a whole number from 1 to {}", kMost)});
}

/// --set gap-period=60: seconds between two looks at how much any scheduler could have allocated.
qm::Result<qm::placement::GapMeter::Times> gap_times(const qm::rpc::Settings& settings) {
  qm::placement::GapMeter::Times times;
  if (const auto it = settings.extra.find("gap-period"); it != settings.extra.end()) {
    QM_ASSIGN(const auto seconds, whole_seconds(it->first, it->second));
    times.period = std::chrono::seconds(seconds);
  }
  return times;
}

/// --set hold=300: seconds that a reservation waits for its pods; --set policy=bestfit: how nodes are chosen;
/// --set topology=LABEL,LABEL: the levels of the topology, the widest first, without the nodes themselves;
/// --set apart=training,inference: workload types of which no two share a node; none: all may;
/// --set gpu-pools=training:whole,inference:slices: which GPUs work of a type is for where its pods name none; none: any;
/// --set mig-window="Sat,Sun 02:00-06:00;Wed 01:00-02:00": when work makes way for another MIG layout, UTC;
/// --set keep-after-loss=300: seconds that a gang that lost a node has its other places kept; without it not at all;
/// --set propose=on: workloads of lower priority are proposed to admission that would give way to one without room;
/// --set recut=on: GPUs are cut anew for workloads that wait for MIG instances, of all nodes; recut=POOL,POOL: of nodes of these pools;
/// --set recut-after=120: once one has waited so many seconds; --set recut-pause=3600: a node keeps its layout for so long;
/// --set recut-orders=4: no more nodes in an hour;
/// --set propose-after=30: once that has waited for so many seconds;
/// --set tidy=on: work is proposed to admission that moves so that whole nodes come free; tidy-every=600: seconds between two looks;
/// --set tidy-hourly=12: workloads that may be asked to; tidy-least-gpus=4: of the nodes won, for each that moves;
/// --set tidy-most-lost=300: GPU-seconds of work, for each GPU of the nodes won.
qm::Result<qm::placement::Options> engine_options(const qm::rpc::Settings& settings) {
  using namespace qm;
  placement::Options options;
  for (const auto& [name, value] : settings.extra) {
    if (name == "quota" || name == "binding" || name == "gap-period") continue;
    if (name == "policy") {
      const auto names = placement::pack::policy_names();
      if (std::ranges::find(names, value) == names.end()) {
        return fail(Error{Code::kInvalid, fmt::format("setting policy={} is not understood", value), "policy",
                          fmt::format("use {}", fmt::join(names, ", "))});
      }
      options.policy = value;
      continue;
    }
    if (name == "topology") {
      options.topology.clear();
      std::stringstream keys(value);
      for (std::string key; std::getline(keys, key, ',');) {
        if (key.empty() || key == placement::kHostname || std::ranges::count(options.topology, key) > 0 ||
            options.topology.size() == placement::gang::Tree::kMaxLevels) {
          return fail(Error{Code::kInvalid, fmt::format("setting topology={} is not understood", value), "topology",
                            fmt::format("name up to {} labels of nodes, each once, the widest level first, without {}",
                                        placement::gang::Tree::kMaxLevels, placement::kHostname)});
        }
        options.topology.push_back(key);
      }
      continue;
    }
    if (name == "tidy") {
      if (value != "on" && value != "off") {
        return fail(Error{Code::kInvalid, fmt::format("setting {}={} is not understood", name, value), name,
                          "use on, or off where nobody shall be asked to move so that nodes come free"});
      }
      options.tidying.on = value == "on";
      continue;
    }
    if (name == "propose") {
      auto& rules = options.proposing;
      rules.on = value != "off";
      rules.evicting = value == "on" || value == "evict";
      rules.moving = value == "on" || value == "move";
      if (rules.on && !rules.evicting && !rules.moving) {
        return fail(
            Error{Code::kInvalid, fmt::format("setting {}={} is not understood", name, value), name,
                  "use on, evict or move where only one of both shall be, or off where nobody shall be asked to "
                  "give way to who finds no room"});
      }
      continue;
    }
    if (name == "propose-most-lost" || name == "tidy-hourly" || name == "tidy-least-gpus" || name == "tidy-most-lost") {
      QM_ASSIGN(const auto number, whole_number(name, value));
      (name == "propose-most-lost" ? options.proposing.most_lost
       : name == "tidy-hourly"     ? options.tidying.hourly
       : name == "tidy-least-gpus" ? options.tidying.least_gpus
                                   : options.tidying.most_lost) = number;
      continue;
    }
    if (name == "recut") {
      options.recutting.on = value != "off";
      std::stringstream pools(value == "on" || value == "off" ? std::string() : value);
      for (std::string pool; std::getline(pools, pool, ',');) options.recutting.pools.insert(pool);
      if (value.empty() || options.recutting.pools.contains(std::string())) {
        return fail(Error{Code::kInvalid, fmt::format("setting recut={} is not understood", value), "recut",
                          "use on, off, or names of the node pools whose GPUs may be cut for who waits"});
      }
      continue;
    }
    if (name == "recut-orders") {
      std::size_t orders = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), orders);
      if (error != std::errc() || end != value.data() + value.size() || orders < 1 || orders > 1000) {
        return fail(Error{Code::kInvalid, fmt::format("setting recut-orders={} is not understood", value),
                          "recut-orders", "give 1 to 1000 nodes that may be cut in an hour"});
      }
      options.recutting.most_orders = orders;
      continue;
    }
    if (name == "apart") {
      options.apart.clear();
      std::stringstream types(value == "none" ? std::string() : value);
      for (std::string type; std::getline(types, type, ',');) options.apart.push_back(type);
      if (options.apart.size() > 32 || std::ranges::count(options.apart, std::string()) > 0) {
        return fail(Error{Code::kInvalid, fmt::format("setting apart={} is not understood", value), "apart",
                          "name up to 32 workload types, of which no two share a node, or none"});
      }
      continue;
    }
    if (name == "gpu-pools") {
      options.pools.clear();
      std::stringstream pools(value == "none" ? std::string() : value);
      for (std::string pool; std::getline(pools, pool, ',');) {
        const auto colon = pool.find(':');
        const std::string kind = colon == std::string::npos ? std::string() : pool.substr(colon + 1);
        if (colon == 0 || (kind != "whole" && kind != "slices")) {
          return fail(Error{Code::kInvalid, fmt::format("setting gpu-pools={} is not understood", value), "gpu-pools",
                            "write TYPE:whole or TYPE:slices, as training:whole,inference:slices, or none"});
        }
        options.pools[pool.substr(0, colon)] =
            kind == "whole" ? placement::GpuPool::kWhole : placement::GpuPool::kSlices;
      }
      continue;
    }
    if (name == "mig-window") {
      std::stringstream windows(value);
      for (std::string window; std::getline(windows, window, ';');) {
        QM_ASSIGN(const auto weekly, placement::relayout::weekly_of(window));
        options.layout_windows.push_back(weekly);
      }
      continue;
    }
    QM_ASSIGN(const auto seconds, whole_seconds(name, value));
    if (name == "keep-after-loss") {
      options.returning = std::chrono::seconds(seconds);
    } else if (name == "hold") {
      options.hold = std::chrono::seconds(seconds);
    } else if (name == "node-timeout") {
      options.node_timeout = std::chrono::seconds(seconds);
    } else if (name == "keep-ended") {
      options.keep_ended = std::chrono::seconds(seconds);
    } else if (name == "health-grace") {
      options.health_grace = std::chrono::seconds(seconds);
    } else if (name == "tidy-every") {
      options.tidying.every = std::chrono::seconds(seconds);
    } else if (name == "propose-after") {
      options.proposing.after = std::chrono::seconds(seconds);
    } else if (name == "recut-after") {
      options.recutting.after = std::chrono::seconds(seconds);
    } else if (name == "recut-pause") {
      options.recutting.pause = std::chrono::seconds(seconds);
    } else {
      return fail(Error{
          Code::kInvalid, fmt::format("there is no setting {}", name), name,
          "use hold, node-timeout, keep-after-loss, keep-ended, health-grace, gap-period, policy, topology, apart, gpu-pools, mig-window, propose, "
          "propose-after, recut, recut-after, recut-pause, recut-orders, tidy, tidy-every, tidy-hourly, tidy-least-gpus, tidy-most-lost, quota or binding"});
    }
  }
  return options;
}

qm::Status run(const qm::rpc::Settings& settings) {
  using namespace qm;
  QM_ASSIGN(const auto options, engine_options(settings));
  QM_ASSIGN(const auto times, gap_times(settings));
  QM_ASSIGN(const auto clock, make_clock(settings.clock));
  QM_ASSIGN(const auto replica, replica::Replica::begin(settings, "placement"));
  QM_ASSIGN(auto bus, bus::make_bus(settings.bus.empty() ? "postgres:" + settings.postgres : settings.bus));
  QM_ASSIGN(auto kube_options, kube::find_server(settings.kube));
  kube::Client client(std::move(kube_options));
  placement::KubeExecutor executor(client, clock.get());
  metrics::Registry registry;

  auto host_options = placement::host_options(settings.shard);
  host_options.snapshot = rpc::snapshot_over_grpc(settings.peers, rpc::client_security(settings));
  replica->guard(host_options);
  service::Host host(
      host_options,
      std::make_unique<placement::Shell>(std::make_unique<placement::Engine>(options),
                                         placement::Codec(std::make_shared<placement::Meters>(registry))),
      replica->take_store(), std::move(bus), *clock, &executor);
  QM_TRY(host.open([] { return !rpc::signal_pending(); }));
  QM_TRY(host.submit(placement::watch_started()));
  host.start();
  kube::Ownership quota(client, owners(settings, "quota")), binding(client, owners(settings, "binding"));
  placement::Watcher watcher(client, host, {&quota, &binding});
  quota.start();
  binding.start();
  watcher.start();

  rpc::export_host(registry, host, "placement");
  placement::export_metrics(registry, host);
  placement::GapMeter gap(host, *clock, times);
  gap.export_metrics(registry);
  gap.start();
  const auto api = placement::make_api(host, &gap);
  QM_ASSIGN(const auto server_options, rpc::server_options(settings, "placement", &registry, &host));
  rpc::Server server(server_options, {api.get()});
  replica->end_standby();
  QM_TRY(server.start());
  rpc::AdminServer admin(
      settings.http, registry, [&] { return host.alive(); }, [&] { return host.ready() && watcher.synced(); },
      [&] { return host.debug_state(); });
  QM_TRY(admin.start());
  replica->serving_at(server.port());
  log::info("placement is up", {{"grpc", server.port()}, {"http", admin.port()}, {"kube", settings.kube}});

  replica->wait_for_end();
  server.stop();
  admin.stop();
  quota.stop();
  binding.stop();
  watcher.stop();
  gap.stop();
  host.stop();
  return replica->end();
}

}  // namespace

int main(int argc, char** argv) { return qm::replica::main(argc, argv, "placement", "Decides where gangs run.", run); }
