#pragma once
#include "qm/base/time.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::fleet {

/// Counts the steps of distributed ranks: one step for each second of domain time in which the whole gang runs.
///
/// A gang is one attempt of one job. It is whole while every rank runs or has succeeded. Only then do its ranks make
/// steps, because ranks of one training step wait for each other. A pod without a gang is a gang of one.
///
/// Pure: time is an argument.
class GangClock {
 public:
  struct Rank {
    std::string gang, uid;  ///< key of the gang; of the pod
    std::int64_t index = 0, size = 1;
    std::int64_t start_step = 0;
    std::set<std::int64_t> done_before;  ///< ranks that succeeded in earlier attempts
  };
  /// The rank runs. A gang that becomes whole starts to count now.
  void join(const Rank& rank, Instant now);
  /// The rank makes no more steps (it ended, hangs or is gone). `succeeded` ranks do not stop the others.
  void leave(const std::string& pod, bool succeeded, Instant now);
  /// Removes the gang after all its pods are gone.
  void forget(const std::string& gang);

  /// 0 for an unknown pod.
  [[nodiscard]] std::int64_t step(const std::string& pod, Instant now) const;
  /// The instant at which the pod reaches that step if nothing changes; nullopt while its gang is not whole.
  [[nodiscard]] std::optional<Instant> reaches(const std::string& pod, std::int64_t step, Instant now) const;
  [[nodiscard]] bool whole(const std::string& gang) const { return find(gang).since.has_value(); }
  [[nodiscard]] bool ever_whole(const std::string& gang) const { return find(gang).was_whole; }
  [[nodiscard]] std::size_t running(const std::string& gang) const { return find(gang).running.size(); }
  /// Pods that make steps now or wait for the rest of the gang.
  [[nodiscard]] std::vector<std::string> members(const std::string& gang) const;

 private:
  struct Member {
    std::string gang;
    std::int64_t index;
    Duration progress;  // up to `since` of its gang, or final while the gang is not whole
  };
  struct Gang {
    std::int64_t size = 0;
    std::map<std::string, std::int64_t> running;  // pod -> index
    std::set<std::string> joined;
    std::set<std::int64_t> done;
    std::optional<Instant> since;  // the gang is whole from then on
    bool was_whole = false;
  };
  [[nodiscard]] const Gang& find(const std::string& gang) const;  ///< an empty gang if it is not known
  void settle(Gang& gang, Instant now);
  [[nodiscard]] Duration progress(const std::string& pod, Instant now) const;

  std::map<std::string, Gang> gangs_;
  std::map<std::string, Member> members_;  // a pod that left keeps its last step until its gang is removed
};

}  // namespace qm::fleet
