#pragma once
#include "qm/autoscaler/requirements/requirement.hpp"
#include "qm/base/result.hpp"
#include "qm/model/money.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// A change of a price: an absolute amount, or a share of it.
struct PriceAdjustment {
  bool percent = false;
  std::int64_t amount = 0;  ///< nano-dollars per hour; with `percent` millionths of a percent
  friend auto operator<=>(const PriceAdjustment&, const PriceAdjustment&) = default;
};
/// "+0.25", "-0.1" dollars per hour, "+10%", "-12.5%". Fails kInvalid: no sign, not a number, or less than -100 %.
[[nodiscard]] Result<PriceAdjustment> price_adjustment_of(const std::string& text);

/// A Karpenter NodeOverlay: another price, or further extended resources, for the nodes that its requirements allow.
struct Overlay {
  std::string name;
  std::int32_t weight = 0;  ///< of several, the one with the highest applies
  Requirements requirements;
  std::optional<Money> price;                 ///< dollars per hour; not with `adjustment`
  std::optional<PriceAdjustment> adjustment;  ///< of the price of the offering
  std::map<std::string, std::int64_t> capacity;
  friend auto operator<=>(const Overlay&, const Overlay&) = default;
};

/// Overlays in the order in which they apply, and those that are refused.
struct OrderedOverlays {
  std::vector<Overlay> accepted;              ///< by weight, the heaviest first, then by name, the last first
  std::map<std::string, std::string> faults;  ///< by name: the other overlay, and the remedy
};
/// Two overlays of one weight that may select the same node conflict if both set its price, or both set one resource: the
/// earlier one by name is refused, as in Karpenter.
///
/// Cost     pairs of overlays of one weight.
/// Source   pkg/controllers/nodeoverlay of Karpenter 1.14.
[[nodiscard]] OrderedOverlays ordered(std::vector<Overlay> overlays);

/// The price of a node with these labels, by the first overlay that has a price and applies; never below zero. A well-known
/// label that the node does not define has any value.
[[nodiscard]] Money overlaid_price(Money price, std::span<const Overlay> ordered, const Requirements& node);
/// The extended resources that overlays add to the node: of each the amount of the first overlay that has it.
[[nodiscard]] std::map<std::string, std::int64_t> overlaid_capacity(std::span<const Overlay> ordered,
                                                                    const Requirements& node);

}  // namespace qm::autoscaler
