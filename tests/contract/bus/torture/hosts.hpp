#pragma once
#include "qm/bus/bus.hpp"

#include <memory>
#include <string>

namespace qm::torture {

struct Settings {
  std::string topic;
  std::string state;  ///< the file that survives the process
  int keys = 0;
  int versions = 0;
  std::string conninfo;  ///< of the hosts' store
  std::string shard;
};

inline std::string key_name(int key) { return "k" + std::to_string(key); }

/// Runs a service's host over PostgreSQL and the bus, until every key is at its last version and no work is open.
/// Each step of a key has separate effects: a row of the state, a row appended to the table "applied", and a line in
/// the state file of the settings, written by an intent; this line may be repeated.
///
/// serve: requests move the keys, and every move is an event on the topic. apply: those events move the keys.
/// Returns the exit status: 4 = a version was skipped.
int serve(std::shared_ptr<bus::Bus> bus, const Settings& settings);
int apply(std::shared_ptr<bus::Bus> bus, const Settings& settings);

}  // namespace qm::torture
