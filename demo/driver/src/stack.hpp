#pragma once
#include "cluster.hpp"
#include "options.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::demo {

/// Starts, monitors and stops every process of the suite: PostgreSQL, Redis, the fleet, the five services and the
/// agents. Services find each other by ports that are chosen at start and do not change.
class Stack {
 public:
  struct Plan {
    int nodes = 8, spot_nodes = 0;
    std::string start;          ///< RFC 3339 domain time
    std::string pool_manifest;  ///< NodePool for the autoscaler
    int own_agents = 4;         ///< agents with their own process
  };
  Stack(const Options& options, Plan plan);
  ~Stack();
  Status start();
  void stop();
  /// Stops only services and agents; the servers that they depend on keep running.
  void stop_services();

  static const std::vector<std::string>& services();  ///< in start order
  /// "admission", "admission-2", ...
  [[nodiscard]] std::vector<std::string> replicas(const std::string& service) const;
  /// The addresses of all replicas, separated by commas.
  [[nodiscard]] std::string grpc(const std::string& service) const;
  [[nodiscard]] int http_port(const std::string& service) const { return http_.at(service); }
  [[nodiscard]] const DomainClock& clock() const { return *clock_; }
  /// The real control plane; null if the fleet's API is the cluster.
  [[nodiscard]] RealCluster* real() { return real_.get(); }
  [[nodiscard]] std::string history_file() const { return options_.dir + "/fleet/history.jsonl"; }
  [[nodiscard]] std::string log_of(const std::string& name) const { return options_.dir + "/logs/" + name + ".log"; }

  Status kill9(const std::string& process);  ///< SIGKILL; waits until it has ended
  /// Starts the replicas that do not run, on the same ports; waits until all are ready.
  Status start_service(const std::string& service);
  /// The replica that leads, which has the service's name if there is only one; empty while there is none.
  [[nodiscard]] std::string leader(const std::string& service);
  [[nodiscard]] bool running(const std::string& process);
  [[nodiscard]] std::vector<std::string> processes() const;
  /// Peak resident memory of a running process, MiB.
  [[nodiscard]] double peak_mib(const std::string& process) const;

  /// True if this external server can be killed here: "api", "kafka", "postgres".
  [[nodiscard]] bool breakable(const std::string& what) const;
  /// Kills it with SIGKILL and starts it again.
  Status break_outside(const std::string& what);

  Result<Json> fleet_get(const std::string& path);
  Result<Json> fleet_post(const std::string& path, const Json& body);
  Status fleet_delete(const std::string& path);
  /// Creates a namespace as a platform team does for a tenant; an existing one is accepted.
  Status make_namespace(const std::string& name);
  /// /debug/state of the leading replica.
  Result<Json> debug_state(const std::string& service);

 private:
  Status make_dirs();
  Status start_database();
  Status start_fleet();
  Status start_cluster();
  Status start_agents();
  Status choose_bus();
  Status spawn(const std::string& name, std::vector<std::string> argv);
  Status start_replica(const std::string& service, const std::string& replica);
  Status wait_ready(const std::string& replica);
  void choose_ports(const std::string& service);
  Result<Json> state_of(const std::string& replica);
  void write_endpoints() const;
  [[nodiscard]] std::string tail_of(const std::string& name) const;

  Options options_;
  Plan plan_;
  std::string bin_;
  std::string shard_;  ///< empty: the services' own default
  std::string conninfo_, bus_, kube_url_, aws_url_, node_url_;
  testing::Postgres* postgres_ = nullptr;
  std::unique_ptr<testing::Redis> redis_;
  std::map<std::string, std::unique_ptr<testing::Process>> processes_;
  std::map<std::string, std::vector<std::string>> argv_;
  std::map<std::string, int> grpc_, http_;
  std::unique_ptr<DomainClock> clock_;
  std::string clock_setting_;
  std::unique_ptr<RealCluster> real_;
  bool own_broker_ = false;  ///< started by tools/peers/kafka.sh for this run
  std::unique_ptr<http::Client> fleet_;
};

}  // namespace qm::demo
