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

/// Watches the kinds of the API server that configure a service, and applies each change and deletion to the
/// service. An object that is refused gets an Event `NotAccepted` with the reason, once for each change of it; its
/// previously accepted version remains in effect. A kind without an installed definition is looked up until it has
/// one.
///
/// Calls    on the informers' threads, one at a time for each kind; they may block.
/// Threads  start and stop by one; the rest any.
class ConfigFeed {
 public:
  struct Kind {
    std::string group, plural, kind;
    std::vector<std::string> versions;  ///< supported versions, the preferred first
    bool status = false;                ///< its status is also relevant
  };
  /// (namespace, name); the namespace of a cluster-wide object is empty.
  using Key = std::pair<std::string, std::string>;
  struct Callbacks {
    /// New or changed, without status if that is not relevant, and without other fields that change without an
    /// action of the owner. An error: refused.
    std::function<Status(const Kind& kind, const Json& object)> take;
    /// Deleted, or kept by finalizers only.
    std::function<void(const Kind& kind, const Key& key)> gone;
    /// After each complete list: all existing objects, accepted or refused.
    std::function<void(const Kind& kind, const std::vector<Key>& present)> listed = {};
  };
  ConfigFeed(Client& client, const std::string& component, std::vector<Kind> kinds, Callbacks callbacks);
  ~ConfigFeed();
  void start();
  void stop();
  /// Each kind was listed, or is not served.
  [[nodiscard]] bool synced() const;
  /// Where a kind is served; kNotFound while it is not.
  [[nodiscard]] Result<Resource> resource(const std::string& kind) const;
  /// Why the newest version of an object was refused; empty if it was accepted.
  [[nodiscard]] std::map<Key, std::string> refused(const std::string& kind) const;

 private:
  struct Feed;
  EventRecorder events_;
  Callbacks callbacks_;
  std::vector<std::unique_ptr<Feed>> feeds_;
};

}  // namespace qm::kube
