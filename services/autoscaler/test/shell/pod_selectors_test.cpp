// The pods with which a pod is spread by default.
#include "src/shell/pods/pod_selectors.hpp"

#include "test/shell/rig.hpp"

#include <gtest/gtest.h>

namespace qm::autoscaler {
namespace pod_selectors_test {

class Selectors : public ::testing::Test {
 protected:
  void put(const char* kind, const char* name, const char* selector, bool deleted = false) {
    selectors_.take(
        kind,
        *Json::parse(fmt::format(R"({{"metadata":{{"name":"{}","namespace":"shop"}},"spec":{{"selector":{}}}}})", name,
                                 selector)),
        deleted);
  }
  [[nodiscard]] LabelSelector of(const Labels& labels, const char* kind = "", const char* name = "",
                                 const char* ns = "shop") const {
    return selectors_.of(ns, labels, kind, name);
  }
  testing::Rig rig_;
  PodSelectors selectors_{rig_.client};
};

TEST_F(Selectors, OfItsServicesAndItsControllerTogether) {
  put("Service", "web", R"({"app":"web"})");
  put("Service", "other", R"({"app":"api"})");
  put("ReplicaSet", "web-1", R"({"matchLabels":{"app":"web","hash":"1"}})");
  const auto both = of({{"app", "web"}, {"hash", "1"}}, "ReplicaSet", "web-1");
  EXPECT_TRUE(both.matches({{"app", "web"}, {"hash", "1"}}));
  EXPECT_FALSE(both.matches({{"app", "web"}, {"hash", "2"}})) << "of another ReplicaSet";
  EXPECT_FALSE(both.matches({{"app", "api"}, {"hash", "1"}}));
  EXPECT_TRUE(of({{"app", "web"}}).matches({{"app", "web"}, {"hash", "2"}})) << "by the Service alone";
}

TEST_F(Selectors, APodWithoutServiceAndControllerHasNone) {
  put("Service", "web", R"({"app":"web"})");
  put("Service", "external", "null");
  EXPECT_TRUE(of({{"app", "job"}}).requirements.empty());
  EXPECT_TRUE(of({{"app", "web"}}, "", "", "another").requirements.empty()) << "the namespace decides";
  EXPECT_TRUE(of({{"app", "job"}}, "Job", "train").requirements.empty()) << "Jobs are not spread";
  put("Service", "web", R"({"app":"web"})", true);
  EXPECT_TRUE(of({{"app", "web"}}).requirements.empty());
}

}  // namespace pod_selectors_test
}  // namespace qm::autoscaler
