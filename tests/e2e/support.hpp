#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/cost_service.pb.h"
#include "quartermaster/v1/placement_service.pb.h"
#include "quartermaster/v1/telemetry_service.pb.h"

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

/// What the end-to-end tests share: the programs as a user starts them, and a suite that stays up for a test file.
/// Nothing in here looks inside a service; all goes through flags, gRPC, HTTP pages, and the fleet's own record.
namespace qm::e2e {

namespace pb = quartermaster::v1;

/// As testing::wait_until, but looks twenty times a second: what is asked here costs others processor time.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout = std::chrono::seconds(30));

struct Ran {
  int code = -1;       ///< -1: it did not start, or did not end in time and was killed
  std::string output;  ///< stdout and stderr
};
/// Runs a command in the source folder to its end; `env` comes on top of ours.
Ran run(std::vector<std::string> argv, std::chrono::seconds timeout, std::map<std::string, std::string> env = {});
/// The path of a program of the suite.
std::string program(const std::string& name);

/// A job for the simulated fleet.
struct JobAsk {
  std::string name;
  int pods = 1, gpus = 1;  ///< GPUs of each pod
  int run_s = 60;          ///< domain seconds
  std::string queue = "jobs";
  std::string trace_parent;  ///< sent along where set
};

/// PostgreSQL, Redis, the fleet, five services and agents, left up by the demo's driver; taken down at the end, also
/// where the test binary dies. Namespace "e2e-lab" and its queue "jobs" are there from the start.
///
/// Threads  one; submit() any.
class Suite {
 public:
  static Result<std::unique_ptr<Suite>> up(const std::vector<std::string>& more = {});
  ~Suite();

  static const std::vector<std::string>& services();
  static constexpr const char* kNamespace = "e2e-lab";
  [[nodiscard]] const std::string& dir() const { return dir_.path(); }
  [[nodiscard]] const Json& endpoints() const { return endpoints_; }
  [[nodiscard]] std::string grpc(const std::string& service) const { return endpoints_[service].string(); }
  [[nodiscard]] std::string postgres() const { return endpoints_["postgres"].string(); }

  // A user's hands.
  Ran qmctl(std::vector<std::string> args, std::chrono::seconds timeout = std::chrono::seconds(30));
  Status submit(const JobAsk& ask, std::chrono::milliseconds timeout = std::chrono::seconds(10));
  Status kubectl_create(const std::string& path, const Json& object);  ///< straight to the API server
  /// Any call of the API server; a PATCH is a merge patch.
  Result<http::Response> kube(const std::string& method, const std::string& target, const Json& body = Json());
  Result<pb::Workload> workload(const std::string& name, const std::string& ns = kNamespace);
  Result<pb::QueryResponse> readings();
  Result<pb::Statement> statement();
  Result<pb::ListAssignmentsResponse> assignments();
  /// What gRPC reflection lists, and whether the health service says SERVING: as a tool sees it that knows no proto.
  std::string reflected(const std::string& service);
  bool serving(const std::string& service);
  /// The lines of a service's log that hold all of these words.
  std::vector<std::string> log_lines(const std::string& service, const std::vector<std::string>& words);
  /// What there is to know of a replica that does not do as it should: whether it runs or how it ended, its pages,
  /// the row of its lease and the leader's, the end of its log, and where its threads stand if a debugger is there.
  std::string account_of(const std::string& name);
  /// True once the workload is over, and well.
  bool finished(const std::string& name);

  // Replicas, where the suite was brought up with several.
  [[nodiscard]] std::vector<std::string> replicas(const std::string& service) const;
  /// The one that leads and is ready; empty while there is none.
  std::string leader(const std::string& service);

  // Pages for operators; of a service, or of one replica by its name.
  bool ready(const std::string& service);
  Result<Json> debug_state(const std::string& service);
  /// Nobody holds anything that another has not heard: backlogs, mailboxes, lag and open intents are empty. Says who is
  /// not done.
  bool quiet(std::string* who = nullptr);

  // Violence.
  [[nodiscard]] std::vector<std::string> command_line(const std::string& service) const;  ///< while it runs
  void signal(const std::string& service, int number);
  Status stop(const std::string& service, int number = SIGTERM);  ///< waits until it is gone
  Status stop_all();                                              ///< the five, side by side
  Status start(const std::string& service);                       ///< again, as it was; waits until it is ready
  /// Again, with other values of some flags, which hold until the next stop; does not wait.
  Status launch(const std::string& service, const std::map<std::string, std::string>& flags = {});
  Status wait_ready(const std::string& service);
  Status kill_postgres();  ///< SIGKILL of the postmaster and its children
  Status restart_postgres();
  /// One command to Redis; the first line of its answer, or all of a bulk.
  Result<std::string> redis(const std::string& command);
  Status kill_redis();
  Status restart_redis();

  // The fleet.
  Status clock(double factor);
  Result<Json> fleet_state();
  /// Events of the fleet's record about one job: "pod_start", "job_finish", ...
  int count(const std::string& event, const std::string& job);

 private:
  Suite() = default;
  Result<Json> fleet(const std::string& method, const std::string& path, const Json& body);
  [[nodiscard]] int pid(const std::string& name) const;
  [[nodiscard]] std::string page(const std::string& name) const;
  Status remember(const std::string& service);  ///< how it runs, to start it again
  Status wait_gone(const std::string& service);

  struct Program {
    std::vector<std::string> argv;
    std::map<std::string, std::string> env;
  };
  testing::TempDir dir_;
  Json endpoints_;
  std::map<std::string, Program> programs_;  ///< of what was stopped
  std::map<std::string, std::unique_ptr<testing::Process>> restarted_;
};

}  // namespace qm::e2e
