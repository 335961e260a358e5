#pragma once
#include "qm/base/time.hpp"
#include "qm/kube/client.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace qm::kube {

/// The API server under test; servers differ only by address. fleet_kube_test.cpp starts the fleet's,
/// real_k8s_test.cpp uses a real one.
class KubeUnderTest {
 public:
  virtual ~KubeUnderTest() = default;
  /// Null if there is none; `why_not` then has the reason.
  static KubeUnderTest* shared(std::string* why_not);

  [[nodiscard]] ClientOptions options() const { return options_; }
  /// True if its controllers run: jobs, kubelets.
  [[nodiscard]] bool controllers() const { return controllers_; }
  /// Makes old watch positions expire, at least that of version 1.
  virtual void expire_watches() = 0;
  /// True once pods can be created in a new namespace.
  virtual bool has_settled(Client& /*client*/, const std::string& /*ns*/) { return true; }

 protected:
  static std::unique_ptr<KubeUnderTest> make(std::string* why_not);

  ClientOptions options_;
  bool controllers_ = true;
};

namespace resources {
inline const Resource kNamespaces{"", "v1", "namespaces", false};
inline const Resource kBudgets{"policy", "v1", "poddisruptionbudgets", true};
inline const Resource kDefinitions{"apiextensions.k8s.io", "v1", "customresourcedefinitions", false};
}  // namespace resources

/// A client, and a namespace for the test that is emptied at the end.
class KubeContract : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] Client& client() { return *client_; }
  [[nodiscard]] const std::string& ns() const { return ns_; }
  KubeUnderTest& server() { return *server_; }
  /// A unique name for cluster-wide objects of this test; they are deleted at the end.
  std::string cluster_name(const Resource& r, const std::string& stem);

  Json pod(const std::string& name, const Json& labels = {}) const;
  /// Creates the object; a failure fails the test.
  Json must_create(const Resource& r, const Json& object);
  Json must_get(const Resource& r, const std::string& name);
  /// Two nodes to bind to, existing or created.
  std::vector<std::string> two_nodes();

  struct Seen {
    std::string type, name, version;
    Json object;
  };
  /// Watches until `enough` returns true, the watch ends, or 20 s have passed; limited to a field selector if one is
  /// given.
  Status watch(const Resource& r, const std::string& from, std::vector<Seen>& seen, const std::function<bool()>& enough,
               int timeout_seconds = 60, const std::string& fields = {});

 private:
  KubeUnderTest* server_ = nullptr;
  std::unique_ptr<Client> client_;
  std::string ns_;
  std::vector<std::pair<Resource, std::string>> cluster_objects_;
};

#define QM_NEEDS_CONTROLLERS()                                                       \
  do {                                                                               \
    if (!server().controllers())                                                     \
      GTEST_SKIP() << "needs the job controller and kubelets; this server has none " \
                      "(set QM_KUBE_CONTROLLERS=1 if it has)";                       \
  } while (false)

}  // namespace qm::kube
