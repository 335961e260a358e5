#pragma once
#include "qm/base/result.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace qm::bus {

/// Offsets of one partition.
struct PartitionLag {
  std::int64_t latest = 0;
  std::int64_t committed = -1;  ///< by the consumer group; -1: none yet
};

/// Reads how far a consumer group of a foreign Kafka cluster is, without joining the group.
///
/// Threads  one at a time. Holds one connection to the brokers for each (brokers, group).
/// Fails    kUnavailable: the brokers do not answer in time; kNotFound: there is no such topic; kPermissionDenied.
class LagReader {
 public:
  explicit LagReader(std::chrono::milliseconds timeout = std::chrono::seconds(3));
  ~LagReader();
  /// `brokers` is "host:port,host:port"; the result is by partition.
  Result<std::map<std::int32_t, PartitionLag>> read(const std::string& brokers, const std::string& group,
                                                    const std::string& topic);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::bus
