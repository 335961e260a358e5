#pragma once
#include "qm/autoscaler/engine.hpp"

#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler::testing {

/// Runs a text table against an engine: a command a line, "=> ..." lines for its expected output.
///
///   pool gpu types=h8,a8 markets=od,spot weight=9 zones=z1 gpus=16 cpu=64 after=60 never label=k=v taint=k group=asg
///                            priority=50 unready-after=60 manual has=aws.amazon.com/neuron=16
///                            not-zones=z3 nodes=4 replicas=2 unready=why rule=k=a,b (In) rule=k!=a (NotIn) rule=k (Exists) rule=k>=2
///   pool-gone gpu            the catalog: g1 (1 GPU, 1 USD/h), g4 (4, 5 USD/h), a8 (8 A100, 40), h8 (8 H100, 90);
///                            16 CPUs and 64 GiB for each GPU
///   price h8 z1 30.5
///   want w/1 2x8             2 pods of 8 GPUs; "2x8+1x0" two pod sets, "4x500m" shares, "1xmig"; prio= cpu=
///                            type=inference (label workload-type)
///                            select=k=v (select1=k=v of the second pod set alone) tolerate=k model= ns=
///                            runs: pods without a node of a running gang
///   owner * karpenter team quartermaster     owner of instances: all of them; * = namespaces that name none
///   unwant w | show claims | tick 60
///   cloud i-1 claim=gpu-00001 pool=gpu type=h8 node=n1 zone=z1 spot stopped=30 group=asg launch=gpu-00001x2
///   cloud-lost i-1
///   up gpu-00001 i-1 n1      launched, described by the cloud and its node ready and empty
///   launched gpu-00001 i-1 | ice gpu-00001 | refused gpu-00001 why | unknown gpu-00001 why |
///   quota gpu-00001 type|zone|market|account |
///   terminate-refused gpu-00001 why |
///   terminate-busy gpu-00001
///   group-refused asg 2 why      2 = the instances that it launches anyway
///   group-seen asg desired=2 min=1 warm=1 failed=why hook=terminate:600 i-1=Terminating:Wait
///   node n1 i-1 pods=2 cordoned notready | node-gone n1 | health n1 broken|ok
///   runs w/1 n1 n2 | released w/1 | ended w
///   workload w saves [interval=60] [expected=5] [quorum=1] [type=training] [hours=48]
///   notice n1 120 [maintenance|lifecycle|rebalance] | notice n1 over | instance-notice i-1 120 [kind]
///   ack w/1/n1 n1 step=5 uri=u took=3 [failed] [attempt=2] [number=7]
///   daemonset ns/name milli=150 [tolerate-all=1] [select=k=v] [affinity=k=a,b]
///   pool ... expire=SECONDS grace=SECONDS hash=a images=ami-1 subnets=s-1 groups=sg-1 startup=TAINT
///   cloud i-1 ... image=ami-1 subnet=s-1 groups=sg-1
///   details n1 i-1 hold=ns/pod:ever (or :SECONDS from now) pdb=ns/pod dnd serves taint=KEY gpus=8 unhealthy=SECONDS
///                  (until its repair)
///   buffer ns/name 8x1 | buffer-gone ns/name | overlay NAME adjust=-10% price=1.5 cap=RESOURCE/2 weight=1 KEY=VALUE |
///   overlay-gone NAME
///   want ... milli=1500 ext=efa=1 affinity=k=a,b;k2 apart=web spread=web (over zones)
///                            room=2,1 roomzone=z1: pods of each set that fit running nodes
///   | joins commands of one line into one batch
///
/// Times in expected lines are seconds after the start. Each step is also undone and executed again, which must
/// give the same output and the same digest.
class Script {
 public:
  explicit Script(Options options = {});
  /// Empty if all output was as expected; otherwise the table with the actual output.
  std::string run(const std::string& text);
  Output step(const std::vector<Command>& batch);
  void advance(Duration d) { now_ += d; }
  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] Instant now() const { return now_; }
  /// The errors that step() found since the last call.
  std::string complaint() { return std::exchange(broken_, {}); }
  std::vector<std::string> render(const Output& output) const;
  /// The commands of one line.
  std::vector<Command> commands(const std::string& line) { return parse(line); }

 private:
  std::vector<Command> parse(const std::string& line);
  Engine engine_;
  Instant now_ = kStart;
  static constexpr Instant kStart = from_micros(1'000'000'000'000);
  std::map<std::string, Pool> pools_;
  std::vector<Command> parse_lifecycle(const std::vector<std::string>& words);
  std::map<std::string, Buffer> buffers_;
  std::map<std::string, Overlay> overlays_;
  std::vector<PodSet> daemon_sets_;
  std::map<WorkloadUid, DemandUpdated::Item> demand_;
  std::map<InstanceId, InstanceFact> cloud_;
  std::map<std::string, ScalingGroup> groups_;
  bool show_claims_ = false;
  std::string broken_;
};

/// Expects that the table holds for a new engine.
void expect(const std::string& table);
/// The same, and returns the explanation of the first pending gang; empty if there is none.
std::string why(const std::string& table);

/// The start of many tables: `w` is pending, and the one instance that fits it is requested.
inline constexpr const char* kLaunched = R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
)";
/// The same, and the instance runs `w` on node n1.
inline constexpr const char* kRunning = R"(
    pool p types=a8
    want w/1 1x8
    => launch p-00001 a8 on-demand
    => promise w/1 by=240 p-00001
    up p-00001 i-1 n1
    node n1 i-1 pods=1
)";

std::vector<InstanceType> small_catalog();
AttemptId attempt_id(const std::string& text);
PodSet pod_set(std::int32_t count, std::int64_t gpus);

}  // namespace qm::autoscaler::testing
