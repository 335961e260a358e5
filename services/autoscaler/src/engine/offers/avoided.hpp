#pragma once
#include "facts.hpp"
#include "offers/offer.hpp"

#include <string>

namespace qm::autoscaler {

/// Instance types of a pool whose instances did not become ready with its image: after the first failure another type
/// is preferred at any price, after the second it is not launched until the fault is forgotten or the image changes.
class Avoided {
 public:
  Avoided(const Facts& facts, const Pool& pool) : facts_(facts), pool_(pool) {}

  /// An instance that does not become ready is replaced once.
  static constexpr std::int32_t kMostLaunches = 2;
  [[nodiscard]] bool refuses(const std::string& type);
  /// Why the last type was refused.
  [[nodiscard]] const std::string& text() const { return text_; }
  /// Whether the type at the price is a better offer than the best so far.
  [[nodiscard]] bool better(const InstanceType& type, Money cost, const Offer& best) const;
  /// "; TYPE is avoided: REASON" for a cheaper type that was passed over; else empty.
  [[nodiscard]] std::string note(const Offer& best) const;

 private:
  const Facts& facts_;
  const Pool& pool_;
  std::string text_;
};

}  // namespace qm::autoscaler
