#pragma once
#include "options.hpp"
#include "progress.hpp"
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/trace/trace.hpp"
#include "qm/witness/witness.hpp"
#include "stack.hpp"

#include <optional>

namespace qm::demo {

/// Jobs for a comparison: they never end, and together they request three quarters of the GPUs of `nodes` nodes.
trace::Window lasting_jobs(const Options& options);

/// The same Jobs on the same nodes, once with admission and placement and once with the cluster's own scheduler, one
/// after the other. Both get plain Jobs from one client; the controller-manager creates the pods for both.
struct Contest {
  struct Side {
    std::string scheduler;
    std::int64_t jobs = 0, pods = 0, gpus = 0;  ///< requested
    double made_s = 0;                          ///< until every Job was created
    double all_s = 0;                           ///< from the first Job created to the last pod bound
    witness::Pace bound;
    witness::Packing packing;               ///< when all were bound; if pods end meanwhile, the mean until then
    std::optional<std::int64_t> partial{};  ///< gangs that were only partly bound at the end, if no pod ends
  };
  std::int64_t nodes = 0;
  bool lasting = true;  ///< no pod ends by itself
  std::vector<Side> sides;
  [[nodiscard]] Json to_json() const;
  void print() const;
};
Result<Contest> compare(const Options& options, Stack& stack, const trace::Window& window, Progress& progress);

}  // namespace qm::demo
