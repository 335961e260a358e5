#pragma once
#include "kube_under_test.hpp"

#include <cstdint>

namespace qm::kube {

inline constexpr const char* kNoRealKube = "QM_KUBE_URL is not set: run ./qm peers kubernetes, then ./qm test --peers";

/// A setting of the peer's: QM_KUBE_URL, QM_KUBE_CA, QM_KUBE_TOKEN, ... Empty where it is not set.
std::string real_setting(const char* name);

/// What only a real server can be asked, among it what ends its parts: tools/peers/kubernetes.sh does that.
class RealKube : public KubeContract {
 protected:
  /// "restart api", "kill9 etcd"; skips nothing, fails the test where the part does not come back.
  void peer(const std::vector<std::string>& verb);
  /// etcd forgets what was before now.
  void compact();
};

/// Tests that end parts of the server need a server that is theirs.
#define QM_NEEDS_OWN_PEER()                                                                            \
  do {                                                                                                 \
    if (real_setting("QM_KUBE_PEER").empty() || real_setting("QM_KUBE_ETCD").empty())                  \
      GTEST_SKIP() << "QM_KUBE_PEER is not set: this server was not started by ./qm peers kubernetes"; \
  } while (false)

}  // namespace qm::kube
