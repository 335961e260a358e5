#pragma once
#include "options.hpp"
#include "progress.hpp"
#include "qm/trace/trace.hpp"
#include "report.hpp"
#include "stack.hpp"

namespace qm::demo {

/// Jobs for a real control plane, whose clock cannot be sped up: single GPUs to gangs of eight machines that run for a
/// minute or so, of six teams, arriving evenly. Same seed, same jobs but for the names of the teams, which are the
/// run's own.
Result<trace::Window> short_jobs(const Options& options);
/// Pods that a job of so many GPUs has.
[[nodiscard]] std::int32_t pods_of(const trace::Job& job);

/// The main job there: submit, break things on the way, wait until all has ended, and judge what the server showed.
Result<Outcome> replay_on_cluster(const Options& options, Stack& stack, const trace::Window& window,
                                  Progress& progress);

}  // namespace qm::demo
