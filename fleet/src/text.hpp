#pragma once
#include "qm/base/parse.hpp"

#include <string>

namespace qm::fleet {

/// 32 hexadecimal digits in the format of a UUID.
[[nodiscard]] inline std::string dashed(const std::string& hex) {
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20, 12);
}

/// The value of a key in a map, or null.
template <class Map>
[[nodiscard]] auto find_in(Map& map, const typename Map::key_type& key) -> decltype(&map.begin()->second) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

}  // namespace qm::fleet
