#pragma once
#include "options.hpp"
#include "progress.hpp"
#include "qm/trace/trace.hpp"
#include "report.hpp"
#include "stack.hpp"

namespace qm::demo {

/// Jobs for a real control plane, whose clock cannot be sped up: single GPUs to gangs of eight nodes that run for
/// about a minute, of six teams, arriving evenly. The same seed gives the same jobs except for the team names, which
/// are unique to the run.
Result<trace::Window> short_jobs(const Options& options);
/// The number of pods of a job with its number of GPUs.
[[nodiscard]] std::int32_t pods_of(const trace::Job& job);

/// The main job on it: submits, injects faults, waits until all jobs have ended, and checks what the server showed.
Result<Outcome> replay_on_cluster(const Options& options, Stack& stack, const trace::Window& window,
                                  Progress& progress);

}  // namespace qm::demo
