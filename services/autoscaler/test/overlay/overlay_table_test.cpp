// NodeOverlays as data: the name of an upstream test, and rows with inputs of our own.
#include "qm/autoscaler/overlay/overlay.hpp"
#include "qm/testing/text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace overlay_table_test {

using qm::testing::split;
using qm::testing::table_rows;
using qm::testing::trimmed;

/// NAME weight=N price=USD adjust=TEXT cap=RESOURCE/AMOUNT KEY=a,b (In) KEY!=a (NotIn) KEY>N
Overlay overlay_of(const std::string& text) {
  Overlay out;
  const auto words = split(text, ' ');
  out.name = words.at(0);
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string word(words[i]);
    const auto at = word.find_first_of("!=>");
    const std::string key = word.substr(0, at), value = word.substr(word.find_first_of("=>") + 1);
    if (key == "weight") {
      out.weight = std::stoi(value);
    } else if (key == "price") {
      out.price = *Money::parse_usd(value);
    } else if (key == "adjust") {
      out.adjustment = *price_adjustment_of(value);
    } else if (key == "cap") {
      out.capacity[value.substr(0, value.rfind('/'))] = std::stol(value.substr(value.rfind('/') + 1));
    } else {
      const Operator op = word[at] == '!' ? Operator::kNotIn : word[at] == '>' ? Operator::kGt : Operator::kIn;
      out.requirements.add(*requirement_of({key, op, split(value, ','), {}}));
    }
  }
  return out;
}

// Karpenter v1.14.1: pkg/controllers/nodeoverlay/suite_test.go, pkg/apis/v1alpha1/{suite,nodeoverlay_validation}_test.go,
// pkg/cloudprovider/suite_test.go.
// overlays, by ";" | labels of the node | price in dollars | price with overlays, added resources, and refused overlays
constexpr const char* kRows = R"(
# Validation should return the same instance type when zero overlay are applied
- | topology.kubernetes.io/zone=z1 | 5 | 5.000000
# Validation should pass with a single overlay
a adjust=+10% cap=x.com/a/1 | topology.kubernetes.io/zone=z1 | 5 | 5.500000 x.com/a=1
# Instance Type Controller Price Updates should apply pricing updates for instances types Price
a price=2.5 node.kubernetes.io/instance-type=g5.xlarge | node.kubernetes.io/instance-type=g5.xlarge | 1 | 2.500000
# Instance Type Controller Price Updates should apply pricing updates for instances types PriceAdjustment
a adjust=-40% node.kubernetes.io/instance-type=g5.xlarge,g6.xlarge | node.kubernetes.io/instance-type=g6.xlarge | 2.5 | 1.500000
# Instance Type Controller Price Updates should not apply adjustments for overlays that do not overlap with instance types requirements Price
a price=2.5 node.kubernetes.io/instance-type=g5.xlarge | node.kubernetes.io/instance-type=g6.xlarge | 1 | 1.000000
# Instance Type AdjustedPrice should override price
a price=0.000001 | topology.kubernetes.io/zone=z1 | 98.32 | 0.000001
# Instance Type AdjustedPrice should adjust price based overlay values Add 5
a adjust=+0.25 | topology.kubernetes.io/zone=z1 | 1 | 1.250000
# Instance Type AdjustedPrice should adjust price based overlay values Subtract 2.5
a adjust=-0.25 | topology.kubernetes.io/zone=z1 | 1 | 0.750000
# Instance Type AdjustedPrice should adjust price based overlay values No change
a adjust=+0 | topology.kubernetes.io/zone=z1 | 3.06 | 3.060000
# Instance Type AdjustedPrice should adjust price based overlay values Large price adjustment
a adjust=+5000 | topology.kubernetes.io/zone=z1 | 0.0031 | 5000.003100
# Instance Type AdjustedPrice should adjust price based overlay values Small price adjustment
a adjust=+0.00002 | topology.kubernetes.io/zone=z1 | 0.0003 | 0.000320
# Instance Type AdjustedPrice should adjust price based overlay values 10% decrease
a adjust=-10% | topology.kubernetes.io/zone=z1 | 55.04 | 49.536000
# Instance Type AdjustedPrice should adjust price based overlay values 100% increase
a adjust=+100% | topology.kubernetes.io/zone=z1 | 21.957642 | 43.915284
# Instance Type AdjustedPrice should adjust price based overlay values Fractional price
a adjust=+12.5% | topology.kubernetes.io/zone=z1 | 0.526 | 0.591750
# Instance Type AdjustedPrice should adjust price based overlay values Negative Result
a adjust=-5 | topology.kubernetes.io/zone=z1 | 1 | 0.000000
# Instance Type AdjustedPrice should adjust price based overlay values Subtract to zero
a adjust=-4.5 | topology.kubernetes.io/zone=z1 | 4.5 | 0.000000
# Instance Type AdjustedPrice should adjust price based overlay values Zero price
a adjust=-100% | topology.kubernetes.io/zone=z1 | 1 | 0.000000
# Instance Type Controller Price Updates should apply pricing updates for instances types for capacity type PriceAdjustment
a adjust=-50% karpenter.sh/capacity-type=spot | karpenter.sh/capacity-type=on-demand | 4 | 4.000000
a adjust=-50% karpenter.sh/capacity-type=spot | karpenter.sh/capacity-type=spot | 4 | 2.000000
# Instance Type Controller Price Updates should apply pricing updates for instances types for availability zone PriceAdjustment
a adjust=-50% topology.kubernetes.io/zone!=z2 | topology.kubernetes.io/zone=z2 | 4 | 4.000000
a adjust=-50% topology.kubernetes.io/zone!=z2 | topology.kubernetes.io/zone=z1 | 4 | 2.000000
# NodeOverlay should compare bounds (no upstream test)
a price=1 karpenter.k8s.aws/instance-gpu-count>4 | karpenter.k8s.aws/instance-gpu-count=8 | 9 | 1.000000
a price=1 karpenter.k8s.aws/instance-gpu-count>4 | karpenter.k8s.aws/instance-gpu-count=4 | 9 | 9.000000
# Instance Type Controller Price Updates should update price updates offerings instance types from multiple overlays Price
a price=1 karpenter.sh/capacity-type=spot ; b price=2 karpenter.sh/capacity-type=on-demand | karpenter.sh/capacity-type=on-demand | 5 | 2.000000
# Instance Type Controller Price Updates should update price updates offerings instance types from multiple overlays with different weights Price
a price=1 weight=1 ; b price=2 weight=9 | topology.kubernetes.io/zone=z1 | 5 | 2.000000
# Instance Type Controller Price Updates should update price updates offerings instance types from multiple overlays with different weights PriceAdjustment
a adjust=-50% weight=9 ; b adjust=+1 weight=1 | topology.kubernetes.io/zone=z1 | 5 | 2.500000
# Instance Type Controller should apply pricing and capacity adjustment from two overlays on the same instance type
a weight=9 cap=example.com/fpga/1 ; b price=2 weight=1 | topology.kubernetes.io/zone=z1 | 5 | 2.000000 example.com/fpga=1
# Validation Pricing Updates should pass with conflicting pricing updates overlays with mutually exclusive requirements Price
a price=1 topology.kubernetes.io/zone=z1 ; b price=2 topology.kubernetes.io/zone=z2 | topology.kubernetes.io/zone=z2 | 5 | 2.000000
# Validation Pricing Updates should pass with conflicting pricing update overlays with mutually exclusive weights PriceAdjustment
a adjust=+1 weight=3 ; b adjust=+2 weight=4 | topology.kubernetes.io/zone=z1 | 5 | 7.000000
# Validation Pricing Updates should fail with conflicting pricing updates overlays with overlapping requirements Price
a price=1 topology.kubernetes.io/zone=z1,z2 ; b price=2 topology.kubernetes.io/zone=z2,z3 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 refused=a
# Validation Pricing Updates should fail with conflicting pricing updates overlays with overlapping requirements PriceAdjustment
a adjust=+1 weight=7 ; b adjust=-10% weight=7 topology.kubernetes.io/zone=z1 | topology.kubernetes.io/zone=z1 | 5 | 4.500000 refused=a
# Validation Pricing Updates should fail with pricing updates are the same overlays with overlapping requirements Price
a price=3 ; b price=3 | topology.kubernetes.io/zone=z1 | 5 | 3.000000 refused=a
# Validation Requirements Validations Instance types Requirements should fail when requirements overlays overlap
a price=1 kubernetes.io/arch=arm64 ; b price=9 karpenter.k8s.aws/instance-family=g5g | kubernetes.io/arch=arm64 | 5 | 9.000000 refused=a
# Validation Requirements Validations Offering Requirements should fail with requirements overlays overlap on zone
a price=1 topology.kubernetes.io/zone!=z3 ; b price=9 karpenter.sh/capacity-type=spot | karpenter.sh/capacity-type=spot | 5 | 9.000000 refused=a
# Validation Requirements Validations Offering Requirements should succeed with requirements overlays don't overlap
a price=1 karpenter.sh/capacity-type=spot ; b price=9 karpenter.sh/capacity-type!=spot | karpenter.sh/capacity-type=spot | 5 | 1.000000
# Instance Type Controller Capacity should apply capacity adjustments for instances types
a cap=smarter-devices/fuse/20 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 smarter-devices/fuse=20
# Instance Type Controller Capacity should not apply capacity adjustments for instances types that do not overlap
a cap=x.com/a/1 kubernetes.io/arch=arm64 | kubernetes.io/arch=amd64 | 5 | 5.000000
# Instance Type Controller Capacity should update capacity for one instance types from multiple overlays
a cap=x.com/a/1 ; b cap=x.com/b/3 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=1 x.com/b=3
# Instance Type Controller Capacity should apply higher weight overlay when multiple overlays match the same instance type
a cap=x.com/a/1 weight=2 ; b cap=x.com/a/7 cap=x.com/b/3 weight=1 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=1 x.com/b=3
# Instance Type Controller Capacity should not apply capacity adjustments for invalid overlay
a cap=x.com/a/1 cap=x.com/b/3 ; b cap=x.com/a/7 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=7 refused=a
# Validation Capacity Adjustment should fail with conflicting capacity overlays with overlapping requirements
a cap=x.com/a/1 topology.kubernetes.io/zone=z1,z2 ; b cap=x.com/a/7 topology.kubernetes.io/zone=z2 | topology.kubernetes.io/zone=z2 | 5 | 5.000000 x.com/a=7 refused=a
# Validation Capacity Adjustment should fail with conflicting capacity overlays with multiple overlays
a cap=x.com/a/1 ; b cap=x.com/b/2 ; c cap=x.com/a/3 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=3 x.com/b=2 refused=a
# Validation Capacity Adjustment should pass with capacity adjustment are the same overlays with overlapping requirements
a cap=x.com/a/4 ; b cap=x.com/a/4 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=4 refused=a
# Validation Capacity Adjustment should pass with conflicting capacity overlays with mutually exclusive requirements
a cap=x.com/a/1 topology.kubernetes.io/zone=z1 ; b cap=x.com/a/7 topology.kubernetes.io/zone=z2 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=1
# Validation Capacity Adjustment should pass with conflicting capacity overlays with mutually exclusive weights
a cap=x.com/a/1 weight=1 ; b cap=x.com/a/7 weight=2 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=7
# Validation Capacity Adjustment should pass with non conflicting capacity overlays with overlapping requirements
a cap=x.com/a/1 topology.kubernetes.io/zone=z1,z2 ; b cap=x.com/b/7 topology.kubernetes.io/zone=z1 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=1 x.com/b=7
# Instance Type Controller Price Updates Requirements should only apply pricing updates for nodeclaim spec labels that defined in the overlay requirements Price
a price=1 team=blue | topology.kubernetes.io/zone=z1 | 5 | 5.000000
a price=1 team=blue | team=blue | 5 | 1.000000
)";

// spec.priceAdjustment | millionths of a percent, or nano-dollars; - = refused
constexpr const char* kAdjustments = R"(
# CEL/Validation priceAdjustment should not allow an unsigned priceAdjustment percentage
10% | -
# CEL/Validation priceAdjustment should not allow an unsigned priceAdjustment integer
7 | -
# CEL/Validation priceAdjustment should not allow an unsigned priceAdjustment float
0.5 | -
# CEL/Validation priceAdjustment should allow positive percentage value for priceAdjustment field
+12.5% | % 12500000
# CEL/Validation priceAdjustment should allow negative percentage less then 0%
-0.25% | % -250000
# CEL/Validation priceAdjustment should allow negative percentage -100%
-100% | % -100000000
-101% | -
-100.000001% | -
# CEL/Validation priceAdjustment should allow positive percentage greater then 100%
+312.75% | % 312750000
# CEL/Validation priceAdjustment should allow positive integer value
+2 | USD 2000000000
# CEL/Validation priceAdjustment should allow negative float value
-0.125 | USD -125000000
# an adjustment is a sign and a number (no upstream test)
+ | -
+x | -
-1.5.0 | -
--1 | -
+% | -
)";

TEST(Overlays, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 4U) << row;
    std::vector<Overlay> overlays;
    for (const auto& part : split(cells[0] == "-" ? "" : cells[0], ';')) overlays.push_back(overlay_of(trimmed(part)));
    const std::string label = cells[1];
    const Requirements node(Labels{{label.substr(0, label.find('=')), label.substr(label.find('=') + 1)}});
    const auto all = ordered(overlays);
    std::string text = overlaid_price(*Money::parse_usd(cells[2]), all.accepted, node).to_usd(6);
    for (const auto& [resource, amount] : overlaid_capacity(all.accepted, node))
      text += fmt::format(" {}={}", resource, amount);
    for (const auto& [name, fault] : all.faults) text += " refused=" + name;
    EXPECT_EQ(text, cells[3]) << row;
  }
  EXPECT_GE(rows.size(), 48U);
}

TEST(Overlays, RowsOfAdjustmentsHold) {
  const auto rows = table_rows(kAdjustments);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 2U) << row;
    const auto read = price_adjustment_of(cells[0]);
    EXPECT_EQ(read ? fmt::format("{} {}", read->percent ? "%" : "USD", read->amount) : "-", cells[1]) << row;
    EXPECT_EQ(read ? "" : read.error().field, read ? "" : "spec.priceAdjustment") << row;
  }
  EXPECT_FALSE(price_adjustment_of(""));
  EXPECT_GE(rows.size(), 16U);
}

// Equal weights: the earlier one by name is refused if both may set the same value of the same node.
TEST(Overlays, AConflictIsRefusedWithItsRemedy) {
  auto all = ordered({overlay_of("b price=2 karpenter.sh/capacity-type=spot"), overlay_of("a adjust=-10%")});
  ASSERT_EQ(all.accepted.size(), 1U);
  EXPECT_EQ(all.accepted[0].name, "b");
  EXPECT_EQ(
      all.faults.at("a"),
      "NodeOverlay b has the same weight 0 and sets the price of the same nodes; change a weight, or requirements");
  all = ordered({overlay_of("a cap=x.com/a/1"), overlay_of("b cap=x.com/a/2")});
  EXPECT_NE(all.faults.at("a").find("sets x.com/a of the same nodes"), std::string::npos);
  EXPECT_TRUE(ordered({overlay_of("a cap=x.com/a/1"), overlay_of("b price=1")}).faults.empty());
}

}  // namespace overlay_table_test
}  // namespace qm::autoscaler
