// Karpenter's requirement algebra as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/autoscaler/requirements/keys.hpp"
#include "qm/autoscaler/requirements/requirement.hpp"
#include "qm/base/parse.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace qm::autoscaler {
namespace upstream_requirements_test {

// Karpenter v1.14.1: pkg/scheduling/{requirement,requirements}_test.go, pkg/apis/v1/nodepool_validation_cel_test.go.
// kind | left | right | expected
//   I intersection         W compatible, well-known key    U well-known key not defined    C custom key not defined
//   H has the value        O operator                      S expressions                   L lowest value, - = none
//   V validation: field of the error, ok, or restricted    N key without alias             M minValues of both
constexpr const char* kRows = R"(
# Requirement Intersect requirements should intersect two requirements without minValues
I | Exists | Exists | k Exists
I | Exists | In m,n | k In m, n
I | Exists | In 3,7 | k In 3, 7
I | Exists | Lt 3 | k Lte 2
I | DoesNotExist | DoesNotExist | k DoesNotExist
I | DoesNotExist | NotIn m | k DoesNotExist
I | DoesNotExist | NotIn 3,4 | k DoesNotExist
I | DoesNotExist | Lt 7 | k DoesNotExist
I | In m | In m | k In m
I | In m | In 3 | k DoesNotExist
I | In m | Gt 3 | k DoesNotExist
I | In m | Gte 3 | k DoesNotExist
I | In n | In n | k In n
I | In n | In 7 | k DoesNotExist
I | In n | Gt 7 | k DoesNotExist
I | In n | Lte 7 | k DoesNotExist
I | In m,n | Exists | k In m, n
I | In m,n | In m,n | k In m, n
I | In m,n | In 3,7 | k DoesNotExist
I | In m,n | Lt 3 | k DoesNotExist
I | NotIn m | DoesNotExist | k DoesNotExist
I | NotIn m | NotIn m | k NotIn m
I | NotIn m | NotIn 3,4 | k NotIn 3, 4, m
I | NotIn m | Lt 7 | k Lte 6
I | In 3 | In m | k DoesNotExist
I | In 3 | In 3 | k In 3
I | In 3 | Gt 3 | k DoesNotExist
I | In 3 | Gte 3 | k In 3
I | In 7 | In n | k DoesNotExist
I | In 7 | In 7 | k In 7
I | In 7 | Gt 7 | k DoesNotExist
I | In 7 | Lte 7 | k In 7
I | In 3,7 | Exists | k In 3, 7
I | In 3,7 | In m,n | k DoesNotExist
I | In 3,7 | In 3,7 | k In 3, 7
I | In 3,7 | Lt 3 | k DoesNotExist
I | NotIn 3,4 | DoesNotExist | k DoesNotExist
I | NotIn 3,4 | NotIn m | k NotIn 3, 4, m
I | NotIn 3,4 | NotIn 3,4 | k NotIn 3, 4
I | NotIn 3,4 | Lt 7 | k Lte 6 and k NotIn 3, 4
I | Gt 3 | In m | k DoesNotExist
I | Gt 3 | In 3 | k DoesNotExist
I | Gt 3 | Gt 3 | k Gte 4
I | Gt 3 | Gte 3 | k Gte 4
I | Gt 7 | In n | k DoesNotExist
I | Gt 7 | In 7 | k DoesNotExist
I | Gt 7 | Gt 7 | k Gte 8
I | Gt 7 | Lte 7 | k DoesNotExist
I | Lt 3 | Exists | k Lte 2
I | Lt 3 | In m,n | k DoesNotExist
I | Lt 3 | In 3,7 | k DoesNotExist
I | Lt 3 | Lt 3 | k Lte 2
I | Lt 7 | DoesNotExist | k DoesNotExist
I | Lt 7 | NotIn m | k Lte 6
I | Lt 7 | NotIn 3,4 | k Lte 6 and k NotIn 3, 4
I | Lt 7 | Lt 7 | k Lte 6
I | Gte 3 | In m | k DoesNotExist
I | Gte 3 | In 3 | k In 3
I | Gte 3 | Gt 3 | k Gte 4
I | Gte 3 | Gte 3 | k Gte 3
I | Lte 7 | In n | k DoesNotExist
I | Lte 7 | In 7 | k In 7
I | Lte 7 | Gt 7 | k DoesNotExist
I | Lte 7 | Lte 7 | k Lte 7
# Requirement Gte and Lte Operators should intersect Gte and Lte correctly
I | Gte 3 | Lte 7 | k Gte 3 and k Lte 7
I | Lte 3 | Gte 4 | k DoesNotExist
# Requirement Gte and Lte Operators should collapse redundant bounds in intersection
I | Gt 6 | Gte 7 | k Gte 7
I | Lte 6 | Lt 7 | k Lte 6
# Requirement Gte and Lte Operators should keep Gt when Gt is more restrictive
I | Gte 7 | Gt 7 | k Gte 8
# Requirement Gte and Lte Operators should keep more restrictive Gte when Gte > Gt+1
I | Gt 2 | Gte 11 | k Gte 11
# Requirement Gte and Lte Operators should keep Lt when Lt is more restrictive
I | Lt 7 | Lte 7 | k Lte 6
# Requirement Gte and Lte Operators should keep more restrictive Lte when Lte < Lt-1
I | Lt 12 | Lte 4 | k Lte 4
# Requirements NodeSelectorRequirements Conversion should return both Gte and Lte requirements when both bounds exist
I | Gte 4 | Lte 4 | k Gte 4 and k Lte 4
# CEL/Validation Requirements should allow non-empty set after removing overlapped value
I | In m,n | NotIn m | k In n
# Requirements Compatibility should be compatible with well-known v1 labels undefined
W | Exists | In n | yes
W | Exists | In 3,7 | yes
W | Exists | Lt 7 | yes
W | DoesNotExist | In m,n | no
W | DoesNotExist | NotIn 3,4 | yes
W | DoesNotExist | Gte 3 | no
W | In m | Exists | yes
W | In m | NotIn m | no
W | In m | Gt 3 | no
W | In m | Lte 7 | no
W | In n | DoesNotExist | no
W | In n | In 3 | no
W | In n | Gt 7 | no
W | In m,n | In m | yes
W | In m,n | In 7 | no
W | In m,n | Lt 3 | no
W | NotIn m | In n | yes
W | NotIn m | In 3,7 | yes
W | NotIn m | Lt 7 | yes
W | In 3 | In m,n | no
W | In 3 | NotIn 3,4 | no
W | In 3 | Gte 3 | yes
W | In 7 | Exists | yes
W | In 7 | NotIn m | yes
W | In 7 | Gt 3 | yes
W | In 7 | Lte 7 | yes
W | In 3,7 | DoesNotExist | no
W | In 3,7 | In 3 | yes
W | In 3,7 | Gt 7 | no
W | NotIn 3,4 | In m | yes
W | NotIn 3,4 | In 7 | yes
W | NotIn 3,4 | Lt 3 | yes
W | Gt 3 | In n | no
W | Gt 3 | In 3,7 | yes
W | Gt 3 | Lt 7 | yes
W | Gt 7 | In m,n | no
W | Gt 7 | NotIn 3,4 | yes
W | Gt 7 | Gte 3 | yes
W | Lt 3 | Exists | yes
W | Lt 3 | NotIn m | yes
W | Lt 3 | Gt 3 | no
W | Lt 3 | Lte 7 | yes
W | Lt 7 | DoesNotExist | no
W | Lt 7 | In 3 | yes
W | Lt 7 | Gt 7 | no
W | Gte 3 | In m | no
W | Gte 3 | In 7 | yes
W | Gte 3 | Lt 3 | no
W | Lte 7 | In n | no
W | Lte 7 | In 3,7 | yes
W | Lte 7 | Lt 7 | yes
U | - | Exists | yes
U | - | DoesNotExist | yes
U | - | In m | yes
U | - | In n | yes
U | - | In m,n | yes
U | - | NotIn m | yes
U | - | In 3 | yes
U | - | In 7 | yes
U | - | In 3,7 | yes
U | - | NotIn 3,4 | yes
U | - | Gt 3 | yes
U | - | Gt 7 | yes
U | - | Lt 3 | yes
U | - | Lt 7 | yes
U | - | Gte 3 | yes
U | - | Lte 7 | yes
# Requirements Compatibility should be strictly compatible
C | - | Exists | no
C | - | DoesNotExist | yes
C | - | In m | no
C | - | In n | no
C | - | In m,n | no
C | - | NotIn m | yes
C | - | In 3 | no
C | - | In 7 | no
C | - | In 3,7 | no
C | - | NotIn 3,4 | yes
C | - | Gt 3 | no
C | - | Gt 7 | no
C | - | Lt 3 | no
C | - | Lt 7 | no
C | - | Gte 3 | no
C | - | Lte 7 | no
# Requirement Has should have the right values
H | Exists | m | yes
H | Exists | 3 | yes
H | Exists | 7 | yes
H | In m | n | no
H | In m | 5 | no
H | In m | 8 | no
H | In m,n | m | yes
H | In m,n | 3 | no
H | In m,n | 7 | no
H | In 3 | n | no
H | In 3 | 5 | no
H | In 3 | 8 | no
H | In 3,7 | m | no
H | In 3,7 | 3 | yes
H | In 3,7 | 7 | yes
H | Gt 3 | n | no
H | Gt 3 | 5 | yes
H | Gt 3 | 8 | yes
H | Lt 3 | m | no
H | Lt 3 | 3 | no
H | Lt 3 | 7 | no
H | Gte 3 | n | no
H | Gte 3 | 5 | yes
H | Gte 3 | 8 | yes
# Requirement Gte and Lte Operators should treat Gte as inclusive lower bound
H | Gte 7 | 7 | yes
H | Gte 7 | 6 | no
# Requirement Gte and Lte Operators should treat Lte as inclusive upper bound
H | Lte 7 | 7 | yes
H | Lte 7 | 8 | no
# Requirement Gte and Lte Operators should handle Gte 0 boundary
H | Gte 0 | 0 | yes
H | Gte 0 | -1 | no
# Requirement Gte and Lte Operators should handle Lte 0 boundary
H | Lte 0 | 0 | yes
H | Lte 0 | 1 | no
# Requirement Operator should return the right operator
O | Exists | - | Exists
O | DoesNotExist | - | DoesNotExist
O | In m | - | In
O | In n | - | In
O | In m,n | - | In
O | NotIn m | - | NotIn
O | In 3 | - | In
O | In 7 | - | In
O | In 3,7 | - | In
O | NotIn 3,4 | - | NotIn
O | Gt 3 | - | Exists
O | Gt 7 | - | Exists
O | Lt 3 | - | Exists
O | Lt 7 | - | Exists
O | Gte 3 | - | Exists
O | Lte 7 | - | Exists
# Requirement NodeSelectorRequirements Conversion should return the expected NodeSelectorRequirement
S | Exists | - | k Exists
S | DoesNotExist | - | k DoesNotExist
S | In m | - | k In m
S | In n | - | k In n
S | In m,n | - | k In m, n
S | NotIn m | - | k NotIn m
S | In 3 | - | k In 3
S | In 7 | - | k In 7
S | In 3,7 | - | k In 3, 7
S | NotIn 3,4 | - | k NotIn 3, 4
S | Gt 3 | - | k Gte 4
S | Gt 7 | - | k Gte 8
S | Lt 3 | - | k Lte 2
S | Lt 7 | - | k Lte 6
S | Gte 3 | - | k Gte 3
S | Lte 7 | - | k Lte 7
# Requirement Gte and Lte Operators should return DoesNotExist for Gt MaxInt
O | Gt 9223372036854775807 | - | DoesNotExist
# Requirement Gte and Lte Operators should return valid value from Any() for Gte
L | Gte 12 | - | 12
# Requirement Gte and Lte Operators should return valid value from Any() for Lte
L | Lte 4 | - | 0
# Lt 0 allows no value (no upstream test)
S | Lt 0 | - | k DoesNotExist
# Requirement String should print the right string
S | In a,b,c,d,e | - | k In a, b, c, d, e
I | Gt 3 | Lt 12 | k Gte 4 and k Lte 11
I | Gt 12 | Lt 3 | k DoesNotExist
# long lists are shortened (no upstream test)
S | In a,b,c,d,e,f,g | - | k In a, b, c, d, e and 2 others
# Requirement Any should return any
L | Exists | - | 0
L | DoesNotExist | - | -
L | In m | - | m
L | In n | - | n
L | In m,n | - | m
L | NotIn m | - | 0
L | In 3 | - | 3
L | In 7 | - | 7
L | In 3,7 | - | 3
L | NotIn 3,4 | - | 0
L | Gt 3 | - | 4
L | Gt 7 | - | 8
L | Lt 3 | - | 0
L | Lt 7 | - | 0
L | Gte 3 | - | 3
L | Lte 7 | - | 0
# CEL/Validation Requirements should succeed for valid requirement keys
V | In m | team | ok
V | Exists | example.com/disk | ok
V | In m | karpenter.k8s.aws/instance-family | ok
# CEL/Validation Requirements should fail for the karpenter.sh/nodepool label
V | In m | karpenter.sh/nodepool | restricted
# CEL/Validation Requirements should fail for restricted domains
V | In m | karpenter.sh/disk | restricted
V | In m | rack.karpenter.sh/disk | restricted
V | In m | karpenter.k8s.aws/disk | restricted
# a domain that only ends like a restricted one is not restricted (no upstream test)
V | In m | notkarpenter.sh/disk | ok
# CEL/Validation Requirements should fail for restricted labels
V | In m | kubernetes.io/hostname | restricted
# CEL/Validation Requirements should allow kubernetes domains
V | In m | kubernetes.io/disk | ok
V | In m | k8s.io/disk | ok
# CEL/Validation Requirements should allow kubernetes subdomains exceptions
V | In m | node-restriction.kubernetes.io/disk | ok
V | In m | rack.kops.k8s.io/disk | ok
# CEL/Validation Requirements should allow well known label exceptions
V | In m | topology.kubernetes.io/zone | ok
V | In m | kubernetes.io/arch | ok
V | In m | karpenter.sh/capacity-type | ok
V | Gt 4 | karpenter.k8s.aws/instance-accelerator-count | ok
V | In m | topology.k8s.aws/zone-id | ok
# CEL/Validation Requirements should fail with invalid GT or LT values
V | Gt | k | values
V | Gt 3,7 | k | values
V | Gt m | k | values
V | Lt -3 | k | values
# CEL/Validation Requirements should fail with invalid GTE or LTE values
V | Gte 1.5 | k | values
V | Lte | k | values
V | Gte -1 | k | values
# CEL/Validation Requirements should error when minValues is negative
V | Exists ! -1 | k | minValues
# CEL/Validation Requirements should error when minValues is zero
V | Exists ! 0 | k | minValues
# CEL/Validation Requirements should error when minValues is more than 50
V | Exists ! 51 | k | minValues
V | Exists ! 50 | k | ok
# CEL/Validation Requirements should error when minValues is greater than the number of unique values specified within In operator
V | In m,n ! 3 | k | minValues
V | In m,m ! 2 | k | minValues
V | In m,n ! 2 | k | ok
# CEL/Validation Requirements should allow supported ops
V | In 3 | k | ok
V | NotIn 3 | k | ok
V | Exists | k | ok
V | DoesNotExist | k | ok
V | Gt 3 | k | ok
V | Lt 3 | k | ok
V | Gte 3 | k | ok
V | Lte 3 | k | ok
# Requirement NewRequirements should normalize labels
N | failure-domain.beta.kubernetes.io/zone | - | topology.kubernetes.io/zone
N | failure-domain.beta.kubernetes.io/region | - | topology.kubernetes.io/region
N | beta.kubernetes.io/arch | - | kubernetes.io/arch
N | beta.kubernetes.io/os | - | kubernetes.io/os
N | beta.kubernetes.io/instance-type | - | node.kubernetes.io/instance-type
N | team | - | team
# Requirement Intersect requirements should intersect two requirements with minValues
M | In m,n ! 2 | Exists ! 1 | 2
M | Gt 7 ! 2 | Lt 3 ! 5 | 5
# Requirement Intersect requirements should intersect requirement with minValues with a requirement without
M | Exists ! 3 | In m | 3
M | DoesNotExist | Gt 3 ! 4 | 4
M | Exists | NotIn m | -
)";

using qm::testing::table_rows;
using qm::testing::trimmed;

/// "In m,n ! 2": operator, values, and after "!" minValues
Expression expression_of(const std::string& key, const std::string& text) {
  const auto bang = text.find('!');
  const std::string main = trimmed(text.substr(0, bang));
  const auto blank = main.find(' ');
  Expression out{key, *operator_of(main.substr(0, blank)), {}, {}};
  if (blank != std::string::npos) {
    out.values = qm::testing::split(main.substr(blank + 1), ',');
  }
  if (bang != std::string::npos) out.min_values = std::stoi(text.substr(bang + 1));
  return out;
}

Requirement requirement(const std::string& text, const std::string& key = "k") {
  auto out = requirement_of(expression_of(key, text));
  EXPECT_TRUE(out) << text;
  return out ? *out : Requirement{};
}

Requirements only(const std::string& text, const std::string& key) {
  Requirements out;
  if (text != "-") out.add(requirement(text, key));
  return out;
}

std::string yes(bool value) { return value ? "yes" : "no"; }

std::string validated(const std::string& key, const std::string& text) {
  if (is_restricted(normalized_key(key))) return "restricted";
  const auto out = requirement_of(expression_of(key, text));
  return out ? "ok" : out.error().field;
}

std::string result_of(char kind, const std::string& left, const std::string& right) {
  const std::string zone = "topology.kubernetes.io/zone";
  switch (kind) {
    case 'I':
      return words_of(intersection(requirement(left), requirement(right)));
    case 'W':
    case 'U':
      return yes(!only(left, zone).conflict(only(right, zone), Undefined::kWellKnownIsAny));
    case 'C':
      return yes(!only(left, "k").conflict(only(right, "k"), Undefined::kWellKnownIsAny));
    case 'H':
      return yes(requirement(left).has(right));
    case 'O':
      return std::string(name_of(requirement(left).op()));
    case 'S':
      return words_of(requirement(left));
    case 'L':
      return lowest(requirement(left)).value_or("-");
    case 'V':
      return validated(right, left);
    case 'N':
      return normalized_key(left);
    default: {
      const auto both = intersection(requirement(left), requirement(right)).min_values;
      return both ? std::to_string(*both) : "-";
    }
  }
}

TEST(UpstreamRequirements, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 4U) << row;
    EXPECT_EQ(result_of(cells[0][0], cells[1], cells[2]), cells[3]) << row;
  }
  EXPECT_EQ(rows.size(), 296U);
}

// A strict comparison, as for nodes that exist: a label that is not defined is not there.
TEST(UpstreamRequirements, WithoutTheExceptionAnUndefinedWellKnownLabelIsRefused) {
  const std::string zone = "topology.kubernetes.io/zone";
  EXPECT_EQ(Requirements().conflict(only("In m", zone), Undefined::kRefused), zone);
  EXPECT_EQ(Requirements().conflict(only("NotIn m", zone), Undefined::kRefused), std::nullopt);
}

TEST(UpstreamRequirements, BoundsAtTheEndsOfTheNumbers) {
  EXPECT_EQ(requirement("Gt 9223372036854775807").op(), Operator::kDoesNotExist);
  EXPECT_EQ(requirement("Lt 0").op(), Operator::kDoesNotExist);
  EXPECT_EQ(requirement("Gte 9223372036854775807").gte, INT64_MAX);
  EXPECT_EQ(lowest(requirement("Gte 9223372036854775807")), "9223372036854775807");
  // Every number of the range is excluded.
  EXPECT_EQ(intersection(intersection(requirement("Gte 3"), requirement("Lte 4")), requirement("NotIn 3,4")).op(),
            Operator::kDoesNotExist);
}

TEST(UpstreamRequirements, TwoBoundsAreTwoExpressions) {
  const auto both = intersection(intersection(requirement("Gt 3"), requirement("Lt 9")), requirement("NotIn 5,20"));
  const std::vector<Expression> expected{
      {"k", Operator::kGte, {"4"}, {}}, {"k", Operator::kLte, {"8"}, {}}, {"k", Operator::kNotIn, {"5"}, {}}};
  EXPECT_EQ(expressions(both), expected);
  Requirements again;
  for (const auto& expression : expected) again.add(*requirement_of(expression));
  EXPECT_EQ(*again.find("k"), both);
}

}  // namespace upstream_requirements_test
}  // namespace qm::autoscaler
