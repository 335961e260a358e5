#pragma once
#include "qm/base/time.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::autoscaler::replicas {

/// Amounts by the name of the resource, in thousandths.
using Amounts = std::map<std::string, std::int64_t>;

struct Pod {
  enum class Phase { kPending, kRunning, kSucceeded, kFailed };
  std::string name;
  Phase phase = Phase::kRunning;
  std::optional<bool> ready = true;  ///< the condition Ready; empty if it is absent
  Instant ready_since{};             ///< its last transition
  std::optional<Instant> start;      ///< status.startTime
  bool deleted = false;
  std::map<std::string, Amounts> containers;  ///< requests
  std::map<std::string, Amounts> sidecars;    ///< of restartable init containers
  Amounts pod_requests;                       ///< spec.resources.requests of the pod
};

/// A sample of the resource metrics API, of the `window` that ends at `at`.
struct ResourceSample {
  std::string pod;
  Instant at{};
  Duration window = std::chrono::seconds(60);
  std::map<std::string, Amounts> usage;  ///< by container
};

struct PodValue {
  std::string pod;
  std::int64_t milli = 0;
};

/// Answers of the metrics APIs. What is absent failed; an empty list is an answer without items.
struct Readings {
  std::optional<std::vector<ResourceSample>> resource;
  std::map<std::string, std::vector<PodValue>> pods;
  std::map<std::string, std::int64_t> object;
  std::map<std::string, std::vector<std::int64_t>> external;
};

/// What a sync of an autoscaler sees.
struct Observation {
  Instant now{};
  std::int32_t replicas = 0;         ///< spec.replicas of the target
  std::int32_t status_replicas = 0;  ///< status.replicas of the target
  std::vector<Pod> pods;             ///< those that its selector matches
  Readings readings;
};

}  // namespace qm::autoscaler::replicas
