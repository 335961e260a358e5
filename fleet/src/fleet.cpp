#include "fleet.hpp"

#include "text.hpp"

namespace qm::fleet {

Fleet::Fleet(Options options, PriceTable prices, std::unique_ptr<FleetClock> clock)
    : world(std::move(options.world), std::move(prices), std::move(clock)),
      store(world, options.watch_history),
      jobs(world, store),
      cluster(world, store, options.cluster),
      kube(world, store),
      faults(world, cluster, kube),
      node(world, store, cluster, faults) {}

Fleet::~Fleet() { stop(); }

void Fleet::start() {
  world.start();
  kube.start();
  // Steady time: at a high factor, heartbeats in domain time would be most of the traffic.
  heart_.start(std::chrono::seconds(10), [this] { cluster.heartbeat(); });
}

void Fleet::stop() {
  heart_.stop();
  kube.stop();
  world.stop();
}

Result<std::vector<LaunchSpec>> read_nodes_file(std::string_view csv, PriceTable& prices) {
  std::vector<LaunchSpec> nodes;
  int line_number = 0;
  for (std::string_view line : split(csv, '\n')) {
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line_number == 1) continue;
    auto cells = split(line, ',');
    cells.resize(5);
    std::int64_t numbers[3];
    for (std::size_t i = 0; i < 3; ++i) {
      numbers[i] = whole_number(cells[i + 1]).value_or(-1);
      if (numbers[i] >= 0) continue;
      return fail({Code::kInvalid, fmt::format("\"{}\" is not a number", cells[i + 1]),
                   fmt::format("nodes file, line {}", line_number),
                   "the columns are sn,cpu_milli,memory_mib,gpu,model"});
    }
    InstanceType type;
    type.vcpu = numbers[0] / 1000;
    type.memory_mib = numbers[1];
    type.gpus = numbers[2];
    type.gpu_model = type.gpu_product = std::string(cells[4]);
    type.gpu_memory_mib = type.gpus > 0 ? 32768 : 0;
    type.name = fmt::format("openb.{}x{}-{}c-{}g", type.gpus, type.gpu_model.empty() ? "cpu" : type.gpu_model,
                            type.vcpu, type.memory_mib / 1024);
    type.on_demand_nano_hour = type.gpus * 1'200'000'000 + type.vcpu * 40'000'000;
    type.spot_nano_hour = type.on_demand_nano_hour * 38 / 100;
    LaunchSpec spec;
    spec.type = type.name;
    spec.initial = true;
    spec.tags["fleet.quartermaster.dev/name"] = std::string(cells[0]);
    nodes.push_back(std::move(spec));
    prices.add(std::move(type));
  }
  return nodes;
}

Result<std::vector<LaunchSpec>> uniform_nodes(int count, const std::string& type, Market market,
                                              const PriceTable& prices) {
  if (count > 0 && prices.find(type) == nullptr) {
    return fail({Code::kInvalid, fmt::format("there is no instance type \"{}\"", type), "shape",
                 "use a type of fleet/prices.csv, or a table of your own with --prices"});
  }
  LaunchSpec spec;
  spec.type = type;
  spec.market = market;
  spec.initial = true;
  return std::vector<LaunchSpec>(static_cast<std::size_t>(std::max(0, count)), spec);
}

}  // namespace qm::fleet
