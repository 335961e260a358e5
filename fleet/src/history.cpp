#include "history.hpp"

#include "qm/base/assert.hpp"

#include <cerrno>
#include <cstring>

namespace qm::fleet {

History::~History() {
  if (file_ != nullptr) std::fclose(file_);
}

Status History::open(const std::string& path) {
  file_ = std::fopen(path.c_str(), "ae");
  if (file_ == nullptr) {
    return fail({Code::kUnavailable, fmt::format("cannot open {}: {}", path, std::strerror(errno)), "dir",
                 "name a folder that can be written"});
  }
  return {};
}

void History::append(std::string line) {
  ++count_;
  if (file_ == nullptr) {
    lines_.push_back(std::move(line));
    return;
  }
  line.push_back('\n');
  const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
  // With an incomplete record the checker would report failures that did not happen.
  QM_ASSERT(written, "cannot write the history: {}", std::strerror(errno));
}

}  // namespace qm::fleet
