#pragma once
#include "qm/placement/engine.hpp"

#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace qm::placement::testing {

/// Runs a text table against an engine: a command a line, "=> ..." lines for the expected output.
///
///   node a gpus=8            a ready node with 64 CPUs and 256 GiB; also cpu= mem= label=k=v taint=k:e model= ready=no
///                            ours cause=drain: cordoned by Quartermaster
///                            left=drain: uncordoned by kubectl, which leaves Quartermaster's annotation
///                            external: cordoned by another client
///                            for=w,x: its instance was launched for these workloads
///                            allocatable=N if it differs from gpus, has=3g.40gb:2 instances
///   node-gone a | synced | restart | nodes-listed a b | pods-listed w/1#0 ...
///   want w/1 2x4 prio=5      quota reserved for 2 pods of 4 GPUs; 4x500m = shares; cpu= mem= select=k=v tolerate=k
///                            kind=JobSet in=NAMESPACE: of another object than a Job
///                            mig=1 profile=1g.10gb instead of GPUs; movable=false
///                            checkpoints at the end, if it keeps some
///                            required=LEVEL preferred=LEVEL slice=LEVEL slice-size=N group=NAME exclusive=true
///                            min=N, of all sets; of=N pods have to succeed, more than run at once
///   phase w/1 admitted       pending (no-room: because placement had no nodes), admitted, evicting deadline=60,
///                            finished, cancelled; ended=1 pods have nothing left to do
///                            pods=6 min=4: its Job was scaled up to 6 pods, of which 4 have to run together
///                            position=N: its queue position among those that got quota at once
///                            queue=NAME tree=NAME preempt=own|tree|both: the queues whose lower priorities it may preempt
///   answer w/1 accepted      or the reason of a refusal, with refused=a,b (victims); number=N of the proposal
///                            for a proposal that moves the workload itself: evicting, or still admitted
///   pod w/1#0 on=a running   pending (default), running, succeeded, failed, deleting; again=1 names a successor
///                            tolerates=30: seconds on a node that is not ready, -1 = forever
///                            unreachable=60: seconds on an unreachable node, if they differ
///                            in=NAMESPACE by=UID|none kind=KIND: another namespace or controller than the workload's
///   pod-gone w/1#0 | unmanaged p on=a gpus=1 cpu=2 devices=0,1 | unmanaged-gone p
///   health a gpu=3 cordon | health a ok | drain a | undrain a | devices a w/1#0=3,4
///   bind-failed w/1#0 kInternal | tick 60
///   layout a all-1g.10gb | layout-default all-1g.10gb everywhere | layout-withdrawn a   "dry" stores nothing
///
/// Each step is also undone and repeated, which must give the same output and the same digest, and every law is
/// audited after it.
class Script {
 public:
  explicit Script(Options options = {}) : engine_(options) {}
  /// Returns an empty text if all output is as written; otherwise the table with the actual output.
  std::string run(const std::string& text);
  [[nodiscard]] Engine& engine() { return engine_; }
  /// Steps with these commands at the current time, with all checks.
  Output step(const std::vector<Command>& batch);
  void advance(Duration d) { now_ += d; }
  [[nodiscard]] Instant now() const { return now_; }

 private:
  std::vector<Command> parse(const std::string& line);
  Engine engine_;
  Instant now_ = from_micros(1'000'000'000'000);
  std::map<NodeName, NodeFacts> nodes_;
  std::map<std::string, PodFacts> pods_;
  std::map<WorkloadUid, WorkloadSpec> specs_;
  std::map<WorkloadUid, QuotaFacts> quota_facts_;
  bool show_nodes_ = false;
  std::string broken_;
};

/// An engine restored from the rows only.
std::unique_ptr<Engine> read_back(const Engine& from, const Options& options);
/// One line per event and intent, in order.
std::vector<std::string> render(const Output& output, bool nodes);
/// Of render(), the lines that begin with one of these words, joined by "; ".
std::string lines_of(const Output& output, std::initializer_list<std::string_view> words);
/// A pod set of `count` pods: gpu > 0 whole devices each, or a share.
PodSet pod_set(std::int32_t count, std::int64_t whole, std::int64_t milli = 0);
NodeFacts node_facts(std::int32_t gpus);
/// The first batch of a cluster of nodes n0, n1, ... with eight GPUs each, in zones x and y by turns, without pods.
std::vector<Command> zoned_nodes(int count);
AttemptId attempt_id(const std::string& text);
/// A workload that has got quota for its first attempt: `pods` pods of the template with `gpus` whole GPUs each.
WorkloadUpdated gang_of(const std::string& uid, int pods, const rules::PodTemplate& like, std::int64_t gpus = 1);

}  // namespace qm::placement::testing
