#pragma once
#include "qm/base/json.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace qm::admission::exact {

/// Requests counted as others: so much of each output for each unit of the input, which itself counts no more or as before.
///
/// Units    canonical integers; factors are quantities.
/// Source   Kueue, Configuration resources.transformations; pkg/workload/resources.go.
class Transformations {
 public:
  Transformations() = default;
  /// A list of {input, strategy, multiplyBy, outputs}; Retain where no strategy is given.
  explicit Transformations(const Json& list);
  [[nodiscard]] bool empty() const { return rules_.empty(); }
  [[nodiscard]] std::map<std::string, std::int64_t> apply(std::map<std::string, std::int64_t> requests) const;

 private:
  struct Rule {
    bool retains = true;
    std::string times;  ///< another request that the output is multiplied by
    std::map<std::string, Json> outputs;
  };
  std::map<std::string, Rule> rules_;
};

}  // namespace qm::admission::exact
