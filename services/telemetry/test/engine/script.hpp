#pragma once
#include "qm/telemetry/engine.hpp"

#include <string>
#include <vector>

namespace qm::telemetry::testing {

/// Runs a text table against an engine: a batch a line (commands separated by |), "=> ..." lines for its expected
/// output.
///
///   xid a 79 gpu=3             node a reports an XID; gpu defaults to 0; recovery=1 the driver's recovery action;
///                              line=a_b the line of the kernel log, with "_" for blanks; standing = at an agent's
///                              first scrape; cleared = no longer shown; boot=b1 of the node; uuid=GPU-y of the GPU,
///                              none = it has none; ago=60 so many seconds before now by the node's clock
///   devices a x/p=0,1 x/q=2    devices of the node's pods
///   signs a key=value own/     labels from its agent, and a prefix that the agent owns
///   notice a i-1 stop in=120   the capacity is reclaimed in so many seconds; the action defaults to terminate; kind=maintenance
///   order o1 w/1 a b in=110    a checkpoint order for the nodes; settled = it is complete
///   ack o1 a step=70 bad       a node's acknowledgement; bad = not saved
///   usage a gpu=1 0.5 | gone a | tick 60
///   open a                     not a command: => open o1 for each order that an agent of the node would get
///
/// Each step is also undone and executed again, which must give the same output and the same digest.
class Script {
 public:
  /// Empty if all output was as expected; otherwise the table with the actual output.
  std::string run(const std::string& text);
  [[nodiscard]] Engine& engine() { return engine_; }
  /// Steps with these commands at the current time, with all checks.
  Output step(const std::vector<Command>& batch);
  void advance(Duration d) { now_ += d; }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  std::vector<Command> parse(const std::string& line, std::vector<std::string>& got);
  Engine engine_;
  Instant now_ = from_micros(1'000'000'000'000);
  std::string broken_;
};

/// One line per event, in order of kind.
std::vector<std::string> render(const Output& output);
/// An engine with the same rows, as after loading them from the store.
Engine restarted(const Engine& engine);

}  // namespace qm::telemetry::testing
