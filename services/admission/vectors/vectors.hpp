#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <vector>

namespace qm::admission::vectors {

/// The cases of a file: a JSON array, or JSON lines; either may be gzipped. Fails: kNotFound, kInvalid with
/// file and line.
Result<std::vector<Json>> read_records(const std::string& path);
/// Reads a file with one JSON value.
Result<Json> read_json(const std::string& path);

/// Compares a list of Kueue's gates, {NAME: {"default": ...}}, with the defaults of the replays: text of the
/// differences; empty where there are none.
std::string other_defaults(const Json& gates);

/// Replays one recorded case through the engine. Returns an empty string where the result equals the record, else the
/// first difference. A case that needs an unsupported feature fails with a message.
using Replay = std::string (*)(const Json& record);

std::string replay_random(const Json& record);              ///< traces of many cycles
std::string replay_quota(const Json& record);               ///< the quota tree
std::string replay_flavors(const Json& record);             ///< the choice of flavors
std::string replay_placement_requests(const Json& record);  ///< a part: the pods to place of an assignment
std::string replay_total(const Json& record);               ///< a part: its total requests
std::string replay_borrowing(const Json& record);           ///< a part: whether it borrows
std::string replay_preemption(const Json& record);          ///< the search for victims
std::string replay_cycle(const Json& record);               ///< cycles on given objects
std::string replay_order(const Json& record);               ///< the order of nominees
std::string replay_return(const Json& record);              ///< a part: requeue and status of a workload
std::string replay_displacing(const Json& record);          ///< a part: the result of issuing preemptions
std::string replay_entry_penalty(const Json& record);       ///< whether an admission counts as usage at once
std::string replay_net_usage(const Json& record);           ///< a part of flavors: usage that new nodes add
std::string replay_tas_unit(const Json& record);            ///< the search for domains

/// Result of a random trace where each step runs until no cycle changes anything, or for 200 cycles.
struct Rest {
  bool terminates = true;
  int preempted = 0;
  int repeats = 0;  ///< largest number of preemptions of a workload by the same one for the same reason in one step
  int waiting_repeats = 0;  ///< the same, without an admission of that one in between
};
Rest rest_at(const Json& record, bool loop_free);

}  // namespace qm::admission::vectors
