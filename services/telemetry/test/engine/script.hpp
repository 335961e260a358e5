#pragma once
#include "qm/telemetry/engine.hpp"

#include <string>
#include <vector>

namespace qm::telemetry::testing {

/// Runs a text table against an engine: a batch a line (commands separated by |), "=> ..." lines for what must come out.
///
///   xid a 79 gpu=3             node a reports an XID; gpu defaults to 0; recovery=1 the driver's recovery action; line=a_b what
///                              the kernel's log says, with "_" for blanks; standing = at an agent's first look; cleared = shown no
///                              longer; boot=b1 of the node; uuid=GPU-y of the GPU, none = it has none; ago=60 so many seconds
///                              before now by the node's clock
///   devices a x/p=0,1 x/q=2    what pods of the node hold
///   signs a key=value own/     labels that its agent gives it, and a prefix that is the agent's
///   notice a i-1 stop in=120   capacity of the instance is taken in so many seconds; the action defaults to terminate
///   order o1 w/1 a b in=110    a checkpoint order for the nodes; settled = it has been settled
///   ack o1 a step=70 bad       a node's answer; bad = not saved
///   usage a gpu=1 0.5 | gone a | tick 60
///   open a                     no command: => open o1 for each order that an agent of the node would be told
///
/// Each step is also taken back and done again, which must give the same output and the same digest.
class Script {
 public:
  /// Empty where all came as written; otherwise the table with what came instead.
  std::string run(const std::string& text);
  [[nodiscard]] Engine& engine() { return engine_; }
  /// Steps with these commands at the present time, with all checks.
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
/// An engine with the same rows, as one that was loaded from the store.
Engine restarted(const Engine& engine);

}  // namespace qm::telemetry::testing
