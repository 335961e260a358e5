#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace qm::agent {

/// One GPU of a dcgm-exporter page. A value that is missing or one of DCGM's blanks is NaN.
struct DeviceReading {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  struct Holder {
    std::string ns, pod, container;
    std::string mig_profile;   ///< "3g.40gb" if the pod holds a MIG instance of the GPU
    std::string uuid = {};     ///< of the instance; known from the kubelet, not from a page
    std::int32_t shares = 0;   ///< number of equal shares of the device; 0 = not known
    std::int32_t number = -1;  ///< of an instance that counts as a GPU, among those of the node
    std::int32_t milli = 0;    ///< thousandths of the GPU that an instance has; 0 = not known
    friend auto operator<=>(const Holder&, const Holder&) = default;
  };
  std::int32_t index = 0;
  std::string uuid, model;
  double utilization = kNone;  ///< 0..1
  double sm_active = kNone;    ///< 0..1
  double fb_used_mib = kNone, fb_free_mib = kNone;
  double temperature_c = kNone, power_watts = kNone, energy_mj = kNone;
  double xid = kNone;              ///< the last code, 0 = none so far
  double recovery_action = kNone;  ///< requested by the driver, DCGM's field 1523; not in the exporter's default list
  // Not in the exporter's default list either.
  double double_bit_errors = kNone;     ///< uncorrectable ECC errors since the last reset of the GPU
  double clocks_event_reasons = kNone;  ///< bits of NVML
  double fan_percent = kNone;           ///< a passively cooled GPU has none
  std::vector<Holder> holders;          ///< pods in the labels of this GPU; sorted, once for each instance held
};

struct DcgmPage {
  std::vector<DeviceReading> devices;   ///< by index
  std::size_t samples = 0;              ///< lines with a number, including blanks
  std::size_t blanks = 0;               ///< of those: sentinels, NaN and infinities
  std::size_t bad_lines = 0;            ///< lines that are neither a sample nor a comment
  [[nodiscard]] bool labelled() const;  ///< at least one GPU has a holder
};

/// Compute slices of a GPU by its model, "NVIDIA H100 80GB HBM3"; seven if the model is not known.
[[nodiscard]] std::int32_t compute_slices_of_model(std::string_view model);

/// Parses a dcgm-exporter page of any of its three generations of metric names (1.x, 2.x to 4.5, 4.6).
///
/// Units    as the exporter has them, but utilization is a fraction of one; its name contains RATIO in 4.6 and its
///          unit is percent.
/// Shared   a GPU in MIG mode has no row of its own: its utilization is that of the instances weighted by compute
///          slices, its memory is their sum, and values of the board (power, energy, temperature) that each row
///          repeats count once. A time-sliced GPU has its own row in addition to those of its pods, and its own row
///          is used.
/// Fails    never: a malformed line is counted and the others are used.
/// Threads  any.
/// Cost     label sets repeat from family to family, so most lines are one comparison and one number: about 50 us for a
///          page of 80 kB.
[[nodiscard]] DcgmPage parse_dcgm_page(std::string_view text);

}  // namespace qm::agent
