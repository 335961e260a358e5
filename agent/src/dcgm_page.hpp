#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace qm::agent {

/// One GPU as a dcgm-exporter page shows it. A value that the page lacks, or gives as one of DCGM's blanks, is NaN.
struct DeviceReading {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  struct Holder {
    std::string ns, pod, container;
    std::string mig_profile;   ///< "3g.40gb" where the pod holds an instance of the GPU
    std::string uuid = {};     ///< of the instance; the kubelet knows it, a page does not
    std::int32_t shares = 0;   ///< how many equal shares the device is given in; 0 = not known
    std::int32_t number = -1;  ///< of an instance that counts as a GPU, among those of the machine
    std::int32_t milli = 0;    ///< of the GPU, for an instance of it; 0 = not known
    friend auto operator<=>(const Holder&, const Holder&) = default;
  };
  std::int32_t index = 0;
  std::string uuid, model;
  double utilization = kNone;  ///< 0..1
  double sm_active = kNone;    ///< 0..1
  double fb_used_mib = kNone, fb_free_mib = kNone;
  double temperature_c = kNone, power_watts = kNone, energy_mj = kNone;
  double xid = kNone;              ///< the last code, 0 = none so far
  double recovery_action = kNone;  ///< that the driver asks for, DCGM's field 1523; not in the exporter's default list
  std::vector<Holder> holders;     ///< pods with labels on this GPU; sorted, each once for each instance that it holds
};

struct DcgmPage {
  std::vector<DeviceReading> devices;   ///< by index
  std::size_t samples = 0;              ///< lines with a number, blanks included
  std::size_t blanks = 0;               ///< of those: sentinels, NaN and infinities
  std::size_t bad_lines = 0;            ///< lines that are no sample and no comment
  [[nodiscard]] bool labelled() const;  ///< some GPU has a holder
};

/// Compute slices of a GPU by its model, "NVIDIA H100 80GB HBM3": seven where the model is not known.
[[nodiscard]] std::int32_t compute_slices_of_model(std::string_view model);

/// Reads a dcgm-exporter page of any of its three naming generations (1.x, 2.x to 4.5, 4.6).
///
/// Units    as the exporter has them, but utilisation is a share of one; its name says RATIO in 4.6 and means percent.
/// Shared   a GPU in MIG mode has no row of its own: utilisation is the instances' by compute slices, memory their sum,
///          and what repeats the board's value (power, energy, temperature) is taken once. A time-sliced GPU has its
///          own row beside those of its pods, and that row counts.
/// Fails    never: a broken line is counted and the rest is kept.
/// Threads  any.
/// Cost     label sets repeat from family to family, so most lines are one comparison and one number: about 50 us
///          for a page of 80 kB.
[[nodiscard]] DcgmPage parse_dcgm_page(std::string_view text);

}  // namespace qm::agent
