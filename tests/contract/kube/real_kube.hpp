#pragma once
#include "kube_under_test.hpp"

#include <cstdint>

namespace qm::kube {

inline constexpr const char* kNoRealKube = "QM_KUBE_URL is not set: run ./qm peers kubernetes, then ./qm test --peers";

/// A setting of the peer: QM_KUBE_URL, QM_KUBE_CA, QM_KUBE_TOKEN, ... Empty if it is not set.
std::string real_setting(const char* name);

/// Runs a verb of tools/peers/kubernetes.sh, "restart api" or "kill9 etcd"; a failure fails the test.
void peer(const std::vector<std::string>& verb);

/// Cases that need a real server, including those that stop its parts.
class RealKube : public KubeContract {
 protected:
  /// Compacts etcd up to now.
  void compact();
};

/// Tests that stop parts of the server need a server of their own.
#define QM_NEEDS_OWN_PEER()                                                                            \
  do {                                                                                                 \
    if (real_setting("QM_KUBE_PEER").empty() || real_setting("QM_KUBE_ETCD").empty())                  \
      GTEST_SKIP() << "QM_KUBE_PEER is not set: this server was not started by ./qm peers kubernetes"; \
  } while (false)

}  // namespace qm::kube
