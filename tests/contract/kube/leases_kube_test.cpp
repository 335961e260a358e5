// The Lease of the leader: written with terms, never over a later term. On the fleet's API and on a real server.
#include "kube_under_test.hpp"
#include "qm/kube/lease.hpp"

namespace qm::kube {
namespace leases_kube_test {

using namespace resources;

constexpr const char* kName = "quartermaster-cost-default";

class Leases : public KubeContract {
 protected:
  LeaseRecord lease(const std::string& identity, std::int64_t term) {
    return {client(), ns(), kName, {identity, term}};
  }
  Json spec() { return must_get(kLeases, kName)["spec"]; }
};

TEST_F(Leases, AFirstLeaderMakesIt) {
  auto a = lease("a", 1);
  const auto done = a.renew();
  ASSERT_TRUE(done) << done.error().to_string();
  const auto made = spec();
  EXPECT_EQ(made["holderIdentity"].string(), "a");
  EXPECT_EQ(made["leaseTransitions"].integer(), 1);
  EXPECT_GT(made["leaseDurationSeconds"].integer(), 0);
  EXPECT_TRUE(from_rfc3339(made["renewTime"].string())) << made.dump();
  EXPECT_TRUE(from_rfc3339(made["acquireTime"].string())) << made.dump();
}

TEST_F(Leases, ARenewalKeepsTheInstantOfAcquisition) {
  auto a = lease("a", 1);
  ASSERT_TRUE(a.renew());
  const auto first = spec();
  ASSERT_TRUE(a.renew());
  EXPECT_EQ(spec()["acquireTime"].string(), first["acquireTime"].string());
  EXPECT_NE(spec()["renewTime"].string(), first["renewTime"].string());
}

TEST_F(Leases, ALaterTermTakesItAndAnEarlierOneDoesNotTakeItBack) {
  auto a = lease("a", 1), b = lease("b", 2);
  ASSERT_TRUE(a.renew());
  ASSERT_TRUE(b.renew());
  EXPECT_EQ(spec()["holderIdentity"].string(), "b");
  EXPECT_EQ(spec()["leaseTransitions"].integer(), 2);
  const auto late = a.renew();
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kFailedPrecondition);
  EXPECT_FALSE(a.give_up());
  EXPECT_EQ(spec()["holderIdentity"].string(), "b");
}

TEST_F(Leases, APlannedEndEmptiesIt) {
  auto a = lease("a", 1);
  ASSERT_TRUE(a.give_up()) << "there is nothing to give up yet";
  ASSERT_TRUE(a.renew());
  ASSERT_TRUE(a.give_up());
  EXPECT_EQ(spec()["holderIdentity"].string(), "");
  auto b = lease("b", 2);
  ASSERT_TRUE(b.renew());
  EXPECT_EQ(spec()["holderIdentity"].string(), "b");
}

// The basis of the record: the server refuses a write over a version that has been replaced.
TEST_F(Leases, AStaleWriteIsRefused) {
  auto a = lease("a", 1);
  ASSERT_TRUE(a.renew());
  auto stale = must_get(kLeases, kName);
  ASSERT_TRUE(a.renew());
  stale.set("spec").set("holderIdentity", "thief");
  const auto refused = client().update(kLeases, ns(), kName, stale);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kAborted);
  EXPECT_EQ(spec()["holderIdentity"].string(), "a");
}

}  // namespace leases_kube_test
}  // namespace qm::kube
