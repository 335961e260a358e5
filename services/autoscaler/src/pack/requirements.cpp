#include "qm/autoscaler/pack/problem.hpp"
#include "qm/base/parse.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace qm::autoscaler::pack {
namespace {

using Op = NodeRequirement::Op;
constexpr std::array<std::pair<std::string_view, Op>, 8> kOps{{{"In", Op::kIn},
                                                               {"NotIn", Op::kNotIn},
                                                               {"Exists", Op::kExists},
                                                               {"DoesNotExist", Op::kDoesNotExist},
                                                               {"Gt", Op::kGt},
                                                               {"Lt", Op::kLt},
                                                               {"Gte", Op::kGte},
                                                               {"Lte", Op::kLte}}};

}  // namespace

std::optional<Op> op_of(std::string_view name) {
  const auto found = std::ranges::find(kOps, name, [](const auto& pair) { return pair.first; });
  if (found == kOps.end()) return std::nullopt;
  return found->second;
}

std::string_view name_of(Op op) {
  return std::ranges::find(kOps, op, [](const auto& pair) { return pair.second; })->first;
}

bool holds(const NodeRequirement& requirement, const std::string* value) {
  const auto listed = [&] {
    return value != nullptr && std::ranges::find(requirement.values, *value) != requirement.values.end();
  };
  switch (requirement.op) {
    case Op::kIn:
      return listed();
    case Op::kNotIn:
      return !listed();
    case Op::kExists:
      return value != nullptr;
    case Op::kDoesNotExist:
      return value == nullptr;
    default:
      break;
  }
  if (value == nullptr || requirement.values.size() != 1) return false;
  const auto have = whole_number(*value), bound = whole_number(requirement.values.front());
  if (!have || !bound) return false;
  switch (requirement.op) {
    case Op::kGt:
      return *have > *bound;
    case Op::kLt:
      return *have < *bound;
    case Op::kGte:
      return *have >= *bound;
    default:
      return *have <= *bound;
  }
}

}  // namespace qm::autoscaler::pack
