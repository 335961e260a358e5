#pragma once
#include <cstdint>
#include <string_view>

namespace qm::catalog {

/// GPUs or other accelerators of one kind in an instance.
struct Devices {
  std::string_view name;          ///< as in node labels: "a10g", "radeon-pro-v520"; empty = the instance has none
  std::string_view manufacturer;  ///< "nvidia", "amd", "habana", "aws", "qualcomm"
  std::int32_t count = 0;
  std::int64_t memory_mib = 0;  ///< of each; 0 = not known
};

/// What a node of an EC2 instance type has in addition to `Type`: the figures of its labels and its allocatable.
///
/// A fraction of a GPU is none, as in `Type`.
/// Source   EC2's DescribeInstanceTypes of 2026-08-02; the network by the provider's table of baseline bandwidth; the
///          pods by Amazon's eni-max-pods list of 2025, which is ENIs x (IPv4 addresses - 1) + 2.
struct Hardware {
  std::string_view name, arch;        ///< arch "amd64" or "arm64"
  std::string_view cpu_manufacturer;  ///< "intel", "amd", "aws"; empty = not known
  std::int32_t pods = 0;              ///< network addresses for pods; 0 = not known
  std::int64_t network_mbps = 0;
  std::int64_t local_nvme_gb = 0;  ///< 0 = none
  std::int32_t efa = 0;            ///< EFA interfaces
  Devices gpu, accelerator;
};

/// The memory of one device in GB, as its vendor names the model: EC2 leaves out what ECC uses, so that 22,888 MiB are 24.
[[nodiscard]] std::int64_t nominal_memory_gb(const Devices& devices);

/// Null if the catalog does not have the type; else as for `find`, every type has a row.
const Hardware* hardware_of(std::string_view name);

}  // namespace qm::catalog
