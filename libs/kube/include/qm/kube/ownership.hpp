#pragma once
#include "qm/kube/client.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::kube {

/// Another controller with the same responsibility, and how its activity is detected: it holds one of these leases,
/// or one of these Deployments has a replica. A definition alone does not count: it remains when the controller is
/// removed.
struct OtherController {
  std::string owner;                     ///< "kueue": the value of the label on namespaces
  std::string group;                     ///< of its definitions; empty = none required
  std::vector<std::string> leases;       ///< by name, in any namespace
  std::vector<std::string> deployments;  ///< by name, in any namespace
};
/// The known ones for "quota", "binding" and "scaling"; none for other values.
[[nodiscard]] std::vector<OtherController> other_controllers_of(const std::string& what);

/// Determines which controller is responsible in a namespace: for quota, binding, or scaling.
///
/// A label or annotation "quartermaster.dev/<what>" of the Namespace names the owner: "quartermaster" is this suite,
/// any other value is another controller. Without it the setting applies; "auto" means this suite, unless another controller is
/// active:
/// then this suite does nothing until a label or the setting names it. While the activity of other controllers is unknown, this
/// suite is not the owner.
///
/// Threads  any. `on_change` is called on an internal thread, after each change of the result of of().
class Ownership {
 public:
  struct Options {
    std::string what;               ///< "quota", "binding", "scaling"
    std::string standard = "auto";  ///< owner if the namespace names none
    std::vector<OtherController> other_controllers;
    std::chrono::milliseconds period{15'000};  ///< between checks for other controllers, steady time
  };
  struct Verdict {
    bool ours = false;
    bool explicit_owner = false;  ///< the namespace itself, or the setting, names the owner
    std::string owner;            ///< "quartermaster", "kueue", ...; "unknown" before the first check
    std::string why;              ///< a sentence for a user
  };
  Ownership(Client& client, Options options, std::function<void()> on_change = {});
  ~Ownership();
  void start();
  void stop();
  /// Adds another on_change, before start().
  void listen(std::function<void()> on_change);
  /// True once namespaces and other controllers have been read.
  [[nodiscard]] bool known() const;
  /// The owner of a namespace; "" is the whole cluster.
  [[nodiscard]] Verdict of(const std::string& ns) const;
  /// Owners of the namespaces that name one, by namespace.
  [[nodiscard]] std::map<std::string, std::string> named_owners() const;
  /// Returns of(ns).ours. If false, the namespace gets one Event with the reason and how to change it, and so does
  /// the log; `subject` is the object that was skipped ("job team/a").
  [[nodiscard]] bool acts(const std::string& ns, const std::string& subject);
  /// Namespaces that were skipped, with the owner; for /debug/state and metrics.
  [[nodiscard]] Json left_alone() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::kube
