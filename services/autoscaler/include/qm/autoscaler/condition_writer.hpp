#pragma once
#include "qm/autoscaler/disrupt/conditions.hpp"
#include "qm/base/json.hpp"
#include "qm/clock/clock.hpp"
#include "qm/kube/client.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::autoscaler {

/// Writes the conditions of objects of one kind to their status, when they change. Times of transitions survive a restart:
/// the first write reads the object.
///
/// Absent   an object that does not exist is not written again until forget_others() has dropped it.
/// Errors   are logged once for each text; the next write tries again.
/// Threads  one.
class ConditionWriter {
 public:
  ConditionWriter(kube::Client& client, kube::Locate locate, const DomainClock& clock)
      : client_(client), locate_(std::move(locate)), clock_(clock) {}

  using Key = std::pair<std::string, std::string>;  ///< namespace, name
  /// `others`: further fields of the status.
  void write(const Key& key, const std::vector<Condition>& conditions, const Json& others = Json::object());
  /// Forgets objects that are not among these.
  void forget_others(const std::set<Key>& keys);

 private:
  struct Published {
    std::vector<Condition> conditions;
    std::map<std::string, std::string> since;
    std::string others, error;
    bool read = false, absent = false;
  };
  kube::Client& client_;
  const kube::Locate locate_;
  const DomainClock& clock_;
  std::optional<kube::Resource> kind_;  ///< where the kind is served
  std::map<Key, Published> published_;
};

}  // namespace qm::autoscaler
