#pragma once
#include "qm/base/json.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace qm::admission::kueue {

/// Counts requests as other resources: an amount of each output per unit of the input. The input is then dropped or
/// retained.
///
/// Units    canonical integers; factors are quantities.
/// Source   Kueue, Configuration resources.transformations; pkg/workload/resources.go.
class Transformations {
 public:
  Transformations() = default;
  /// A list of {input, strategy, multiplyBy, outputs}; the default strategy is Retain.
  explicit Transformations(const Json& list);
  [[nodiscard]] bool empty() const { return rules_.empty(); }
  [[nodiscard]] std::map<std::string, std::int64_t> apply(std::map<std::string, std::int64_t> requests) const;

 private:
  struct Rule {
    bool retains = true;
    std::string times;  ///< another request by which the output is multiplied
    std::map<std::string, Json> outputs;
  };
  std::map<std::string, Rule> rules_;
};

}  // namespace qm::admission::kueue
