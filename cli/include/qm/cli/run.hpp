#pragma once
#include <iosfwd>
#include <stop_token>
#include <string>
#include <vector>

namespace qm::cli {

/// The exit codes of qmctl.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,       ///< a service refused, or its answer is wrong (a statement that does not add up)
  kUsage = 2,        ///< wrong verb, flag, file or endpoints file: nothing was sent
  kUnreachable = 3,  ///< the service is unavailable, or did not answer within --timeout
  kNotFound = 4,     ///< no such workload
  kUnfit = 2,        ///< preflight, node verify: a required component is missing; lint: there is a finding
};

struct Streams {
  std::istream& in;   ///< read for -f -
  std::ostream& out;  ///< answers
  std::ostream& err;  ///< errors and notes
};

/// qmctl as a function: runs one verb over the gRPC API of the services in the endpoints file.
///
/// Args     without the program's name. Environment: QM_ENDPOINTS, QM_REPLAY.
/// Threads  one call at a time. `stop` ends a stream with kDone and any other call with kFailed.
/// Fails    never by exception; the result is the exit code, and `err` receives the error with its field and remedy.
int run(const std::vector<std::string>& args, Streams streams, const std::stop_token& stop = {});

}  // namespace qm::cli
