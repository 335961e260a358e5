#pragma once
#include "qm/base/result.hpp"
#include "qm/kube/client.hpp"

#include <cstdint>
#include <string>

namespace qm::kube {

/// One coordination.k8s.io Lease that tells who leads something. It is a record, not a lock: the term, which grows with
/// each change of leaders, comes from whoever decides, and stands in leaseTransitions.
///
/// Fails    kAborted: another wrote meanwhile (a 409 is honoured, never overwritten blindly); try again later.
///          kFailedPrecondition: the Lease tells of a later term, so this holder has nothing more to say.
/// Threads  one at a time.
class LeaseRecord {
 public:
  struct Holder {
    std::string identity;
    std::int64_t term = 0;
  };
  LeaseRecord(Client& client, std::string ns, std::string name, Holder holder);
  /// Creates the Lease, takes it from an earlier term, or renews it.
  Status renew();
  /// Empties the holder, as client-go does at a planned end.
  Status give_up();

 private:
  Status write(bool holds);

  Client& client_;
  const std::string ns_, name_;
  const Holder holder_;
};

}  // namespace qm::kube
