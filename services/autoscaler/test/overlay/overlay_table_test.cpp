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

// overlays, by ";" | labels of the node | price in dollars | price with overlays, and added resources
constexpr const char* kRows = R"(
# NodeOverlay should apply the price to the instance types that match
a price=2.5 node.kubernetes.io/instance-type=g5.xlarge | node.kubernetes.io/instance-type=g5.xlarge | 1 | 2.500000
a price=2.5 node.kubernetes.io/instance-type=g5.xlarge | node.kubernetes.io/instance-type=g6.xlarge | 1 | 1.000000
# NodeOverlay should apply a price adjustment in dollars
a adjust=+0.25 | topology.kubernetes.io/zone=z1 | 1 | 1.250000
a adjust=-0.25 | topology.kubernetes.io/zone=z1 | 1 | 0.750000
# NodeOverlay should apply a price adjustment in percent
a adjust=-10% | topology.kubernetes.io/zone=z1 | 55.04 | 49.536000
a adjust=+12.5% | topology.kubernetes.io/zone=z1 | 8 | 9.000000
# NodeOverlay should not lower a price below zero
a adjust=-5 | topology.kubernetes.io/zone=z1 | 1 | 0.000000
a adjust=-100% | topology.kubernetes.io/zone=z1 | 1 | 0.000000
# NodeOverlay should apply to offerings by zone and capacity type
a adjust=-50% karpenter.sh/capacity-type=spot | karpenter.sh/capacity-type=on-demand | 4 | 4.000000
a adjust=-50% karpenter.sh/capacity-type=spot | karpenter.sh/capacity-type=spot | 4 | 2.000000
a adjust=-50% topology.kubernetes.io/zone!=z2 | topology.kubernetes.io/zone=z2 | 4 | 4.000000
# NodeOverlay should compare bounds
a price=1 karpenter.k8s.aws/instance-gpu-count>4 | karpenter.k8s.aws/instance-gpu-count=8 | 9 | 1.000000
a price=1 karpenter.k8s.aws/instance-gpu-count>4 | karpenter.k8s.aws/instance-gpu-count=4 | 9 | 9.000000
# NodeOverlay should use the overlay with the highest weight
a price=1 weight=1 ; b price=2 weight=9 | topology.kubernetes.io/zone=z1 | 5 | 2.000000
a weight=9 cap=example.com/fpga/1 ; b price=2 weight=1 | topology.kubernetes.io/zone=z1 | 5 | 2.000000 example.com/fpga=1
# NodeOverlay should use the first by name of overlays with the same weight that do not meet
a price=1 topology.kubernetes.io/zone=z1 ; b price=2 topology.kubernetes.io/zone=z2 | topology.kubernetes.io/zone=z2 | 5 | 2.000000
# NodeOverlay should add extended resources
a cap=smarter-devices/fuse/20 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 smarter-devices/fuse=20
a cap=x.com/a/1 weight=2 ; b cap=x.com/a/7 cap=x.com/b/3 weight=1 | topology.kubernetes.io/zone=z1 | 5 | 5.000000 x.com/a=1 x.com/b=3
# NodeOverlay should not apply to nodes without a user's label that it requires
a price=1 team=blue | topology.kubernetes.io/zone=z1 | 5 | 5.000000
a price=1 team=blue | team=blue | 5 | 1.000000
)";

TEST(Overlays, RowsHold) {
  const auto rows = table_rows(kRows);
  for (const auto& [row, cells] : rows) {
    ASSERT_EQ(cells.size(), 4U) << row;
    std::vector<Overlay> overlays;
    for (const auto& part : split(cells[0], ';')) overlays.push_back(overlay_of(trimmed(part)));
    const std::string label = cells[1];
    const Requirements node(Labels{{label.substr(0, label.find('=')), label.substr(label.find('=') + 1)}});
    const auto all = ordered(overlays);
    EXPECT_TRUE(all.faults.empty()) << row;
    std::string text = overlaid_price(*Money::parse_usd(cells[2]), all.accepted, node).to_usd(6);
    for (const auto& [resource, amount] : overlaid_capacity(all.accepted, node))
      text += fmt::format(" {}={}", resource, amount);
    EXPECT_EQ(text, cells[3]) << row;
  }
  EXPECT_GE(rows.size(), 20U);
}

// Equal weights: the later one by name is refused if both may set the same value of the same node.
TEST(Overlays, AConflictIsRefusedWithItsRemedy) {
  auto all = ordered({overlay_of("b price=2 karpenter.sh/capacity-type=spot"), overlay_of("a adjust=-10%")});
  ASSERT_EQ(all.accepted.size(), 1U);
  EXPECT_EQ(all.accepted[0].name, "a");
  EXPECT_EQ(
      all.faults.at("b"),
      "NodeOverlay a has the same weight 0 and sets the price of the same nodes; change a weight, or requirements");
  all = ordered({overlay_of("a cap=x.com/a/1"), overlay_of("b cap=x.com/a/2")});
  EXPECT_NE(all.faults.at("b").find("sets x.com/a of the same nodes"), std::string::npos);
  EXPECT_TRUE(ordered({overlay_of("a cap=x.com/a/1"), overlay_of("b cap=x.com/a/1")}).faults.empty());
  EXPECT_TRUE(ordered({overlay_of("a cap=x.com/a/1"), overlay_of("b price=1")}).faults.empty());
}

TEST(Overlays, AnAdjustmentThatIsNoneIsRefused) {
  for (const char* text : {"", "+", "10%", "0.5", "-101%", "+x", "-1.5.0", "--1"}) {
    const auto read = price_adjustment_of(text);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().field, "spec.priceAdjustment");
  }
}

}  // namespace overlay_table_test
}  // namespace qm::autoscaler
