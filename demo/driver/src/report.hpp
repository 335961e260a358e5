#pragma once
#include "faults.hpp"
#include "qm/base/json.hpp"
#include "qm/checker/checker.hpp"
#include "stack.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>

namespace qm::demo {

/// The suite's own view at the end, over its gRPC API.
struct SuiteView {
  std::set<std::string> known;  ///< "namespace/name" of unfinished workloads in admission
  struct Line {
    std::string team;
    std::int64_t nano_usd = 0, gpu_micros = 0;
  };
  std::vector<Line> statement;
  std::int64_t total_nano = 0, provider_nano = 0, imbalance_nano = 0;
};
Result<SuiteView> ask_suite(Stack& stack, Instant as_of);

/// The last full hour that is final in the ledger, and its statement. Dashboards show this data for the run, because
/// the entries of the hour in which the evaluation ends are posted later.
struct ClosedBooks {
  Instant until{};
  SuiteView suite;
  std::int64_t provider_nano_usd = 0;  ///< the bill until then, from the instances' lifetimes
};
/// The hour is chosen so that events had ten minutes to arrive after it.
[[nodiscard]] Instant last_closed_hour(Instant end);
Result<SuiteView> statement_until(Stack& stack, Instant as_of);

/// Waits until all published events are handled: empty outboxes and mailboxes, no lag, no open intent. Domain time is
/// stopped meanwhile, so no new events occur. The error names a service with open work.
Status wait_quiet(Stack& stack, std::chrono::seconds timeout);

struct Outcome {
  checker::Report judged;
  SuiteView suite;
  ClosedBooks closed;
  std::map<std::string, double> peak_mib;
  std::int64_t kills = 0;
  std::vector<std::int64_t> takeovers_ms;
  double wall_s = 0;
  bool bill_matches = false;
  std::optional<witness::Pace> admitted, bound;  ///< pods, on a real control plane
  std::vector<std::string> troubles;             ///< other failures: of an injection, of a restart
  [[nodiscard]] bool ok() const;
  [[nodiscard]] Json to_json() const;
  void print() const;
};

/// The instants between which the suite is evaluated.
struct Between {
  Instant start{}, end{};
};
/// Runs the checker on a history, and compares the suite's ledger with the bill that follows from it. Expects
/// `outcome.suite`. `gang_grace`: maximum time until all ranks of a gang run.
Status judge(Stack& stack, const std::set<std::string>& acked, const std::string& history, Between window,
             Outcome& outcome, std::chrono::seconds gang_grace = std::chrono::seconds(300));
/// A trouble if no attempt lost its spot capacity, or if the work lost is a tenth or more of that of restarts from zero.
void judge_interruption(Outcome& outcome);
void note_faults(const FaultPlan& faults, Outcome& outcome);

}  // namespace qm::demo
