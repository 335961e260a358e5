#pragma once
#include "qm/kube/client.hpp"
#include "qm/kube/events.hpp"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace qm::kube {

/// Kinds of the API server that configure a service: what is changed there is changed here, what is deleted there is
/// gone here. An object that cannot be taken gets an Event `NotTaken` with the reason, once for each change of it; what
/// was taken of it before stays in force. A kind whose definition is not installed is looked for until it is.
///
/// Calls    on the informers' threads, one at a time for each kind; they may wait.
/// Threads  start and stop by one; the rest any.
class ConfigFeed {
 public:
  struct Kind {
    std::string group, plural, kind;
    std::vector<std::string> versions;  ///< that we read, the preferred first
    bool status = false;                ///< its status says something too
  };
  /// (namespace, name); of a cluster-wide object the namespace is empty.
  using Key = std::pair<std::string, std::string>;
  struct Callbacks {
    /// New or changed, without status where that says nothing, and without whatever else changes without its owner's doing. An error: not taken.
    std::function<Status(const Kind& kind, const Json& object)> take;
    /// Deleted, or held by finalizers only.
    std::function<void(const Kind& kind, const Key& key)> gone;
    /// After each complete list: what is there, taken or not.
    std::function<void(const Kind& kind, const std::vector<Key>& present)> listed = {};
  };
  ConfigFeed(Client& client, const std::string& component, std::vector<Kind> kinds, Callbacks callbacks);
  ~ConfigFeed();
  void start();
  void stop();
  /// Each kind was listed, or is not served.
  [[nodiscard]] bool synced() const;
  /// Where a kind is served now; kNotFound while it is not.
  [[nodiscard]] Result<Resource> resource(const std::string& kind) const;
  /// Why the newest version of an object was not taken; empty where it was.
  [[nodiscard]] std::map<Key, std::string> refused(const std::string& kind) const;

 private:
  struct Feed;
  EventRecorder events_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<Feed>> feeds_;
};

}  // namespace qm::kube
