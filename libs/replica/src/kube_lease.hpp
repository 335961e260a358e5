#pragma once
#include "qm/kube/client.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace qm::replica {

/// The namespace of the Pod that this process runs in; "default" outside of one.
[[nodiscard]] std::string own_namespace();

/// Writes who leads into a coordination.k8s.io Lease, for `kubectl get lease` and tools. Nobody elects by it, so it may
/// lag or be missing: the database decides.
///
/// A Lease that tells of a later term is left alone, and every write names the version that it replaces; so a leader of
/// the past never speaks over a new one. Runs its own thread from construction to the end, when it gives the Lease up.
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
