#pragma once
#include "facts.hpp"
#include "instances/claims.hpp"
#include "qm/autoscaler/scale_down/scale_down.hpp"
#include "state.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// Scale-down of node groups. The library `scale_down` decides; here its decision becomes drains.
///
/// Cost     as find_unneeded when pods, nodes or groups have changed; else by the claims.
class ScaleDown {
 public:
  ScaleDown(State& state, const Facts& facts, Claims& claims)
      : state_(state), options_(state.options), tables_(state.tables), facts_(facts), claims_(claims) {}

  /// Nodes whose pods did not leave in time return to service.
  void give_up();
  /// Starts the removals that are due, and records when the next ones are.
  void run();
  /// One line for each node that is not needed and stays, and for those that are needed although they are hardly used.
  void explain(std::vector<std::string>& lines, Instant now) const;

 private:
  [[nodiscard]] ScaleDownProblem problem(std::vector<ClaimName>& claims) const;
  /// What keeps nodes, by claim and by node.
  struct Needs {
    std::set<ClaimName> planned;
    std::map<NodeName, const AttemptId*> gangs;
  };
  [[nodiscard]] std::string kept_by(const ClaimName& name, const Claim& claim, const Needs& needs) const;
  [[nodiscard]] bool takes_pods(const NodeName& name) const;
  [[nodiscard]] const UnneededNodes& found(const ScaleDownProblem& problem);
  [[nodiscard]] std::optional<Instant> delayed_until() const;
  void note_removals();
  void forget_unneeded(const std::set<NodeName>& others);
  void wake(Instant at);

  State& state_;
  const Options& options_;
  Tables& tables_;
  const Facts& facts_;
  Claims& claims_;
  /// The last search: it depends on its problem alone, and on the rows to which that points.
  struct Search {
    std::uint64_t version = 0;
    ScaleDownProblem problem;
    UnneededNodes found;
  };
  std::optional<Search> last_;
};

}  // namespace qm::autoscaler
