#pragma once
#include "checkpoint_answer.hpp"
#include "checkpoint_target.hpp"
#include "facts.hpp"
#include "pods.hpp"
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"
#include "qm/config/checkpoint_contract.hpp"
#include "workers.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace qm::agent {

/// Carries out checkpoint orders: calls every rank of the attempt on a node, and reports the result as one fact.
///
/// Ranks    the pods of the workload in its namespace; see qm::ownership_of(). Other pods that name the workload are
///          not called.
/// Modes    of the contract of the pod (qm/config/checkpoint_contract.hpp), the first that reaches it: a POST to the
///          pod's own address (checkpoint_target.hpp), a file in one of its volumes (checkpoint_files.hpp), a signal
///          (checkpoint_signal.hpp) that the pod answers in the annotation kCheckpointAnswer.
/// Order    {"deadline", "reason", "gang", "attempt", "fence", "uri", "copy"}; the fence is "ATTEMPT-NUMBER".
/// Calls    all ranks at once (kAtOnce at most), until the deadline of the order and at most `timeout`. Transport errors
///          and 5xx are retried, or left to the next mode; any other answer, including a redirect, is final.
/// Answer   see checkpoint_answer.hpp. An answer with another fence is that of an earlier order, and is not accepted.
/// Result   ranks by the step that they saved; ok only if there was at least one rank and all ranks answered.
/// Repeat   an order in progress is not started again. A successful order is acknowledged from memory; any other is
///          carried out again. Memory holds kRemembered acknowledgements.
/// Threads  any; order() does not wait.
class Checkpoints {
 public:
  struct Options {
    std::chrono::milliseconds timeout{std::chrono::minutes(10)};  ///< steady time for a rank, if its deadline is later
    std::string gateway = {};                                     ///< see checkpoint_target()
    std::string kubelet_pods = {};                                ///< "/var/lib/kubelet/pods"; empty = no files
    std::string proc = {};                                        ///< the host's /proc; empty = no signals
  };
  Checkpoints(const Pods& pods, Facts& facts, const DomainClock& clock, Options options);
  ~Checkpoints();
  /// `own`: the nodes of the order that this agent reports.
  void order(const pb::CheckpointOrder& order, const std::vector<std::string>& own);
  void stop();

  static constexpr int kAtOnce = 32;
  static constexpr std::size_t kRemembered = 4096;

 private:
  using Key = std::pair<std::string, std::string>;  // order, node
  struct Round;
  void begin(const std::shared_ptr<Round>& round);
  void answered(const std::shared_ptr<Round>& round, std::size_t index, Result<RankAnswer> answer);
  void finish(Round& round);
  void send(const std::string& node, const pb::CheckpointAck& ack);

  /// One order to one rank.
  struct Call {
    const Rank& rank;
    config::CheckpointContract contract;
    const std::string& fence;
    std::string body;
    SteadyInstant until;
  };
  [[nodiscard]] SteadyInstant end_of(const pb::CheckpointOrder& order) const;
  [[nodiscard]] Result<RankAnswer> ask(const Rank& rank, const Round& round) const;
  [[nodiscard]] Result<RankAnswer> first_mode(const Call& call) const;
  [[nodiscard]] Result<RankAnswer> accepted(const Call& call, const std::string& text) const;
  [[nodiscard]] Result<RankAnswer> over_http(const Call& call, bool only) const;
  [[nodiscard]] Result<std::string> post_once(const Call& call, const CheckpointTarget& target,
                                              std::chrono::milliseconds connect) const;
  [[nodiscard]] Result<RankAnswer> over_file(const Call& call, bool also_signal = false) const;
  [[nodiscard]] Result<RankAnswer> over_signal(const Call& call) const;
  Status signal(const Call& call) const;
  [[nodiscard]] Error silent(const Call& call) const;
  /// Sleeps for the period; false if the agent stops, or if `until` is before its end.
  [[nodiscard]] bool pause(SteadyInstant until, SteadyDuration period) const;

  const Pods& pods_;
  Facts& facts_;
  const DomainClock& clock_;
  const Options options_;
  std::atomic<bool> stopping_ = false;
  std::mutex mutex_;
  std::map<Key, pb::CheckpointAck> done_;  // successful orders
  std::vector<Key> in_progress_;
  Workers workers_{kAtOnce};
};

}  // namespace qm::agent
