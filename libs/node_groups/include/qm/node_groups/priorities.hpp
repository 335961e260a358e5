#pragma once
#include "qm/base/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qm::node_groups {

/// The name of the ConfigMap, and the key with its document.
inline constexpr std::string_view kPriorityExpander = "cluster-autoscaler-priority-expander";
inline constexpr std::string_view kPriorities = "priorities";

/// Which number is the highest priority. Cluster Autoscaler: the highest number.
enum class PriorityOrder : std::uint8_t { kHighestWins, kLowestWins };

/// The document of the priority expander: numbers, each with regular expressions of group names.
///
/// Order    of several expressions that match a name, the number that wins.
/// Threads  any; values.
/// Source   Cluster Autoscaler, expander/priority/readme.md; expressions have the syntax of RE2 and match a part.
class Priorities {
 public:
  /// `text`: YAML, "10: [.*-ondemand.*]". kInvalid has the line, the number or the expression.
  [[nodiscard]] static Result<Priorities> parse(std::string_view text);

  Priorities();
  Priorities(const Priorities&);
  Priorities(Priorities&&) noexcept;
  Priorities& operator=(const Priorities&);
  Priorities& operator=(Priorities&&) noexcept;
  ~Priorities();

  /// The number of a group; nullopt if no expression matches its name. Cost: all expressions.
  [[nodiscard]] std::optional<std::int64_t> number_of(const std::string& group, PriorityOrder order) const;
  /// Warnings about documents that a reader may understand the other way round: spot capacity would be preferred to
  /// on-demand capacity, or Cluster Autoscaler itself would decide otherwise.
  [[nodiscard]] std::vector<std::string> lint(PriorityOrder order) const;

 private:
  struct Row;
  std::vector<Row> rows_;  ///< by number
};

}  // namespace qm::node_groups
