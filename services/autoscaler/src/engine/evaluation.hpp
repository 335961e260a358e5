#pragma once
#include "parts.hpp"

#include <optional>

namespace qm::autoscaler {

/// The evaluation of a step: a fixed order of phases over the tables, so that the order in which observations of
/// different sources arrive does not matter.
class Evaluation {
 public:
  explicit Evaluation(EngineParts& parts) : parts_(parts), state_(parts.state) {}

  /// Runs all phases, and sets the published claims and the next timer of the output.
  void run();

 private:
  [[nodiscard]] std::optional<Instant> next_timer() const;
  [[nodiscard]] std::size_t leaving_claims() const;
  /// One claim, one instance; a launch exceeds no limit. Aborts on a violation.
  void check_laws() const;

  EngineParts& parts_;
  State& state_;
};

}  // namespace qm::autoscaler
