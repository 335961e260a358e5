#pragma once
#include "checkpoint_target.hpp"
#include "facts.hpp"
#include "pods.hpp"
#include "qm/base/result.hpp"
#include "qm/clock/clock.hpp"
#include "workers.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace qm::agent {

struct Saved {
  std::int64_t step = 0;
  std::string uri;
};

/// Carries out checkpoint orders: calls every rank of the attempt on a node, and reports the result as one fact.
///
/// Ranks    the pods of the workload in its namespace; see qm::ownership_of(). Other pods that name the workload are
///          not called.
/// Calls    POST to the pod's own address (checkpoint_target.hpp), all ranks at once (kAtOnce at most), `timeout` of
///          steady time each. Transport errors and 5xx are retried within that time; any other answer, including a
///          redirect, is final.
/// Answer   at most kMaxAnswer bytes. The lowest step and its URI (check_resume_uri()); ok only if there was at least
///          one rank and all ranks answered 200.
/// Repeat   an order in progress is not started again. A successful order is acknowledged from memory; any other is
///          carried out again. Memory holds kRemembered acknowledgements.
/// Threads  any; order() does not wait.
class Checkpoints {
 public:
  static constexpr std::size_t kMaxAnswer = 8 << 10;
  struct Options {
    std::chrono::milliseconds timeout{5000};
    std::string gateway = {};  ///< see checkpoint_target()
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
  void answered(const std::shared_ptr<Round>& round, std::size_t index, Result<Saved> answer);
  void finish(Round& round);
  void send(const std::string& node, const pb::CheckpointAck& ack);
  [[nodiscard]] Result<Saved> ask(const Rank& rank, const std::string& body) const;
  [[nodiscard]] Result<Saved> ask_once(const Rank& rank, const CheckpointTarget& target, const std::string& body,
                                       SteadyInstant until) const;

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
