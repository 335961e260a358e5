#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace qm::checker {

/// One rank of a gang with its devices, from start to stop.
struct PodRun {
  std::string owner;  ///< uid of the job
  std::string pod, pod_uid, node, team;
  std::int32_t attempt = 0, index = 0, gang = 1;
  std::vector<std::int32_t> devices;
  std::int32_t gpus = -1;  ///< number that it requested; -1 = not in the record
  std::int64_t start_us = 0;
  std::int64_t stop_us = -1;  ///< -1 = still running at the end
  std::int64_t start_step = 0, stop_step = 0;
  std::string reason;  ///< Succeeded, Failed, Deleted, NodeLost
};
struct JobRecord {
  std::string uid, ns, name, team;
  std::int64_t created_us = -1, finished_us = -1, deleted_us = -1;
  int finishes = 0;
  bool ok = false;
};
struct InstanceRecord {
  std::string id, type, zone, market, token, claim;
  std::int64_t nano_usd_hour = 0;
  std::int64_t launch_us = 0, stop_us = -1;
  bool initial = false;
  std::int32_t gpus = 0;
};
struct SignalRecord {
  std::int64_t at_us = 0;
  std::string kind, node;
};

/// The fleet's record of what really happened, from its history file (JSON lines).
struct History {
  std::vector<PodRun> pods;
  std::map<std::string, JobRecord> jobs;  ///< by uid
  std::vector<InstanceRecord> instances;
  std::map<std::string, std::int64_t> claims;  ///< NodeClaim name -> first creation
  std::vector<SignalRecord> signals;
  std::int64_t end_us = 0;  ///< the instant at which the evaluation ends
};

/// Reads history lines up to and including `end_us` (0 = all; the last line is the end). kInvalid names the line.
Result<History> read_history(const std::string& text, std::int64_t end_us);

/// The provider's price list, parsed by the checker itself: "instance_type,...,on_demand_usd_hour,spot_usd_hour,gpus"
/// by header.
struct Prices {
  struct Row {
    std::int64_t on_demand_nano = 0, spot_nano = 0;
    std::int32_t gpus = 0;
  };
  std::map<std::string, Row> by_type;
};
Result<Prices> read_prices(const std::string& csv);

/// A broken law, with its evidence.
struct Violation {
  std::string law;  ///< "double_booked", ...
  std::string text;
};

struct Percentiles {
  std::int64_t n = 0;
  double p50 = 0, p99 = 0, max = 0;  ///< seconds
};

/// Attempts that one cause ended before their jobs did, and whose jobs went on in a later attempt.
struct Interruptions {
  std::int64_t attempts = 0;
  double lost_gpu_hours = 0;       ///< of steps that ran and had to run again
  double from_zero_gpu_hours = 0;  ///< that would have been lost, had each job started again at its first step
};

struct Report {
  std::int64_t submitted = 0, created = 0, finished = 0, failed = 0, running = 0, waiting = 0, cancelled = 0;
  std::int64_t lost = 0, doubled = 0, double_booked = 0, partial_gangs = 0, orphan_instances = 0;
  std::int64_t provider_nano_usd = 0;
  double utilization = 0, peak_utilization = 0;     ///< of the GPUs of running instances, between window start and end
  std::map<std::string, Percentiles> wait_by_team;  ///< from creation until all ranks run, of started jobs
  Percentiles wait;
  Percentiles turnaround;                            ///< from the release of a device until its next pod runs
  std::map<std::string, double> lost_gpu_hours;      ///< by cause: spot, xid, node_lost, preempted
  std::map<std::string, Interruptions> interrupted;  ///< by cause
  std::int64_t instances = 0;
  std::vector<Violation> violations;
  [[nodiscard]] Json to_json() const;
};

struct Inputs {
  std::set<std::string> acked;               ///< "namespace/name" of every acknowledged submission
  std::set<std::string> known;               ///< "namespace/name" of every workload that the suite still has at the end
  std::int64_t window_start_us = 0;          ///< utilization is measured from here
  std::int64_t gang_grace_us = 300'000'000;  ///< maximum time until all ranks of a gang have started
};

/// Checks a history. Shares no code with the services.
Report check(const History& history, const Prices& prices, const Inputs& inputs);

}  // namespace qm::checker
