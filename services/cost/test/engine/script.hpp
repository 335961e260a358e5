#pragma once
#include "qm/cost/engine.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

/// Worked examples as text: a command a line, the expected lines under it, each after "> ".
/// Times are seconds of November 2026.
///
///   price TYPE MARKET USD [from=T]            reprice (the next price begins a new plan)
///   spot TYPE ZONE USD from=T
///   launch ID TYPE ZONE MARKET gpus=N at=T    stop ID at=T
///   node NAME ID STATE at=T [gpus=N]          STATE: ready notready unhealthy draining
///   bind WORKLOAD/ATTEMPT TEAM NS NODE DEVICES at=T   DEVICES: 0,1 or 0:250
///   release WORKLOAD/ATTEMPT at=T [on=NODE]
///   forget ID               forget WORKLOAD/ATTEMPT      its owner has removed it
///   step T                  runs everything above in one step; prints the entries
///   statement T [PERIOD]    use T0 T1 GROUP    counts
namespace qm::cost::test {

class Script {
 public:
  explicit Script(Options options = {}) : engine(options) {}
  /// Runs the text and returns it with the actual output lines of the engine.
  std::string run(std::string_view text);

  Engine engine;

 private:
  std::string line(const std::vector<std::string>& words);
  std::vector<Engine::Command> pending_;
  std::map<std::string, InstanceUpdated> instances_;
  std::map<std::string, AssignmentUpdated> assignments_;
  PricePlan plan_{"test", {}};
  std::uint64_t version_ = 0;
};

/// The time for a number in a script.
Instant at_second(double s);

/// The text without indentation and empty lines: the form in which run() is compared.
std::string trimmed(std::string_view text);

}  // namespace qm::cost::test
