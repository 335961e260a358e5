// Pods whose claims restrict where they may run, pod limits of nodes, and nearby data.
#include "qm/kube_rules/text.hpp"
#include "test/engine/script.hpp"

#include <gtest/gtest.h>

namespace qm::placement::testing {
namespace volumes_test {

using rules::PodTemplate;
using rules::Requirement;

/// Reachable from the nodes of a zone.
std::string in_zone(const std::string& zone) {
  PodTemplate like;
  like.rules.volumes = {{"any", {{{{"zone", Requirement::Op::kIn, {zone}}}, {}}}}};
  return rules::text_of(like);
}

PodTemplate with_claims(const std::vector<std::string>& names) {
  PodTemplate like{Namespace("default"), {}, {}};
  like.rules.claims = names;
  return like;
}

/// Nodes a1 and a2 in zone a, b1 in zone b, each of 8 GPUs; classes "at-once", "later" (zone b only) and "by-hand".
class Volumes : public ::testing::Test {
 protected:
  Volumes() {
    std::vector<Command> batch;
    NodesSynced all;
    for (const char* name : {"a1", "a2", "b1"}) {
      auto facts = node_facts(8);
      facts.labels["zone"] = std::string(name, 1);
      batch.emplace_back(NodeUpdated{NodeName(name), facts});
      all.nodes.emplace(name);
    }
    batch.emplace_back(all);
    batch.emplace_back(PodsSynced{});
    script.step(batch);
  }
  void storage_listed() {
    script.step({StorageUpdated{"class/at-once", StorageClass{false, true, {}}},
                 StorageUpdated{"class/later", StorageClass{true, true, in_zone("b")}},
                 StorageUpdated{"class/by-hand", StorageClass{true, false, {}}},
                 StorageSynced{"class", {"class/at-once", "class/later", "class/by-hand"}}, StorageSynced{"volume", {}},
                 StorageSynced{"claim", {}}});
  }
  std::string claim(const std::string& name, const Claim& what) {
    return published(script.step({StorageUpdated{"claim/default/" + name, what}}));
  }
  std::string admit(const std::string& uid, int pods, const PodTemplate& like, std::int64_t gpus = 1) {
    return published(script.step({gang_of(uid, pods, like, gpus)}));
  }
  static std::string published(const Output& output) { return lines_of(output, {"reserved", "short", "bind"}); }
  Script script;
};

TEST_F(Volumes, BoundClaimRequiresTheNodesOfItsVolume) {
  storage_listed();
  script.step({StorageUpdated{"volume/pv-1", Volume{in_zone("b")}}});
  claim("data", {"pv-1", "at-once", "", false});
  EXPECT_EQ(admit("w", 1, with_claims({"data"})), "reserved w/1 0:b1[0]");
  // The cause is named.
  EXPECT_EQ(
      admit("v", 1, with_claims({"data"}), 8),
      "short v/1 0 of 1 pods fit: 1 eligible nodes have 7 free GPUs, needs 8; 1 have fewer than the 8 free GPUs that a "
      "pod requests; 2 out of reach of volume pv-1 (zone in (b))");
}

TEST_F(Volumes, UnboundClaimKeepsTheGangPending) {
  storage_listed();
  EXPECT_EQ(admit("w", 2, with_claims({"data"})), "short w/1 0 of 2 pods fit: claim data does not exist");
  EXPECT_EQ(claim("data", {"", "at-once", "", false}), "") << "exists and is not bound";
  EXPECT_EQ(admit("v", 1, with_claims({"data"})), "short v/1 0 of 1 pods fit: claim data is not bound to a volume yet");
  EXPECT_EQ(claim("data", {"pv-1", "at-once", "", false}), "") << "the volume is not known yet";
  EXPECT_EQ(published(script.step({StorageUpdated{"volume/pv-1", Volume{}}})),
            "reserved v/1 0:a1[0]; reserved w/1 0:a1[1] 1:a1[2]");
}

TEST_F(Volumes, WaitForFirstConsumerUsesTheNodesOfItsClass) {
  storage_listed();
  claim("data", {"", "later", "", false});
  EXPECT_EQ(admit("w", 1, with_claims({"data"})), "reserved w/1 0:b1[0]");
  PodFacts pod;
  pod.uid = pod.name = "w-0";
  pod.ns = "default";
  pod.owner = pod.controller = WorkloadUid("w");
  pod.attempt = 1;
  pod.index = 0;
  pod.ours = true;
  pod.shape = pod_set(1, 1).shape;
  pod.rules = rules::text_of(with_claims({"data"}));
  const auto output = script.step({PodUpdated{pod}});
  ASSERT_EQ(output.intents.size(), 1U);
  EXPECT_EQ(std::get<BindPod>(output.intents[0].what).claims, std::vector<std::string>{"data"});
  // A volume that is being provisioned for that node is not reachable from another one.
  claim("data", {"", "later", "b1", false});
  EXPECT_EQ(admit("v", 1, with_claims({"data"})), "reserved v/1 0:b1[1]");
  claim("data", {"", "later", "a2", false});
  EXPECT_EQ(admit("u", 1, with_claims({"data"})), "reserved u/1 0:a2[0]");
  claim("made", {"", "by-hand", "", false});
  EXPECT_EQ(admit("t", 1, with_claims({"made"})),
            "short t/1 0 of 1 pods fit: claim made is not bound, and storage class by-hand provisions no volumes");
}

// S-284
TEST_F(Volumes, SingleNodeVolumeIsRefusedForMultiNodeGang) {
  storage_listed();
  script.step({StorageUpdated{"volume/pv-1", Volume{}}});
  EXPECT_EQ(admit("held", 16, with_claims({"data"})), "short held/1 0 of 16 pods fit: claim data does not exist");
  claim("data", {"pv-1", "", "", true});
  const auto refused = admit("w", 16, with_claims({"data"}));
  EXPECT_TRUE(refused.starts_with("short w/1 claim data is used on one node at a time: 16 pods fit")) << refused;
  EXPECT_EQ(admit("v", 2, with_claims({"data"}), 4), "reserved v/1 0:a1[0,1,2,3] 1:a1[4,5,6,7]");
  // A volume that can be shared does not restrict the gang.
  script.step({WorkloadUpdated{{.uid = WorkloadUid("held")}, 1, WorkloadPhase::kCancelled, {}, {}, {}},
               WorkloadUpdated{{.uid = WorkloadUid("w")}, 1, WorkloadPhase::kCancelled, {}, {}, {}}});
  claim("data", {"pv-1", "", "", false});
  EXPECT_TRUE(admit("u", 16, with_claims({"data"})).starts_with("reserved u/1"));
}

TEST_F(Volumes, WithoutStorageWatchClaimsAreIgnored) {
  EXPECT_EQ(admit("w", 1, with_claims({"data"})), "reserved w/1 0:a1[0]");
  storage_listed();
  EXPECT_EQ(admit("v", 1, with_claims({"data"})), "short v/1 0 of 1 pods fit: claim data does not exist");
}

TEST_F(Volumes, CompleteListRemovesDeletedVolumes) {
  storage_listed();
  claim("data", {"", "later", "", false});
  claim("more", {"", "later", "", false});
  script.step({StorageSynced{"claim", {"claim/default/more"}}});
  EXPECT_EQ(script.engine().tables().storage.find("claim/default/data"), nullptr);
  EXPECT_NE(script.engine().tables().storage.find("claim/default/more"), nullptr);
  script.step({StorageDeleted{"claim/default/more"}, StorageDeleted{"claim/default/never"}});
  EXPECT_EQ(script.engine().tables().storage.find("claim/default/more"), nullptr);
  EXPECT_NE(script.engine().tables().storage.find("class/later"), nullptr);
}

// S-288
TEST_F(Volumes, NodeWithCachedModelIsPreferred) {
  auto facts = node_facts(8);
  facts.labels["zone"] = "b";
  facts.labels[std::string(kCachePrefix) + "llama-70b"] = "true";
  script.step({NodeUpdated{NodeName("b1"), facts}});
  PodTemplate like{Namespace("default"), {{std::string(kModelLabel), "llama-70b"}}, {}};
  EXPECT_EQ(admit("w", 1, like), "reserved w/1 0:b1[0]");
  like.labels[std::string(kModelLabel)] = "bert";
  EXPECT_EQ(admit("v", 1, like, 8), "reserved v/1 0:a1[0,1,2,3,4,5,6,7]");
  // Not equal: using a node that is already in use keeps another one whole.
  admit("u", 1, with_claims({}), 1);
  like.labels[std::string(kModelLabel)] = "llama-70b";
  EXPECT_EQ(admit("t", 1, like, 8), "reserved t/1 0:a2[0,1,2,3,4,5,6,7]");
}

TEST_F(Volumes, PodLimitOfANode) {
  std::vector<Command> batch;
  for (const char* name : {"a1", "a2", "b1"}) {
    auto facts = node_facts(8);
    facts.pods = 3;
    batch.emplace_back(NodeUpdated{NodeName(name), facts});
  }
  PodFacts daemon;
  daemon.uid = daemon.name = "d";
  daemon.ns = "kube-system";
  daemon.daemon = true;
  daemon.node = NodeName("a1");
  daemon.phase = PodPhase::kRunning;
  batch.emplace_back(PodUpdated{daemon});
  script.step(batch);
  EXPECT_EQ(admit("w", 8, with_claims({}), 0), "reserved w/1 0:a2[] 1:a2[] 2:a2[] 3:b1[] 4:b1[] 5:b1[] 6:a1[] 7:a1[]");
  EXPECT_EQ(admit("v", 1, with_claims({}), 1),
            "short v/1 0 of 1 pods fit: 3 eligible nodes have 24 free GPUs, needs 1; 3 are at their pod limit");
  const auto obstacles = script.engine().diagnose({pod_set(1, 1)});
  EXPECT_EQ(obstacles.conflict, std::vector<std::string>{"pod slots on nodes for 1 pods"});
  // A finished pod frees capacity.
  EXPECT_EQ(published(script.step({PodDeleted{"d"}})), "reserved v/1 0:a1[0]");
}

}  // namespace volumes_test
}  // namespace qm::placement::testing
