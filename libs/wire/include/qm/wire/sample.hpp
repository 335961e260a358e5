#pragma once
#include "quartermaster/v1/telemetry_service.pb.h"

/// Whether a field of a GPU's sample has a value: a number that a page lacks, or one of DCGM's blanks, is absent and
/// not zero.
namespace qm::wire {

/// `field` by its number in the message: quartermaster::v1::GpuSample::kEnergyMjFieldNumber.
[[nodiscard]] inline bool has_value(const quartermaster::v1::GpuSample& sample, int field) {
  return (sample.missing() >> static_cast<unsigned>(field) & 1U) == 0;
}
inline void set_missing(quartermaster::v1::GpuSample& sample, int field) {
  sample.set_missing(sample.missing() | 1U << static_cast<unsigned>(field));
}

}  // namespace qm::wire
