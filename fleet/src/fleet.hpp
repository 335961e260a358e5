#pragma once
#include "cluster.hpp"
#include "faults.hpp"
#include "job_controller.hpp"
#include "kube_api.hpp"
#include "node_api.hpp"
#include "object_store.hpp"
#include "ticker.hpp"
#include "world.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::fleet {

/// The whole fleet except its sockets and the AWS side: the parts in order of their dependencies.
struct Fleet {
  struct Options {
    World::Options world;
    Cluster::Options cluster;
    std::size_t watch_history = 8192;
  };
  Fleet(Options options, PriceTable prices, std::unique_ptr<FleetClock> clock);
  ~Fleet();
  void start();  ///< starts timers and watch maintenance
  void stop();

  World world;
  ObjectStore store;
  JobController jobs;
  Cluster cluster;
  KubeApi kube;
  Faults faults;
  NodeApi node;

 private:
  Ticker heart_;
};

/// Nodes from a table with the columns sn,cpu_milli,memory_mib,gpu,model, as in the openb trace. Each distinct shape
/// becomes an instance type "openb.<gpus>x<model>-<vcpu>c-<gib>g"; its price is computed from its size. Fails:
/// kInvalid with the line.
Result<std::vector<LaunchSpec>> read_nodes_file(std::string_view csv, PriceTable& prices);

/// `count` nodes of one type that exist from the start. kInvalid for an unknown type.
Result<std::vector<LaunchSpec>> uniform_nodes(int count, const std::string& type, Market market,
                                              const PriceTable& prices);

}  // namespace qm::fleet
