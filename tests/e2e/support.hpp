#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/cost_service.pb.h"
#include "quartermaster/v1/placement_service.pb.h"
#include "quartermaster/v1/telemetry_service.pb.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

/// Shared code of the end-to-end tests: the programs as a user starts them, and a suite that runs for a whole test
/// file. It does not use internals of a service, only flags, gRPC, HTTP pages, and the fleet's own history.
namespace qm::e2e {

namespace pb = quartermaster::v1;

/// Like testing::wait_until, but polls twenty times a second, because each poll uses processor time of other programs.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout = std::chrono::seconds(30));

struct Ran {
  int code = -1;       ///< -1: it did not start, or did not end in time and was killed
  std::string output;  ///< stdout and stderr
};
/// Runs a command in the source folder to its end; `env` is added to our environment.
Ran run(std::vector<std::string> argv, std::chrono::seconds timeout, std::map<std::string, std::string> env = {});
/// The path of a program of the suite.
std::string program(const std::string& name);

/// A job for the simulated fleet.
struct JobAsk {
  std::string name;
  int pods = 1, gpus = 1;  ///< GPUs of each pod
  int run_s = 60;          ///< domain seconds
  std::string queue = "jobs";
  bool saves = false;        ///< its ranks answer checkpoint orders
  std::string trace_parent;  ///< sent with the request if not empty
};

/// PostgreSQL, Redis, the fleet, five services and agents, started and kept running by the demo's driver. Stopped at
/// the end, even if the test binary crashes. Namespace "e2e-lab" and its queue "jobs" exist from the start.
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

  // User actions.
  Ran qmctl(std::vector<std::string> args, std::chrono::seconds timeout = std::chrono::seconds(30));
  Status submit(const JobAsk& ask, std::chrono::milliseconds timeout = std::chrono::seconds(10));
  Status kubectl_create(const std::string& path, const Json& object);  ///< directly to the API server
  /// Any call of the API server; a PATCH is a merge patch.
  Result<http::Response> kube(const std::string& method, const std::string& target, const Json& body = Json());
  Result<pb::Workload> workload(const std::string& name, const std::string& ns = kNamespace);
  Result<pb::QueryResponse> readings();
  Result<pb::Statement> statement();
  Result<pb::ListAssignmentsResponse> assignments();
  /// The services in gRPC reflection, and whether the health service reports SERVING: the view of a tool without
  /// protos.
  std::string reflected(const std::string& service);
  bool serving(const std::string& service);
  /// The lines of a service's log that contain all of these words.
  std::vector<std::string> log_lines(const std::string& service, const std::vector<std::string>& words);
  /// Diagnostics of a replica that does not behave as expected: whether it runs or how it ended, its pages, its lease
  /// row and the leader's, the end of its log, and the stacks of its threads if a debugger is available.
  std::string account_of(const std::string& name);
  /// True once the workload has finished successfully.
  bool finished(const std::string& name);

  // Replicas, if the suite was started with several.
  [[nodiscard]] std::vector<std::string> replicas(const std::string& service) const;
  /// The replica that leads and is ready; empty while there is none.
  std::string leader(const std::string& service);

  // Pages for operators; of a service, or of one replica by its name.
  bool ready(const std::string& service);
  Result<Json> debug_state(const std::string& service);
  /// True if no service has undelivered work: backlogs, mailboxes, lag and open intents are empty. `who` names a
  /// service with open work.
  bool quiet(std::string* who = nullptr);

  // Fault injection.
  [[nodiscard]] std::vector<std::string> command_line(const std::string& service) const;  ///< while it runs
  void signal(const std::string& service, int number);
  Status stop(const std::string& service, int number = SIGTERM);  ///< waits until it has ended
  Status stop_all();                                              ///< the five, in parallel
  Status start(const std::string& service);                       ///< with the same flags; waits until it is ready
  /// Starts it with other values of some flags, which apply until the next stop; does not wait.
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
  Result<Json> fault(const Json& fault);  ///< injects it; the answer names what it struck
  /// Counts events of one job in the fleet's history: "pod_start", "job_finish", ...
  int count(const std::string& event, const std::string& job);

 private:
  Suite() = default;
  Result<Json> fleet(const std::string& method, const std::string& path, const Json& body);
  [[nodiscard]] int pid(const std::string& name) const;
  [[nodiscard]] std::string page(const std::string& name) const;
  Status remember(const std::string& service);  ///< records its command line for the next start
  Status wait_gone(const std::string& service);

  struct Program {
    std::vector<std::string> argv;
    std::map<std::string, std::string> env;
  };
  testing::TempDir dir_;
  Json endpoints_;
  std::map<std::string, Program> programs_;  ///< of stopped services
  std::map<std::string, std::unique_ptr<testing::Process>> restarted_;
};

/// A test with a suite that all tests of the class `Case` share. `Case::flags()` are the flags of the demo's driver.
template <class Case>
class SharedSuite : public ::testing::Test {
 public:
  static void SetUpTestSuite() {
    auto up = Suite::up(Case::flags());
    ASSERT_TRUE(up) << up.error().to_string();
    shared() = std::move(*up);
  }
  static void TearDownTestSuite() { shared().reset(); }

 protected:
  void SetUp() override { ASSERT_NE(shared(), nullptr) << "the suite is not up"; }
  /// Null if the suite did not start.
  static std::unique_ptr<Suite>& shared() {
    static std::unique_ptr<Suite> suite;
    return suite;
  }
  static Suite& suite() { return *shared(); }
};

}  // namespace qm::e2e
