#pragma once
#include <iosfwd>
#include <stop_token>
#include <string>
#include <vector>

namespace qm::cli {

/// How an invocation of qmctl ends.
enum ExitCode : int {
  kDone = 0,
  kFailed = 1,       ///< a service refused, or what it said is wrong (a statement that does not add up)
  kUsage = 2,        ///< verb, flag, file or endpoints file: nothing was sent
  kUnreachable = 3,  ///< the service is away, or did not answer within --timeout
  kNotFound = 4,     ///< no such workload
  kUnfit = 2,        ///< preflight, node verify: something that must be there is not
};

struct Streams {
  std::istream& in;   ///< read where -f - is given
  std::ostream& out;  ///< answers
  std::ostream& err;  ///< complaints and notes
};

/// qmctl as a function: one verb, over the gRPC API of the services that the endpoints file names.
///
/// Args     without the program's name. Environment: QM_ENDPOINTS.
/// Threads  one call at a time. `stop` ends a stream with kDone and any other call with kFailed.
/// Fails    never by exception; the answer is the exit code, and what went wrong stands on `err` with field and
///          remedy.
int run(const std::vector<std::string>& args, Streams streams, const std::stop_token& stop = {});

}  // namespace qm::cli
