#include "text.hpp"

#include <fstream>
#include <iterator>

namespace qm::kube {

Result<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return fail(Error{Code::kNotFound, path + " cannot be read", path, "check that it is there and its permissions"});
  }
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
}

}  // namespace qm::kube
