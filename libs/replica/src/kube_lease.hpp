#pragma once
#include "qm/kube/client.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace qm::replica {

/// The namespace of this process's Pod; "default" outside of one.
[[nodiscard]] std::string own_namespace();

/// Writes the leader into a coordination.k8s.io Lease, for `kubectl get lease` and tools. No election uses it, so it
/// may be late or missing: the database decides.
///
/// A Lease with a later term is not changed, and every write has the version that it replaces; so a former
/// leader never overwrites a new one. Has its own thread from construction to the end, when it clears the Lease's
/// holder.
class KubeLease {
 public:
  struct Term {
    std::string holder;
    std::int64_t number = 0;
  };
  KubeLease(kube::ClientOptions server, std::string ns, std::string name, Term term, std::function<bool()> leads);
  ~KubeLease();

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::replica
