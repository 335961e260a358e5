#include "devices.hpp"

#include "qm/model/resources.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::agent {

std::map<std::string, std::vector<Unit>> units_of(const std::vector<Device>& devices, int shares) {
  std::map<std::string, std::vector<Unit>> out;
  for (const Device& device : devices) {
    for (const Slice& slice : device.slices) {
      std::string profile = slice.profile;  // a resource's name has no '+'
      std::ranges::replace(profile, '+', '.');
      out[std::string(words::kMigPrefix) + profile].push_back({slice.uuid, device.index, device.numa});
    }
    if (device.mig) continue;
    auto& whole = out[std::string(words::kGpuResource)];
    if (shares <= 1) whole.push_back({device.uuid, device.index, device.numa});
    for (int share = 0; shares > 1 && share < shares; ++share) {
      whole.push_back({fmt::format("{}::{}", device.uuid, share), device.index, device.numa});
    }
  }
  return out;
}

std::string_view device_of(std::string_view id) { return id.substr(0, id.find("::")); }

}  // namespace qm::agent
