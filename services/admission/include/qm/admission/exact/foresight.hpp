#pragma once
#include "qm/admission/exact/victims.hpp"

namespace qm::admission::exact {

/// Starts reserved for those who wait, in their order, by how long everybody is said to run: who may pass others without moving them.
/// One question is begin(), then reserve() for each in order, with passes() in between. forecast/reservations.hpp.
class Foresight {
 public:
  virtual ~Foresight() = default;
  /// From how the field stands at `field.now`.
  virtual void begin(const Field& field) = 0;
  /// The earliest start that moves nobody before it; false where there is none within its bounds.
  virtual bool reserve(const Work& work) = 0;
  /// Whether it may start now with this usage and move nobody reserved so far.
  virtual bool passes(const Work& work, const Amounts& usage) = 0;
};

}  // namespace qm::admission::exact
