#include "qm/testing/golden.hpp"

#include "qm/testing/testing.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace qm::testing {

bool updating_golden() {
  const char* value = std::getenv("QM_UPDATE_GOLDEN");
  return value != nullptr && std::string(value) == "1";
}

void write_golden(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

::testing::AssertionResult matches_golden(const std::string& path, const std::string& text) {
  if (updating_golden()) {
    write_golden(path, text);
    return ::testing::AssertionSuccess();
  }
  constexpr auto kHow = "\nIf the new text is meant, run the test with QM_UPDATE_GOLDEN=1 and commit the file.";
  if (!std::filesystem::exists(path))
    return ::testing::AssertionFailure() << path << " does not exist; the text is:\n" << text << kHow;
  const std::string wanted = read_file(path);
  if (wanted == text) return ::testing::AssertionSuccess();
  std::istringstream old_lines(wanted), new_lines(text);
  std::string old_line, new_line;
  for (int number = 1;; ++number) {
    const bool has_old = static_cast<bool>(std::getline(old_lines, old_line));
    const bool has_new = static_cast<bool>(std::getline(new_lines, new_line));
    if (has_old && has_new && old_line == new_line) continue;
    return ::testing::AssertionFailure() << path << ":" << number << ": is \"" << (has_new ? new_line : "(end)")
                                         << "\", must be \"" << (has_old ? old_line : "(end)") << "\"; the text is:\n"
                                         << text << kHow;
  }
}

}  // namespace qm::testing
