#pragma once
#include "qm/base/result.hpp"

#include <optional>
#include <string>

namespace qm::agent {

/// Exchanges checkpoint orders and answers with a pod in one of its emptyDir volumes, through the folder of the kubelet.
///
/// Order    `checkpoint-order.json`, written under another name and then renamed, so that a reader never sees a part.
/// Answer   `checkpoint-answer.json`, written by the rank in the same way.
/// Safety   the container owns the content of the volume: no link is followed, and only a regular file is read.
/// Threads  any.
class CheckpointFiles {
 public:
  /// `pods`: "/var/lib/kubelet/pods".
  /// Fails: kNotFound if the pod has no such emptyDir; kInvalid if the uid is not a file name.
  static Result<CheckpointFiles> open(const std::string& pods, const std::string& uid, const std::string& volume);
  ~CheckpointFiles();
  CheckpointFiles(CheckpointFiles&& other) noexcept;
  CheckpointFiles& operator=(CheckpointFiles&&) = delete;

  Status write_order(const std::string& text);
  /// nullopt while there is none. At most kMaxAnswer + 1 bytes of it.
  [[nodiscard]] Result<std::optional<std::string>> read_answer() const;

 private:
  explicit CheckpointFiles(int folder) : folder_(folder) {}
  int folder_;
};

inline constexpr const char* kOrderFile = "checkpoint-order.json";
inline constexpr const char* kAnswerFile = "checkpoint-answer.json";

}  // namespace qm::agent
