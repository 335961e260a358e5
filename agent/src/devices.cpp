#include "devices.hpp"

#include "qm/model/resources.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::agent {

std::map<std::string, std::vector<Unit>> units_of(const std::vector<Device>& devices, const Sharing& sharing) {
  std::map<std::string, std::vector<Unit>> out;
  const auto add = [&](const std::string& resource, const std::string& uuid, const Device& device,
                       std::int32_t assigned_as) {
    const int shares = sharing.of(resource);
    auto& units = out[shares > 1 && sharing.renamed ? resource + ".shared" : resource];
    if (shares == 1) units.push_back({uuid, device.index, device.numa, assigned_as, device.memory_mib});
    for (int share = 0; shares > 1 && share < shares; ++share) {
      units.push_back({fmt::format("{}::{}", uuid, share), device.index, device.numa, assigned_as, device.memory_mib});
    }
  };
  const std::string gpu(words::kGpuResource);
  std::int32_t instances = 0;
  for (const Device& device : devices) {
    for (const Slice& slice : device.slices) {
      std::string profile = slice.profile;  // the name of a resource has no '+'
      std::ranges::replace(profile, '+', '.');
      if (sharing.single) {
        add(gpu, slice.uuid, device, instances++);
      } else {
        add(std::string(words::kMigPrefix) + profile, slice.uuid, device, device.index);
      }
    }
    if (!device.mig) add(gpu, device.uuid, device, device.index);
  }
  return out;
}

std::string_view device_of(std::string_view id) { return id.substr(0, id.find("::")); }

}  // namespace qm::agent
