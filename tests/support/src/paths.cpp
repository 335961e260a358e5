#include "qm/testing/testing.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace qm::testing {

std::optional<std::string> shared_dir() {
  const char* set = std::getenv("QM_SHARED");
  std::filesystem::path dir = set != nullptr ? set : std::filesystem::path(QM_SOURCE_DIR) / ".." / "shared";
  if (!std::filesystem::is_directory(dir)) return std::nullopt;
  return dir.lexically_normal().string();
}

std::string no_shared() { return "the reference data is not here: set QM_SHARED to its folder"; }

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace qm::testing
