#include "token_file.hpp"

#include "text.hpp"

#include <sys/stat.h>

namespace qm::kube {

std::string TokenFile::current() { return read(false); }

std::string TokenFile::read_again() { return read(true); }

std::string TokenFile::read(bool again) {
  struct stat now {};
  const std::scoped_lock lock(mutex_);
  if (::stat(path_.c_str(), &now) != 0) return token_;
  // A projected volume replaces a link to a folder: the inode shows it.
  const bool same = now.st_ino == seen_.inode && now.st_size == seen_.size &&
                    now.st_mtim.tv_sec == seen_.changed.tv_sec && now.st_mtim.tv_nsec == seen_.changed.tv_nsec;
  if (same && !again) return token_;
  if (const auto text = read_text(path_)) {
    token_ = trimmed(*text);
    seen_ = {now.st_mtim, now.st_ino, now.st_size};
  }
  return token_;
}

}  // namespace qm::kube
