#pragma once
#include "qm/base/json.hpp"

#include <string>
#include <vector>

namespace qm::admission::vectors {

/// The cases of a file: a JSON array, or JSON lines; either may be gzipped. Fails: kNotFound, kInvalid with file and line.
Result<std::vector<Json>> read_records(const std::string& path);
/// A file that is one JSON value.
Result<Json> read_json(const std::string& path);

/// Where a list of Kueue's gates, as {NAME: {"default": ...}}, has other defaults than the replays take; empty where nowhere.
std::string other_defaults(const Json& gates);

/// Each replays one recorded case through the engine: empty where what comes out is what was recorded, else the first
/// difference. A case that needs what the engine does not have fails and says so.
using Replay = std::string (*)(const Json& record);

std::string replay_random(const Json& record);         ///< traces of many cycles
std::string replay_quota(const Json& record);          ///< the quota tree
std::string replay_flavors(const Json& record);        ///< the choice of flavors
std::string replay_wishes(const Json& record);         ///< of these: what of an assignment is to be placed
std::string replay_total(const Json& record);          ///< and what all of it asks for
std::string replay_borrowing(const Json& record);      ///< and whether it borrows
std::string replay_preemption(const Json& record);     ///< the search for victims
std::string replay_cycle(const Json& record);          ///< cycles on given objects
std::string replay_order(const Json& record);          ///< the order of nominees
std::string replay_return(const Json& record);         ///< of these: where a workload goes, and what its status says
std::string replay_displacing(const Json& record);     ///< what came of orders to displace others
std::string replay_entry_penalty(const Json& record);  ///< whether an admission counts as usage at once
std::string replay_net_usage(const Json& record);      ///< of flavors: what new nodes add to the old ones
std::string replay_tas_unit(const Json& record);       ///< the search for domains

/// What a random trace comes to when each step goes on until nothing happens any more, or for 200 cycles.
struct Rest {
  bool comes_to_rest = true;
  int preempted = 0;
  int repeats = 0;  ///< how often at most one workload was preempted by the same one for the same reason in a step
  int waiting_repeats = 0;  ///< the same without that one having been admitted in between
};
Rest rest_of(const Json& record, bool loop_free);

}  // namespace qm::admission::vectors
