#pragma once
#include "qm/base/result.hpp"
#include "qm/kube/client.hpp"

#include <cstdint>
#include <string>

namespace qm::kube {

/// A coordination.k8s.io Lease that shows the current leader. It is a record, not a lock: the term, which increases
/// with each change of leaders, is decided elsewhere; it is stored in leaseTransitions.
///
/// Fails    kAborted: a concurrent write (a 409 is respected, never overwritten blindly); retry later.
///          kFailedPrecondition: the Lease has a later term, so this holder must no longer write it.
/// Threads  one at a time.
class LeaseRecord {
 public:
  struct Holder {
    std::string identity;
    std::int64_t term = 0;
  };
  LeaseRecord(Client& client, std::string ns, std::string name, Holder holder);
  /// Creates the Lease, takes it over from an earlier term, or renews it.
  Status renew();
  /// Clears the holder, as client-go does at a planned end.
  Status give_up();

 private:
  Status write(bool holds);
  Status write_over(Result<Json> found, bool holds);

  Client& client_;
  const std::string ns_, name_;
  const Holder holder_;
  Json written_;  ///< as stored by the last write
};

}  // namespace qm::kube
