#pragma once
#include "qm/base/json.hpp"

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace qm::admission {

/// The suspended objects as the watch delivered them last, so that the executor need not read one from the API server
/// to unsuspend it. They may be out of date: a write carries their resource version.
///
/// Memory   at most `most_bytes` of text; the objects that changed least recently are removed first.
/// Threads  any.
class ObservedJobs {
 public:
  static constexpr std::size_t kMostBytes = 16 << 20;
  explicit ObservedJobs(std::size_t most_bytes = kMostBytes) : most_(most_bytes) {}
  /// Replaces the object with the same uid; metadata.managedFields is not stored.
  void put(const Json& object);
  void erase(const std::string& uid);
  /// Removes the object, so that a second attempt reads from the API server.
  [[nodiscard]] std::optional<Json> take(const std::string& uid);

 private:
  struct Entry {
    std::string uid, text;
  };
  void erase_locked(const std::string& uid);

  std::mutex mutex_;
  std::size_t most_, bytes_ = 0;
  std::list<Entry> oldest_first_;
  std::unordered_map<std::string, std::list<Entry>::iterator> by_uid_;
};

}  // namespace qm::admission
