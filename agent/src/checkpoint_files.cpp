#include "checkpoint_files.hpp"

#include "checkpoint_answer.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace qm::agent {
namespace {

tl::unexpected<Error> failed(const char* what, const std::string& path) {
  return fail(errno == ENOENT ? Code::kNotFound : Code::kFailedPrecondition, "{} of {}: {}", what, path,
              std::strerror(errno));
}

struct File {
  int fd;
  ~File() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<CheckpointFiles> CheckpointFiles::open(const std::string& pods, const std::string& uid,
                                              const std::string& volume) {
  if (uid.empty() || uid.find('/') != std::string::npos || uid.front() == '.')
    return fail(Code::kInvalid, "\"{}\" is not the uid of a pod", uid);
  const auto path = fmt::format("{}/{}/volumes/kubernetes.io~empty-dir/{}", pods, uid, volume);
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return failed("open", path);
  return CheckpointFiles(folder);
}

CheckpointFiles::CheckpointFiles(CheckpointFiles&& other) noexcept : folder_(std::exchange(other.folder_, -1)) {}

CheckpointFiles::~CheckpointFiles() {
  if (folder_ >= 0) ::close(folder_);
}

Status CheckpointFiles::write_order(const std::string& text) {
  constexpr const char* kPart = ".checkpoint-order.part";
  ::unlinkat(folder_, kPart, 0);
  const File file{::openat(folder_, kPart, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644)};
  if (file.fd < 0) return failed("create", kPart);
  const auto written = ::write(file.fd, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || ::fsync(file.fd) != 0) return failed("write", kPart);
  if (::renameat(folder_, kPart, folder_, kOrderFile) != 0) return failed("rename", kPart);
  return {};
}

Result<std::optional<std::string>> CheckpointFiles::read_answer() const {
  // A pipe that nothing writes to would block.
  const File file{::openat(folder_, kAnswerFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)};
  if (file.fd < 0) {
    if (errno == ENOENT) return std::nullopt;
    return failed("open", kAnswerFile);
  }
  struct stat facts {};
  if (::fstat(file.fd, &facts) != 0) return failed("stat", kAnswerFile);
  if (!S_ISREG(facts.st_mode)) return fail(Code::kFailedPrecondition, "{} is not a regular file", kAnswerFile);
  std::string text(kMaxAnswer + 1, '\0');
  const auto size = ::read(file.fd, text.data(), text.size());
  if (size < 0) return failed("read", kAnswerFile);
  text.resize(static_cast<std::size_t>(size));
  return text;
}

}  // namespace qm::agent
