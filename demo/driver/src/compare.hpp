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

/// Jobs for a comparison: they never end, and together they ask for three quarters of the GPUs that `nodes` machines
/// have.
trace::Window lasting_jobs(const Options& options);

/// The same Jobs on the same nodes, once by admission and placement and once by the cluster's own scheduler, one
/// after the other. Both get plain Jobs from one client; the controller-manager makes the pods for both.
struct Contest {
  struct Side {
    std::string who;
    std::int64_t jobs = 0, pods = 0, gpus = 0;  ///< asked for
    double made_s = 0;                          ///< until every Job was made
    double all_s = 0;                           ///< from the first Job made to the last pod bound
    witness::Pace bound;
    witness::Packing packing;               ///< when all were bound; where pods end meanwhile, in the mean until then
    std::optional<std::int64_t> partial{};  ///< gangs of which only a part was bound when it was over, where none ended
  };
  std::int64_t nodes = 0;
  bool lasting = true;  ///< no pod ends by itself
  std::vector<Side> sides;
  [[nodiscard]] Json to_json() const;
  void print() const;
};
Result<Contest> compare(const Options& options, Stack& stack, const trace::Window& window, Progress& progress);

}  // namespace qm::demo
