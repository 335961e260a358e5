#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace qm::demo {

struct Options {
  std::string trace;  ///< CSV; empty = hours drawn from the model
  std::int64_t from_s = -1, until_s = -1;
  int hours = 4;   ///< of the window if --from and --until are not given
  int jobs = -1;   ///< maximum number of arrivals; -1 = all
  int nodes = -1;  ///< 8-GPU nodes that exist from the start; -1 = sized so that jobs are pending
  int spot_nodes = 4;
  int boot_s = 60;   ///< until an instance that is launched is a node, up to twice that
  int replicas = 1;  ///< processes of each service; one of them leads
  double speed = 120;
  std::uint64_t seed = 1;
  std::string kube = "fleet";               ///< fleet, peer (a real control plane, started here) or kubeconfig:PATH
  int pods = 200;                           ///< on a real control plane: minimum number in all
  int spread_s = -1;                        ///< and seconds in which they arrive; -1 = 30 pods a second
  int limit_s = 1200;                       ///< and seconds after that in which all must end
  std::string bus = "postgres";             ///< postgres or kafka
  std::vector<std::string> agent_settings;  ///< KEY=VALUE of every agent, after those of the demo
  std::string postgres;    ///< conninfo of an empty database of a running server; empty = a server of the run's own
  std::string pools_file;  ///< manifests for the autoscaler in place of the demo's NodePool
  std::string json_file;
  std::string dir = "build/run";
  bool keep = false;  ///< keep everything running after the report
  bool up = false;    ///< no jobs, no faults: only the suite
  bool down = false;  ///< stop the processes that --keep or --up left running
  bool faults = true;
  int interrupt_percent = 0;  ///< of the nodes that lose their spot capacity at once; 0 = two nodes
  int random_kills = 0;       ///< number of SIGKILLs at random services instead of one of each kind
};

/// Parses the command line; prints and exits on --help and on errors.
Options parse(int argc, char** argv);

}  // namespace qm::demo
