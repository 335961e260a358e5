#pragma once
#include "qm/admission/decisions.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace qm::admission {

/// Kueue's waitForPodsReady: what happens where pods are not ready in time.
struct PodsReady {
  Duration timeout = std::chrono::minutes(30);           ///< from admission on
  Duration recovery_timeout = std::chrono::minutes(30);  ///< from when one is no longer ready; zero = for ever
  bool block_admission = false;                          ///< nobody starts while another has started and is not ready
  bool keeps_age = false;                       ///< whoever was evicted keeps its place; else it goes to the end
  std::optional<std::int32_t> most_requeues;    ///< then it is deactivated
  Duration backoff = std::chrono::seconds(60);  ///< after the first time; doubles with each
  Duration backoff_most = std::chrono::hours(1);
};

struct Options {
  Rules rules;
  Duration backoff = std::chrono::seconds(30);  ///< after the first Short; doubles with each in a row
  Duration backoff_most = std::chrono::minutes(10);
  Duration short_grace = std::chrono::seconds(5);      ///< a Short keeps quota so long, for a promise to arrive
  Duration ask_again = std::chrono::seconds(30);       ///< an unanswered question or order is repeated
  Duration pods_gone_grace = std::chrono::minutes(1);  ///< Released without an order, and the job has not ended
  Duration eviction_grace = std::chrono::seconds(30);  ///< deadline of orders of our own
  Duration retention = std::chrono::hours(24);         ///< of ended workloads whose job is gone
  std::size_t most_ended = 50000;                      ///< such rows; the oldest go first
  std::int64_t give_way_hourly = 100;  ///< workloads that proposals of placement may tell to go, an hour
  std::optional<PodsReady> wait_for_pods_ready;
  bool places = true;  ///< a placement service binds pods; else another scheduler binds all of them, and texts do not advise ours
};

}  // namespace qm::admission
