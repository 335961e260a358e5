// Dry runs that name the workload of the pods: its namespace, claims, neighbors and type count, for
// callers that may see it.
#include "messages.hpp"
#include "qm/placement/api.hpp"

#include <gtest/gtest.h>

namespace qm::placement {
namespace dry_run_test {

namespace pb = quartermaster::v1;
using namespace testing;

TEST(DryRun, ChecksTheTypeOfTheWorkload) {
  Stepped stepped;
  stepped.open();
  auto event = workload_event("w", 1, pb::PENDING, 1, 1);
  event.mutable_spec()->mutable_pod_sets(0)->set_rules(
      R"({"spec":{"tolerations":[{"operator":"Exists"}],"volumes":[{"persistentVolumeClaim":{"claimName":"data"}}]}})");
  stepped.step({latest(event), watch_of("claim.synced", Json::array()), watch_of("volume.synced", Json::array()),
                watch_of("class.synced", Json::array())});
  const Engine& engine = engine_of(stepped.shell);
  pb::DryRunRequest request;
  *request.add_pod_sets() = event.spec().pod_sets(0);
  const auto unowned = dry_run(engine, request);
  ASSERT_TRUE(unowned);
  EXPECT_TRUE(unowned->fits()) << unowned->reason();
  request.set_uid("w");
  const auto answer = dry_run(engine, request);
  ASSERT_TRUE(answer);
  EXPECT_FALSE(answer->fits());
  EXPECT_EQ(answer->reason(), "0 of 1 pods fit: claim data does not exist");
  ASSERT_EQ(answer->shortfall().conflict_size(), 1);
  EXPECT_EQ(answer->shortfall().conflict(0), "claim data does not exist");
  ASSERT_EQ(answer->shortfall().remedies_size(), 1);
  EXPECT_EQ(answer->shortfall().remedies(0), "without claim data");
  // A caller that may not see the workload gets no information about it.
  rpc::Caller other;
  other.namespaces.insert("elsewhere");
  EXPECT_TRUE(dry_run(engine, request, other)->fits());
  other.namespaces.insert("team");
  EXPECT_FALSE(dry_run(engine, request, other)->fits());
  request.set_uid("never-heard-of");
  EXPECT_TRUE(dry_run(engine, request)->fits());
}

}  // namespace dry_run_test
}  // namespace qm::placement
