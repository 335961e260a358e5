#pragma once
#include <ctime>
#include <mutex>
#include <string>

namespace qm::kube {

/// A bearer token in a file that its owner replaces now and then, as a kubelet does every hour.
///
/// Cost     one stat a call; the file is read when that shows another one.
/// Threads  any.
class TokenFile {
 public:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}
  /// Its content without the white space around; the last one known where the file cannot be read now.
  std::string current();
  /// The same, read whatever its stamp says.
  std::string read_again();

 private:
  std::string read(bool again);
  struct Stamp {
    std::timespec changed{};
    unsigned long inode = 0;
    long size = -1;
  };
  const std::string path_;
  std::mutex mutex_;
  Stamp seen_;
  std::string token_;
};

}  // namespace qm::kube
