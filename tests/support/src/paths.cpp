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

std::string data_dir() { return (std::filesystem::path(QM_SOURCE_DIR) / "tests" / "data").string(); }

std::vector<std::string> data_folders(const std::string& name) {
  std::vector<std::string> folders;
  if (std::string own = data_dir() + "/" + name; std::filesystem::is_directory(own)) folders.push_back(std::move(own));
  const auto shared = shared_dir();
  if (!shared) return folders;
  std::string reference = (std::filesystem::path(*shared) / name).string();
  if (std::filesystem::is_directory(reference)) folders.push_back(std::move(reference));
  return folders;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace qm::testing
