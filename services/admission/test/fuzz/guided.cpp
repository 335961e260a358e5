// One door for libFuzzer, which looks for inputs that reach what none reached before. `./qm fuzz guided` builds and runs it.
#include "targets.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace {

const qm::admission::fuzz::Target& door() {
  const auto all = qm::admission::fuzz::targets();
  return *std::ranges::find(all, QM_DOOR, &qm::admission::fuzz::Target::name);
}

}  // namespace

/// With QM_FUZZ_SEEDS naming a folder, the good inputs are written there first.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* folder = std::getenv("QM_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  std::filesystem::create_directories(folder);
  int n = 0;
  for (const auto& seed : door().seeds()) {
    std::ofstream(std::filesystem::path(folder) / ("seed-" + std::to_string(n++)), std::ios::binary) << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto& target = door();
  target.feed({reinterpret_cast<const char*>(data), size});
  return 0;
}
