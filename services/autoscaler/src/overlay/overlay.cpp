#include "qm/autoscaler/overlay/overlay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <tuple>

namespace qm::autoscaler {
namespace {

constexpr std::int64_t kMillionths = 1'000'000;

bool has_price(const Overlay& overlay) { return overlay.price || overlay.adjustment; }

bool applies(const Overlay& overlay, const Requirements& node) {
  return !node.conflict(overlay.requirements, Undefined::kWellKnownIsAny);
}

/// What two overlays both set; empty = nothing.
std::string contested(const Overlay& a, const Overlay& b) {
  if (has_price(a) && has_price(b)) return "the price";
  for (const auto& [resource, amount] : a.capacity) {
    if (b.capacity.contains(resource)) return resource;
  }
  return {};
}

}  // namespace

Result<PriceAdjustment> price_adjustment_of(const std::string& text) {
  const auto refuse = [&] {
    return fail(Error{Code::kInvalid, fmt::format("\"{}\" is not an adjustment of a price", text),
                      "spec.priceAdjustment", "write dollars per hour such as \"-0.25\", or a share such as \"+10%\""});
  };
  if (text.size() < 2 || (text[0] != '+' && text[0] != '-')) return refuse();
  const bool percent = text.back() == '%';
  const auto amount = Money::parse_usd(text.substr(1, text.size() - (percent ? 2 : 1)));
  if (!amount || *amount < Money()) return refuse();
  constexpr std::int64_t kNanosPerMillionth = 1000;
  const std::int64_t size = percent ? amount->nano() / kNanosPerMillionth : amount->nano();
  PriceAdjustment out{percent, text[0] == '-' ? -size : size};
  if (percent && out.amount < -100 * kMillionths) return refuse();
  return out;
}

OrderedOverlays ordered(std::vector<Overlay> overlays) {
  std::ranges::sort(overlays, std::ranges::greater{},
                    [](const Overlay& one) { return std::tie(one.weight, one.name); });
  OrderedOverlays out;
  for (Overlay& one : overlays) {
    const auto rival = std::ranges::find_if(out.accepted, [&](const Overlay& other) {
      return other.weight == one.weight && !contested(other, one).empty() &&
             !other.requirements.disjoint_key(one.requirements);
    });
    if (rival == out.accepted.end()) {
      out.accepted.push_back(std::move(one));
      continue;
    }
    out.faults[one.name] = fmt::format(
        "NodeOverlay {} has the same weight {} and sets {} of the same nodes; change a weight, or requirements",
        rival->name, one.weight, contested(*rival, one));
  }
  return out;
}

Money overlaid_price(Money price, std::span<const Overlay> overlays, const Requirements& node) {
  for (const Overlay& one : overlays) {
    if (!has_price(one) || !applies(one, node)) continue;
    if (one.price) return *one.price;
    const auto& change = *one.adjustment;
    // In two parts, so that the product stays within 64 bits.
    const std::int64_t nano = price.nano(), share = 100 * kMillionths;
    const std::int64_t difference =
        change.percent ? nano / share * change.amount + nano % share * (change.amount / 1000) / (share / 1000)
                       : change.amount;
    return std::max(Money(), Money::nano(nano + difference));
  }
  return price;
}

std::map<std::string, std::int64_t> overlaid_capacity(std::span<const Overlay> overlays, const Requirements& node) {
  std::map<std::string, std::int64_t> out;
  for (const Overlay& one : overlays) {
    if (!one.capacity.empty() && applies(one, node)) out.insert(one.capacity.begin(), one.capacity.end());
  }
  return out;
}

}  // namespace qm::autoscaler
