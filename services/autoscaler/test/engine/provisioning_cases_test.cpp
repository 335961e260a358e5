// ProvisioningRequests: capacity for a gang before its pods exist, booked for a while.
#include "test/engine/script.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace qm::autoscaler::testing {
namespace provisioning_cases_test {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Requests : ::testing::Test {
  Script script;
  ProvisioningRequest request;
  std::map<InstanceId, InstanceFact> cloud;

  Requests() {
    request.uid = WorkloadUid("r");
    request.ns = "ml";
    request.name = "train";
    request.pod_sets = {pod_set(4, 8)};
    request.created = script.now();
  }
  Output step(const std::vector<Command>& batch) {
    Output out = script.step(batch);
    EXPECT_EQ(script.complaint(), "");
    return out;
  }
  Output begin() {
    Pool p;
    p.name = "p";
    p.instance_types = {"a8"};
    p.markets = {Market::kOnDemand};
    p.zones = {"z1", "z2"};
    p.consolidate_after = seconds(60);
    return step({PoolsApplied{{p}}, ProvisioningApplied{{request}}});
  }
  /// The instances of these claims came, and their nodes are ready and empty.
  Output ready(const std::vector<LaunchIntent>& launches, std::size_t count) {
    std::vector<Command> batch;
    InstancesListed seen;
    for (std::size_t i = 0; i < count; ++i) {
      const LaunchIntent& l = launches[i];
      const InstanceId id("i-" + l.claim.value());
      const NodeName node("n-" + l.claim.value());
      batch.emplace_back(LaunchEnded{l.claim, id, ""});
      cloud[id] = {id, l.claim, "p", l.row.type, l.row.zone, l.row.market, node, script.now(), {}};
      NodeUpdated update{node, true, false, false, 0, script.now(), id};
      batch.emplace_back(update);
    }
    for (const auto& [id, fact] : cloud) seen.instances.push_back(fact);
    batch.emplace_back(std::move(seen));
    return step(batch);
  }
  [[nodiscard]] std::string condition(const std::string& type) {
    const auto conditions = script.engine().provisioning();
    for (const Condition& c : conditions.at(request.uid)) {
      if (c.type == type) return c.status + " " + c.reason;
    }
    return {};
  }
  [[nodiscard]] std::string message(const std::string& type) {
    const auto conditions = script.engine().provisioning();
    for (const Condition& c : conditions.at(request.uid)) {
      if (c.type == type) return c.message;
    }
    return {};
  }
};

TEST_F(Requests, LaunchTheirGangAndAreProvisionedWhenAllNodesAreReady) {
  const auto launches = begin().launches;
  ASSERT_EQ(launches.size(), 4U);
  for (const auto& l : launches) {
    EXPECT_EQ(l.row.zone, launches[0].row.zone) << "one gang, one zone";
    EXPECT_EQ(l.row.launch, launches[0].row.launch) << "one launch, all or none";
    EXPECT_THAT(l.row.reason, HasSubstr("ProvisioningRequest ml/train"));
  }
  EXPECT_EQ(condition("Accepted"), "True Accepted");
  EXPECT_EQ(condition("Provisioned"), "False CapacityIsBeingProvisioned");
  ready(launches, 3);
  EXPECT_EQ(condition("Provisioned"), "False CapacityIsBeingProvisioned") << "one node is missing";
  ready(launches, 4);
  EXPECT_EQ(condition("Provisioned"), "True CapacityIsProvisioned");
  EXPECT_THAT(step({DemandUpdated{}}).launches, IsEmpty());
}

TEST_F(Requests, BookedNodesAreKeptUntilTheBookingExpires) {
  ready(begin().launches, 4);
  script.advance(minutes(9));
  EXPECT_THAT(step({Tick{}}).drains, IsEmpty()) << "empty for longer than consolidateAfter";
  script.advance(minutes(1));
  const auto out = step({Tick{}});
  EXPECT_EQ(condition("BookingExpired"), "True BookingExpired");
  EXPECT_EQ(condition("Provisioned"), "True CapacityIsProvisioned");
  EXPECT_EQ(out.drains.size(), 4U) << "no pod came";
}

TEST_F(Requests, ALostNodeRevokesTheCapacity) {
  ready(begin().launches, 4);
  cloud.begin()->second.stopped = script.now();
  InstancesListed seen;
  for (const auto& [id, fact] : cloud) seen.instances.push_back(fact);
  step({seen});
  EXPECT_EQ(condition("CapacityRevoked"), "True CapacityRevoked");
  EXPECT_THAT(message("CapacityRevoked"), HasSubstr("p-00001"));
}

// The third of four is refused, in every zone: nothing remains, and the request stays open.
TEST_F(Requests, WithTheThirdLaunchRefusedNothingRemains) {
  auto out = begin();
  std::set<InstanceId> alive;
  for (int zone = 0; zone < 2; ++zone) {
    ASSERT_EQ(out.launches.size(), 4U);
    const auto launches = out.launches;
    for (int i : {0, 1}) {
      const InstanceId id("i-" + launches[static_cast<std::size_t>(i)].claim.value());
      step({LaunchEnded{launches[static_cast<std::size_t>(i)].claim, id, ""}});
      alive.insert(id);
    }
    out = step({LaunchEnded{launches[2].claim, {}, "InsufficientInstanceCapacity"}});
    for (const auto& t : out.terminations) alive.erase(t.instance);
  }
  EXPECT_THAT(out.launches, IsEmpty());
  EXPECT_THAT(alive, IsEmpty());
  EXPECT_EQ(condition("Provisioned"), "False CapacityIsNotFound");
  EXPECT_THAT(message("Provisioned"), HasSubstr("no capacity"));
  // The outage is expected to be over: all four again.
  script.advance(minutes(4));
  EXPECT_EQ(step({Tick{}}).launches.size(), 4U);
}

TEST_F(Requests, CheckCapacityBooksIdleNodesAndLaunchesNothing) {
  ready(begin().launches, 4);
  script.advance(minutes(10));
  // The second request finds the nodes of the first one, which have just expired.
  ProvisioningRequest check = request;
  check.uid = WorkloadUid("c");
  check.provisioning_class = ProvisioningClass::kCheckCapacity;
  request = check;
  Pool keep = *script.engine().tables().pools.find("p");
  keep.consolidate_empty = false;
  step({PoolsApplied{{keep}}, ProvisioningApplied{{check}}});
  EXPECT_EQ(condition("Provisioned"), "True CapacityIsFound");
  // Booked nodes are not booked twice.
  check.uid = WorkloadUid("d");
  const auto out = step({ProvisioningApplied{{request, check}}});
  request = check;
  EXPECT_EQ(condition("Provisioned"), "False CapacityIsNotFound");
  EXPECT_THAT(out.launches, IsEmpty());
}

TEST_F(Requests, RoomOnRunningNodesIsCapacity) {
  request.room = {4};
  EXPECT_THAT(begin().launches, IsEmpty());
  EXPECT_EQ(condition("Provisioned"), "True CapacityIsProvisioned");
}

TEST_F(Requests, FailWhenTheyAreNotValidAnyMore) {
  request.provisioning_class = ProvisioningClass::kCheckCapacity;
  request.valid_for = minutes(5);
  EXPECT_EQ(begin().wake_at, script.now() + minutes(5));
  script.advance(minutes(5));
  step({Tick{}});
  EXPECT_EQ(condition("Failed"), "True Expired");
}

TEST_F(Requests, ThatCannotBeReadFailAtOnce) {
  request.invalid = "spec.podSets[0].podTemplateRef: PodTemplate ml/x does not exist";
  EXPECT_THAT(begin().launches, IsEmpty());
  EXPECT_EQ(condition("Failed"), "True Invalid");
  EXPECT_EQ(condition("Accepted"), "");
}

TEST_F(Requests, ADeletedRequestGivesItsNodesBack) {
  const auto launches = begin().launches;
  step({ProvisioningApplied{}});
  ready(launches, 4);
  script.advance(minutes(5));
  step({Tick{}});
  script.advance(minutes(5));
  step({Tick{}});
  for (const auto& [name, c] : script.engine().tables().claims) EXPECT_NE(c.state, ClaimState::kReady) << name;
}

TEST_F(Requests, TheListOfPlacementDoesNotRemoveThem) {
  const auto launches = begin().launches;
  step({DemandUpdated{}});
  ready(launches, 4);
  EXPECT_EQ(condition("Provisioned"), "True CapacityIsProvisioned");
}

}  // namespace provisioning_cases_test
}  // namespace qm::autoscaler::testing
