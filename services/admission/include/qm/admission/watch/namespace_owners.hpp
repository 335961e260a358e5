#pragma once
#include "qm/kube/ownership.hpp"

#include <map>
#include <string>

namespace qm::admission {

/// The namespaces whose quota Quartermaster owns, as of the last renew(). A watch evaluates all its objects by one
/// such state, and sends the objects that it held back oldest first when the state changes. If each object asked the
/// owners itself, a change between two questions would send a younger object of a namespace before an older one.
///
/// Threads  none: guarded by the mutex of its watch. Call renew() from a listener of both owners.
class NamespaceOwners {
 public:
  /// Null: Quartermaster owns every namespace, and binds pods that name its scheduler.
  NamespaceOwners(kube::Ownership* quota, const kube::Ownership* binding) : quota_(quota), binding_(binding) {
    renew();
  }
  void renew() {
    known_ = binding_ == nullptr || binding_->known();
    acts_.clear();
  }
  /// Whether it is known which scheduler binds the pods of a namespace.
  [[nodiscard]] bool known() const { return known_; }
  /// As Ownership::acts(), which reports a namespace that is left to another controller.
  [[nodiscard]] bool acts(const std::string& ns, const std::string& subject) {
    if (quota_ == nullptr) return true;
    const auto found = acts_.find(ns);
    return found != acts_.end() ? found->second : acts_.emplace(ns, quota_->acts(ns, subject)).first->second;
  }

 private:
  kube::Ownership* quota_;
  const kube::Ownership* binding_;
  bool known_ = false;
  std::map<std::string, bool> acts_;
};

}  // namespace qm::admission
