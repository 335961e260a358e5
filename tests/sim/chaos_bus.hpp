#pragma once
#include "qm/bus/bus.hpp"
#include "random.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace qm::sim {

/// The faults that a bus injects into its readers; all zero is a bus without faults.
struct BusFaults {
  int hold_per_mille = 0;                       ///< a poll returns only a part of the messages
  int rewind_per_mille = 0;                     ///< a partition is assigned again and read from its cursor
  int cut_per_mille = 0;                        ///< a poll fails: the reader restarts from its cursor
  int skip_per_mille = 0;                       ///< planted bug: a message is lost without a gap
  bool hide_gaps = false;                       ///< planted bug: offsets are contiguous where messages are missing
  bool hide_terms = false;                      ///< planted bug: events have no term
  std::map<std::string, std::uint64_t> losses;  ///< by topic: how often its log has lost messages
  std::uint64_t recreations = 0;                ///< topics created again: half of the readers get a carrier error
};

/// A bus of one service in front of the common memory bus: partitions advance at different speeds, repeat, and fail.
/// Offsets do not change, so all its faults are possible on Kafka too (except `skip`).
///
/// `lose` is a planted bug: messages for which it returns true never arrive.
std::shared_ptr<bus::Bus> chaos_bus(std::shared_ptr<bus::Bus> inner, Random& random, const BusFaults& faults,
                                    std::function<void(const std::string&)> broken,
                                    std::function<bool(const bus::Message&)> lose = {});

}  // namespace qm::sim
