#pragma once
#include "qm/admission/scheduler/rules.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace qm::admission {

/// Kueue's waitForPodsReady: what happens if pods are not ready in time.
struct PodsReady {
  Duration timeout = std::chrono::minutes(30);           ///< from admission
  Duration recovery_timeout = std::chrono::minutes(30);  ///< from when a pod is no longer ready; zero = no limit
  bool block_admission = false;                          ///< no workload starts while a started one is not ready
  bool keeps_age = false;                       ///< evicted workloads keep their queue position; else they go last
  std::optional<std::int32_t> most_requeues;    ///< requeues before deactivation
  Duration backoff = std::chrono::seconds(60);  ///< after the first time; doubles each time
  Duration backoff_most = std::chrono::hours(1);
};

struct Options {
  Rules rules;
  Duration backoff = std::chrono::seconds(30);  ///< after the first Short; doubles with each successive one
  Duration backoff_most = std::chrono::minutes(10);
  Duration short_grace = std::chrono::seconds(5);      ///< a Short keeps quota this long, for a promise to arrive
  Duration retry_interval = std::chrono::seconds(30);  ///< an unanswered request or order is published again after this
  Duration pods_gone_grace = std::chrono::minutes(1);  ///< after Released without eviction, if the job has not ended
  Duration eviction_grace = std::chrono::seconds(30);  ///< deadline of evictions that admission decides
  Duration retention = std::chrono::hours(24);         ///< of ended workloads with a deleted job
  std::size_t most_ended = 50000;                      ///< maximum of such rows; the oldest are removed first
  std::int64_t disruptions_per_hour = 100;             ///< workloads that proposals of placement may evict, per hour
  std::optional<PodsReady> wait_for_pods_ready;
  /// A gang with nodes starts when fewer than this many pods of gangs that are not larger are unbound; 0 = at once. So
  /// gangs become complete one after the other.
  std::int64_t start_window = 256;
  /// A gang of at least that many pods starts so much later, in case that smaller ones follow.
  Duration start_gather = std::chrono::milliseconds(500);
  /// A placement service binds pods. Otherwise another scheduler binds all of them, and texts do not advise placement.
  bool places = true;
};

}  // namespace qm::admission
