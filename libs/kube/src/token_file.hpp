#pragma once
#include <ctime>
#include <mutex>
#include <string>

namespace qm::kube {

/// A bearer token in a file that is replaced periodically, as the kubelet does every hour.
///
/// Cost     one stat per call; the file is read when that shows a change.
/// Threads  any.
class TokenFile {
 public:
  explicit TokenFile(std::string path) : path_(std::move(path)) {}
  /// The trimmed content; the last known one if the file cannot be read now.
  std::string current();
  /// The same, but reads the file regardless of its stat.
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
