#pragma once
#include "qm/kube/client.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qm::kube {

/// Another controller that may do what we do, and how it is known to be at work: it holds one of these leases, or one of
/// these Deployments has a replica. A definition alone is nobody: it stays when the controller is gone.
struct Rival {
  std::string owner;                     ///< "kueue": the word on namespaces
  std::string group;                     ///< of its definitions; empty = it needs none
  std::vector<std::string> leases;       ///< by name, in any namespace
  std::vector<std::string> deployments;  ///< by name, in any namespace
};
/// Those that are known for "quota", "binding" and "scaling"; none for other words.
[[nodiscard]] std::vector<Rival> rivals_of(const std::string& what);

/// Who decides in a namespace: about quota, binding, or scaling.
///
/// A label or annotation "quartermaster.dev/<what>" of the Namespace names the owner: "quartermaster" is us, any other
/// word is somebody else. Where the namespace is silent the setting holds; "auto" means us, unless a rival is at work:
/// then nobody is asked to share, and we stand back until told. While it is not known who is at work, nobody is us.
///
/// Threads  any. `on_change` comes from a thread of ours, after each change of what of() would say.
class Ownership {
 public:
  struct Options {
    std::string what;               ///< "quota", "binding", "scaling"
    std::string standard = "auto";  ///< owner where the namespace is silent
    std::vector<Rival> rivals;
    std::chrono::milliseconds period{15'000};  ///< between looks at the rivals, steady time
  };
  struct Verdict {
    bool ours = false;
    bool told = false;  ///< the namespace itself, or the setting, says so
    std::string owner;  ///< "quartermaster", "kueue", ...; "unknown" before the first look
    std::string why;    ///< a sentence for a person
  };
  Ownership(Client& client, Options options, std::function<void()> on_change = {});
  ~Ownership();
  void start();
  void stop();
  /// Another on_change, before start().
  void listen(std::function<void()> on_change);
  /// True once namespaces and rivals were seen.
  [[nodiscard]] bool known() const;
  /// Of a namespace; "" asks for the whole cluster.
  [[nodiscard]] Verdict of(const std::string& ns) const;
  /// Owners of the namespaces that say, by namespace.
  [[nodiscard]] std::map<std::string, std::string> told() const;
  /// As of(ns).ours. Where it is not, the namespace gets one Event that says why and how to change it, and so does the
  /// log; `subject` is what was left alone ("job team/a").
  [[nodiscard]] bool acts(const std::string& ns, const std::string& subject);
  /// Namespaces that were left alone, with the owner; for /debug/state and metrics.
  [[nodiscard]] Json left_alone() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::kube
