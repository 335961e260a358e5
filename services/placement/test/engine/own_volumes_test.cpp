// Volumes of individual pods, and attach limits of nodes: the same decisions as kube-scheduler's
// VolumeBinding and NodeVolumeLimits.
#include "qm/kube_rules/text.hpp"
#include "test/engine/preemption_fixture.hpp"

#include <random>

namespace qm::placement::testing {
namespace own_volumes_test {

using rules::OwnClaim;
using rules::PodTemplate;
using rules::Requirement;

constexpr const char* kDriver = "ebs.csi.aws.com";

std::string in_zone(const std::string& zone) {
  PodTemplate like;
  like.rules.volumes = {{"any", {{{{"zone", Requirement::Op::kIn, {zone}}}, {}}}}};
  return rules::text_of(like);
}

/// Nodes a1 and a2 in zone a, b1 in zone b, each of 8 GPUs. Class "later" provisions volumes in
/// zone b for the first consumer, "at-once" anywhere when they are claimed, "by-hand" none; "later"
/// is the default. All have the same driver.
class OwnVolumes : public ::testing::Test {
 protected:
  OwnVolumes() {
    std::vector<Command> batch;
    NodesSynced all;
    for (const char* name : {"a1", "a2", "b1"}) {
      auto facts = node_facts(8);
      facts.labels["zone"] = facts.labels[std::string(words::kZone)] = std::string(name, 1);
      batch.emplace_back(NodeUpdated{NodeName(name), facts});
      all.nodes.emplace(name);
    }
    batch.emplace_back(all);
    batch.emplace_back(PodsSynced{});
    batch.emplace_back(StorageUpdated{"class/later", StorageClass{true, true, in_zone("b"), kDriver, true}});
    batch.emplace_back(StorageUpdated{"class/at-once", StorageClass{false, true, {}, kDriver, false}});
    batch.emplace_back(StorageUpdated{"class/by-hand", StorageClass{true, false, {}, {}, false}});
    batch.emplace_back(StorageSynced{"class", {"class/later", "class/at-once", "class/by-hand"}});
    batch.emplace_back(StorageSynced{"volume", {}});
    batch.emplace_back(StorageSynced{"claim", {}});
    script.step(batch);
  }
  void limit(const std::string& node, std::int64_t count) {
    script.step({StorageUpdated{"limits/" + node, AttachLimits{{{kDriver, count}}}}});
  }
  std::string claim(const std::string& name, const Claim& what) {
    return published(script.step({StorageUpdated{"claim/default/" + name, what}}));
  }
  /// A claim that is bound to a volume of the driver, reachable from anywhere.
  void bound(const std::string& name, const std::string& driver = kDriver) {
    script.step({StorageUpdated{"volume/pv-" + name, Volume{{}, driver, "vol-" + name, "default/" + name}}});
    claim(name, {"pv-" + name, "", "", false, {}});
  }
  static PodTemplate own(std::optional<std::string> made_by, int volumes = 1) {
    PodTemplate like{Namespace("default"), {}, {}};
    for (int i = 0; i < volumes; ++i) like.rules.own_claims.push_back({fmt::format("scratch{}", i), made_by});
    return like;
  }
  static PodTemplate claims(const std::vector<std::string>& names) {
    PodTemplate like{Namespace("default"), {}, {}};
    like.rules.claims = names;
    return like;
  }
  std::string admit(const std::string& uid, int pods, const PodTemplate& like, std::int64_t gpus = 1) {
    return published(script.step({gang_of(uid, pods, like, gpus)}));
  }
  static WorkloadUpdated ends(const std::string& uid) {
    WorkloadUpdated out;
    out.spec.uid = WorkloadUid(uid);
    out.spec.ns = Namespace("default");
    out.phase = WorkloadPhase::kCancelled;
    out.attempt = 1;
    return out;
  }
  static PodFacts pod(const std::string& uid, int index, const PodTemplate& like) {
    PodFacts facts;
    facts.uid = facts.name = fmt::format("{}-{}", uid, index);
    facts.ns = "default";
    facts.owner = facts.controller = WorkloadUid(uid);
    facts.attempt = 1;
    facts.pod_set = "main";
    facts.index = index;
    facts.ours = true;
    facts.shape = pod_set(1, 1).shape;
    facts.rules = rules::text_of(like);
    return facts;
  }
  /// Submits a gang whose pods exist before it is decided.
  std::string comes_alone(const std::string& uid, int pods, const PodTemplate& like) {
    std::vector<Command> batch;
    for (int i = 0; i < pods; ++i) batch.emplace_back(PodUpdated{pod(uid, i, like)});
    auto alone = gang_of(uid, pods, like, 1);
    alone.phase = WorkloadPhase::kAdmitted;
    batch.emplace_back(alone);
    return published(script.step(batch));
  }
  static std::string published(const Output& output) { return lines_of(output, {"reserved", "short", "bind"}); }
  static std::vector<BindPod> binds(const Output& output) {
    std::vector<BindPod> out;
    for (const auto& intent : output.intents) {
      if (const auto* bind = std::get_if<BindPod>(&intent.what)) out.push_back(*bind);
    }
    return out;
  }
  Script script;
};

TEST_F(OwnVolumes, NewestDefaultClassIsUsed) {
  script.step({StorageUpdated{"class/a-newer", StorageClass{true, true, in_zone("a"), kDriver, true, from_micros(2)}}});
  EXPECT_EQ(admit("w", 1, own(std::nullopt)), "reserved w/1 0:a1[0]") << "later is of before";
  script.step(
      {StorageUpdated{"class/z-newest", StorageClass{true, true, in_zone("b"), kDriver, true, from_micros(3)}},
       StorageUpdated{"class/zz-as-new", StorageClass{true, true, in_zone("a"), kDriver, true, from_micros(3)}}});
  EXPECT_EQ(admit("v", 1, own(std::nullopt)), "reserved v/1 0:b1[0]") << "created at the same time: by name";
}

TEST_F(OwnVolumes, AreProvisionedWhereTheClassAllows) {
  EXPECT_EQ(admit("w", 2, own("later")), "reserved w/1 0:b1[0] 1:b1[1]");
  EXPECT_EQ(admit("v", 1, own(std::nullopt)), "reserved v/1 0:b1[2]") << "the default class";
  EXPECT_EQ(admit("u", 1, own("at-once"), 8), "reserved u/1 0:a1[0,1,2,3,4,5,6,7]") << "anywhere";
  EXPECT_EQ(admit("t", 1, own("by-hand")),
            "short t/1 0 of 1 pods fit: volume scratch0 is of storage class by-hand, which provisions no volumes");
  EXPECT_EQ(admit("s", 1, own("never")),
            "short s/1 0 of 1 pods fit: volume scratch0 is of storage class never, which does not exist");
  EXPECT_EQ(
      published(script.step({StorageUpdated{"class/never", StorageClass{true, true, in_zone("b"), kDriver, false}}})),
      "reserved s/1 0:b1[3]");
  EXPECT_EQ(admit("r", 8, own("later")),
            "short r/1 4 of 8 pods fit: 1 eligible nodes have 4 free GPUs, needs 8; 2 out of reach of volume scratch0 "
            "(zone in (b))");
}

// The controller creates the claim after the pod exists: until then the pod is not bound to its
// node; then the claim gets the selected node.
TEST_F(OwnVolumes, PodIsPendingForItsClaim) {
  admit("w", 1, own("later"));
  EXPECT_TRUE(binds(script.step({PodUpdated{pod("w", 0, own("later"))}})).empty());
  // A claim of that name that was created for another pod does not count.
  EXPECT_TRUE(
      binds(script.step({StorageUpdated{"claim/default/w-0-scratch0", Claim{"", "later", "", true, "v-0"}}})).empty());
  auto again = pod("w", 0, own("later"));
  again.shape.cpu_milli = 1;
  EXPECT_TRUE(binds(script.step({PodUpdated{again}})).empty());
  EXPECT_TRUE(
      binds(script.step({StorageUpdated{"claim/default/w-0-scratch0", Claim{"", "later", "", true, {}}}})).empty());
  const auto sent =
      binds(script.step({StorageUpdated{"claim/default/w-0-scratch0", Claim{"", "later", "", true, "w-0"}}}));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].node, NodeName("b1"));
  EXPECT_EQ(sent[0].claims, std::vector<std::string>{"w-0-scratch0"});
}

TEST_F(OwnVolumes, ImmediateVolumeMustBeBoundAndReachable) {
  admit("w", 1, own("at-once"));
  const Claim waiting{"", "at-once", "", true, "w-0"}, there{"pv", "at-once", "", true, "w-0"};
  EXPECT_TRUE(binds(script.step({PodUpdated{pod("w", 0, own("at-once"))},
                                 StorageUpdated{"claim/default/w-0-scratch0", waiting}}))
                  .empty());
  EXPECT_TRUE(binds(script.step({StorageUpdated{"claim/default/w-0-scratch0", there}})).empty())
      << "no volume is known";
  // It is not reachable from a1.
  const Volume migration_target{in_zone("b"), kDriver, "vol", "default/w-0-scratch0"};
  EXPECT_TRUE(binds(script.step({StorageUpdated{"volume/pv", migration_target}})).empty());
  const Volume near{in_zone("a"), kDriver, "vol", "default/w-0-scratch0"};
  const auto sent = binds(script.step({StorageUpdated{"volume/pv", near}}));
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].node, NodeName("a1"));
  EXPECT_TRUE(sent[0].claims.empty()) << "its volume is there";
}

// A pod that exists before the decision is placed where its own claim is, as any scheduler does.
TEST_F(OwnVolumes, ExistingPodsFollowTheirClaims) {
  EXPECT_EQ(comes_alone("w", 1, own("at-once")),
            "short w/1 0 of 1 pods fit: claim w-0-scratch0 does not exist yet: it is created for the pod");
  EXPECT_EQ(claim("w-0-scratch0", {"", "at-once", "", true, "another"}), "");
  EXPECT_EQ(
      script.engine().dry_run({gang_of("w", 1, own("at-once"), 1).spec.pod_sets}, WorkloadUid("w")).shortfall.reason,
      "0 of 1 pods fit: claim w-0-scratch0 was not created for its pod");
  EXPECT_EQ(claim("w-0-scratch0", {"", "at-once", "", true, "w-0"}), "") << "not bound yet";
  EXPECT_EQ(claim("w-0-scratch0", {"pv", "at-once", "", true, "w-0"}), "") << "its volume is not known yet";
  EXPECT_EQ(published(script.step(
                {StorageUpdated{"volume/pv", Volume{in_zone("b"), kDriver, "vol", "default/w-0-scratch0"}}})),
            "reserved w/1 0:b1[0]; bind w-0 -> b1 [0]");
}

TEST_F(OwnVolumes, SeveralPodsFitOneNode) {
  EXPECT_EQ(admit("w", 3, own("later")), "reserved w/1 0:b1[0] 1:b1[1] 2:b1[2]")
      << "read and written by one node each, and there is one for each";
}

// ---- attach limits of nodes ----

TEST_F(OwnVolumes, AttachLimitOfANode) {
  limit("a1", 2), limit("a2", 3);
  limit("b1", 0);
  EXPECT_EQ(admit("w", 4, own("at-once"), 2), "reserved w/1 0:a2[0,1] 1:a2[2,3] 2:a2[4,5] 3:a1[0,1]");
  EXPECT_EQ(admit("v", 2, own("at-once")),
            "short v/1 1 of 2 pods fit: 1 eligible nodes have 6 free GPUs, needs 2; 2 with as many volumes of "
            "ebs.csi.aws.com attached as they may have");
  EXPECT_EQ(admit("u", 1, own("at-once", 2)).substr(0, 9), "short u/1") << "two more do not fit in addition to one";
  EXPECT_EQ(admit("t", 1, own("at-once")), "reserved t/1 0:a1[2]");
  EXPECT_EQ(admit("s", 1, claims({}), 8), "reserved s/1 0:b1[0,1,2,3,4,5,6,7]") << "without volumes there is no limit";
  // A finished pod frees an attachment, and so does a higher limit.
  EXPECT_EQ(published(script.step({ends("t")})), "") << "one fits";
  EXPECT_EQ(admit("r", 1, own("at-once")), "reserved r/1 0:a1[2]");
  EXPECT_EQ(published(script.step({ends("r"), StorageUpdated{"limits/a1", AttachLimits{{{kDriver, 3}}}}})),
            "reserved u/1 0:a1[2]");
  EXPECT_EQ(published(script.step({StorageUpdated{"limits/a1", AttachLimits{{{kDriver, 5}}}}})),
            "reserved v/1 0:a1[3] 1:a1[4]");
}

TEST_F(OwnVolumes, DeletedPodsAreNotCounted) {
  limit("a1", 1), limit("a2", 0), limit("b1", 0);
  admit("w", 1, own("at-once"));
  auto running = pod("w", 0, own("at-once"));
  running.node = NodeName("a1");
  running.phase = PodPhase::kRunning;
  script.step({PodUpdated{running}});
  EXPECT_EQ(admit("v", 1, own("at-once")).substr(0, 9), "short v/1");
  EXPECT_EQ(published(script.step({ends("w")})), "") << "its pod is there yet";
  EXPECT_EQ(published(script.step({PodDeleted{running.uid}})), "reserved v/1 0:a1[0]");
}

// A volume is identified by its driver's name for it: a bound claim and one that is not bound yet are two volumes.
TEST_F(OwnVolumes, UnboundClaimCountsByItsClass) {
  claim("new", {"", "at-once", "", false, {}});
  claim("later", {"", "later", "", false, {}});
  limit("a1", 8), limit("a2", 8), limit("b1", 1);
  EXPECT_EQ(admit("w", 2, claims({"later"})), "reserved w/1 0:b1[0] 1:b1[1]") << "one claim";
  EXPECT_EQ(admit("v", 1, own("later")).substr(0, 9), "short v/1");
  EXPECT_EQ(published(script.step(
                {StorageUpdated{"volume/pv-later", Volume{in_zone("b"), kDriver, "vol", "default/later"}}})),
            "");
  EXPECT_EQ(claim("later", {"pv-later", "later", "b1", false, {}}), "") << "still one volume";
  EXPECT_EQ(
      published(script.step({StorageUpdated{"volume/pv-later", Volume{in_zone("b"), "nfs", "vol", "default/later"}}})),
      "reserved v/1 0:b1[2]")
      << "of another driver, after all";
}

// An attach limit separates pods in the same way as a lack of GPUs, and the rest of a gang stays in the same zone.
TEST_F(OwnVolumes, GangInOneZoneRespectsAttachLimits) {
  limit("a1", 1), limit("a2", 2), limit("b1", 2);
  auto asked = gang_of("w", 3, own("at-once"), 1);
  asked.spec.pod_sets[0].topology.required = words::kZone;
  EXPECT_EQ(published(script.step({asked})), "reserved w/1 0:a1[0] 1:a2[0] 2:a2[1]");
}

TEST_F(OwnVolumes, SharedVolumeCountsOncePerNode) {
  for (const char* name : {"one", "two", "three"}) bound(name);
  limit("a1", 2), limit("a2", 2), limit("b1", 2);
  EXPECT_EQ(admit("w", 4, claims({"one"})), "reserved w/1 0:a1[0] 1:a1[1] 2:a1[2] 3:a1[3]");
  EXPECT_EQ(admit("v", 1, claims({"one", "two"})), "reserved v/1 0:a1[4]") << "one is attached there already";
  // A third volume is above the limit there.
  EXPECT_EQ(admit("u", 1, claims({"three"})), "reserved u/1 0:a2[0]");
  EXPECT_EQ(admit("t", 1, claims({"two"})), "reserved t/1 0:a1[5]") << "an attached volume is not counted again";
  EXPECT_EQ(admit("s", 1, claims({"one", "two", "three"})).substr(0, 9), "short s/1")
      << "more than the limit of any node";
}

TEST_F(OwnVolumes, OnlyLimitedDriversCount) {
  bound("one"), bound("other", "nfs.csi.k8s.io"), bound("plain", "");
  limit("a1", 0), limit("a2", 0), limit("b1", 0);
  EXPECT_EQ(admit("w", 1, claims({"other"})), "reserved w/1 0:a1[0]");
  EXPECT_EQ(admit("v", 1, claims({"plain"})), "reserved v/1 0:a1[1]");
  EXPECT_EQ(admit("u", 1, claims({"one"})),
            "short u/1 0 of 1 pods fit: 0 eligible nodes have 0 free GPUs, needs 1; 3 with as many volumes of "
            "ebs.csi.aws.com attached as they may have");
  // A node that reports no limit is not limited.
  EXPECT_EQ(published(script.step({StorageDeleted{"limits/b1"}})), "reserved u/1 0:b1[0]");
  EXPECT_EQ(admit("t", 1, claims({"one"}), 8).substr(0, 9), "short t/1");
  EXPECT_EQ(published(script.step({StorageSynced{"limits", {"limits/a1", "limits/b1"}}})),
            "reserved t/1 0:a2[0,1,2,3,4,5,6,7]");
}

TEST_F(OwnVolumes, UnmanagedPodsCount) {
  bound("one"), bound("two");
  limit("a1", 1), limit("a2", 1), limit("b1", 1);
  for (const char* on : {"a1", "a2"}) {
    PodFacts unmanaged;
    unmanaged.uid = unmanaged.name = std::string("s-") + on;
    unmanaged.ns = "default";
    unmanaged.node = NodeName(on);
    unmanaged.phase = PodPhase::kRunning;
    unmanaged.rules = rules::text_of(std::string(on) == "a1" ? claims({"one"}) : own("at-once"));
    script.step({PodUpdated{unmanaged}});
  }
  EXPECT_EQ(admit("w", 1, claims({"two"})), "reserved w/1 0:b1[0]");
  EXPECT_EQ(admit("v", 1, claims({"one"})), "reserved v/1 0:a1[0]");
  EXPECT_EQ(published(script.step({PodDeleted{"s-a2"}})), "");
  EXPECT_EQ(admit("u", 1, own("at-once")), "reserved u/1 0:a2[0]");
}

TEST_F(OwnVolumes, TopologyPlacementRespectsAttachLimits) {
  limit("a1", 1), limit("a2", 8), limit("b1", 1);
  auto asked = gang_of("w", 3, own("at-once"), 1);
  asked.spec.pod_sets[0].topology.required = std::string(kHostname);
  EXPECT_EQ(published(script.step({asked})), "reserved w/1 0:a2[0] 1:a2[1] 2:a2[2]");
}

TEST_F(OwnVolumes, PodSetsShareAttachLimits) {
  limit("a1", 3), limit("a2", 4), limit("b1", 3);
  auto asked = gang_of("w", 2, own("at-once"), 1);
  auto more = asked.spec.pod_sets[0];
  more.name = "more";
  asked.spec.pod_sets.push_back(more);
  for (auto& set : asked.spec.pod_sets) set.topology = {std::string(kHostname), "", "", 0, "all"};
  EXPECT_EQ(published(script.step({asked})), "reserved w/1 0:a2[0] 1:a2[1] 0:a2[2] 1:a2[3]");
}

TEST_F(OwnVolumes, WorkloadTypesRespectAttachLimits) {
  limit("a1", 1), limit("a2", 1), limit("b1", 8);
  auto asked = gang_of("w", 4, own("at-once"), 1);
  asked.spec.labels[std::string(kWorkloadType)] = "training";
  EXPECT_EQ(published(script.step({asked})), "reserved w/1 0:b1[0] 1:b1[1] 2:b1[2] 3:b1[3]");
  limit("b1", 5);
  asked.spec.uid = WorkloadUid("v");
  asked.spec.ns = Namespace("default");
  asked.spec.pod_sets[0].count = 3;
  EXPECT_EQ(published(script.step({asked})), "reserved v/1 0:b1[4] 1:a1[0] 2:a2[0]");
}

// Pods with inter-pod constraints are placed one by one, each on a node below its attach limit.
TEST_F(OwnVolumes, OneByOnePlacementRespectsAttachLimits) {
  limit("a1", 1), limit("a2", 3), limit("b1", 0);
  auto like = own("at-once");
  like.labels = {{"app", "ranks"}};
  const LabelSelector ranks{{{"app", LabelRequirement::Op::kIn, {"ranks"}}}};
  like.rules.affinity = {{"zone", ranks, {}, {}}};
  EXPECT_EQ(admit("w", 4, like), "reserved w/1 0:a1[0] 1:a2[0] 2:a2[1] 3:a2[2]");
  EXPECT_EQ(admit("v", 1, like).substr(0, 9), "short v/1");
}

// A gang that scales up waits for the claims of each of its pods, and is placed where they are.
TEST_F(OwnVolumes, ScaleUpFollowsTheClaimOfTheNextPod) {
  limit("a1", 1), limit("a2", 0), limit("b1", 0);
  auto asked = gang_of("w", 2, own("at-once"), 1);
  asked.spec.pod_sets[0].min_count = 1;
  asked.phase = WorkloadPhase::kAdmitted;
  EXPECT_EQ(published(script.step({asked})), "reserved w/1 0:a1[0]");
  const auto claim_of = [](int index, const std::string& volume) {
    return StorageUpdated{fmt::format("claim/default/w-{}-scratch0", index),
                          Claim{volume, "at-once", "", true, fmt::format("w-{}", index)}};
  };
  script.step({StorageUpdated{"volume/pv-0", Volume{in_zone("a"), kDriver, "vol-0", "default/w-0-scratch0"}},
               claim_of(0, "pv-0"), PodUpdated{pod("w", 0, own("at-once"))}});
  auto runs = pod("w", 0, own("at-once"));
  runs.node = NodeName("a1");
  runs.phase = PodPhase::kRunning;
  EXPECT_EQ(published(script.step({PodUpdated{runs}})), "");
  EXPECT_EQ(published(script.step({PodUpdated{pod("w", 1, own("at-once"))}, claim_of(1, "")})), "");
  EXPECT_EQ(published(script.step({StorageUpdated{"limits/a2", AttachLimits{{{kDriver, 1}}}}})), "")
      << "it is not bound yet";
  EXPECT_EQ(published(script.step(
                {StorageUpdated{"volume/pv-1", Volume{in_zone("b"), kDriver, "vol-1", "default/w-1-scratch0"}},
                 claim_of(1, "pv-1")})),
            "")
      << "b1 may have none, and a2 is out of its reach";
  EXPECT_EQ(published(script.step({StorageUpdated{"limits/b1", AttachLimits{{{kDriver, 1}}}}})), "bind w-1 -> b1 [0]");
}

TEST_F(OwnVolumes, DiagnosisAndRemedies) {
  limit("a1", 1), limit("a2", 1), limit("b1", 1);
  const auto& engine = script.engine();
  auto sets = gang_of("w", 4, own("at-once"), 1).spec.pod_sets;
  auto found = engine.diagnose(sets);
  EXPECT_EQ(found.conflict, std::vector<std::string>{"volumes of ebs.csi.aws.com in addition to those attached"});
  std::vector<std::string> remedies;
  for (const auto& way : found.remedies) {
    remedies.push_back(way.words);
    auto changed = engine.request_of(sets);
    way.change(changed);
    EXPECT_TRUE(engine.dry_run(changed).plan) << way.words;
  }
  EXPECT_EQ(remedies, (std::vector<std::string>{"with 3 pods instead of 4", "without its volumes of ebs.csi.aws.com"}));
  sets = gang_of("w", 2, own("later"), 8).spec.pod_sets;
  found = engine.diagnose(sets);
  EXPECT_EQ(found.conflict,
            (std::vector<std::string>{"8 GPUs for each of 2 pods", "volume scratch0 provisioned where zone in (b)"}));
}

// Only the volumes above the limit are given up, including those of existing pods.
TEST_F(OwnVolumes, OnlyVolumesOfTheLimitedDriverAreReported) {
  bound("one"), bound("other", "nfs.csi.k8s.io");
  limit("a1", 0), limit("a2", 0), limit("b1", 0);
  auto like = claims({"one", "other"});
  like.rules.own_claims = {{"scratch", "at-once"}};
  claim("w-0-scratch", {"pv-own", "at-once", "", true, "w-0"});
  script.step({StorageUpdated{"volume/pv-own", Volume{{}, kDriver, "vol-own", "default/w-0-scratch"}}});
  comes_alone("w", 1, like);
  const auto& engine = script.engine();
  const auto sets = gang_of("w", 1, like, 1).spec.pod_sets;
  const auto found = engine.diagnose(sets, WorkloadUid("w"));
  EXPECT_EQ(found.conflict, std::vector<std::string>{"volumes of ebs.csi.aws.com in addition to those attached"});
  ASSERT_EQ(found.remedies.size(), 1U);
  EXPECT_EQ(found.remedies[0].words, "without its volumes of ebs.csi.aws.com");
  auto changed = engine.request_of(sets, WorkloadUid("w"));
  EXPECT_EQ(changed.own_claims, (std::vector<std::vector<PodClaim>>{{{"scratch", "w-0-scratch", "w-0"}}}));
  found.remedies[0].change(changed);
  EXPECT_EQ(rules::template_of(changed.rules[0])->rules.claims, std::vector<std::string>{"other"});
  EXPECT_TRUE(changed.own_claims[0].empty());
  EXPECT_TRUE(engine.dry_run(changed, WorkloadUid("w")).plan);
}

// Free capacity alone is not enough: no victim is named on a node that may not attach the volumes.
TEST_F(Proposals, NoVictimsWhereItsVolumesCannotBe) {
  two_nodes();
  const auto named_with = [&](std::int64_t on_a, std::int64_t on_b) {
    script.step({StorageUpdated{"limits/a", AttachLimits{{{kDriver, on_a}}}},
                 StorageUpdated{"limits/b", AttachLimits{{{kDriver, on_b}}}}});
    play("want big/1 1x8 prio=10 preempt=own in=default");
    auto out = victims_of("big");
    play("phase big/1 cancelled");
    play("tick 1");
    return out;
  };
  script.step({StorageUpdated{"volume/pv", Volume{{}, kDriver, "vol", "default/data"}},
               StorageUpdated{"claim/default/data", Claim{"pv", "", "", false, {}}}, StorageSynced{"class", {}},
               StorageSynced{"volume", {"volume/pv"}}, StorageSynced{"claim", {"claim/default/data"}}});
  PodFacts pod;
  pod.uid = pod.name = "big-0";
  pod.ns = "default";
  pod.owner = pod.controller = WorkloadUid("big");
  pod.attempt = 1;
  pod.index = 0;
  pod.ours = true;
  pod.shape = pod_set(1, 8).shape;
  PodTemplate like{Namespace("default"), {}, {}};
  like.rules.claims = {"data"};
  pod.rules = rules::text_of(like);
  script.step({PodUpdated{pod}});
  EXPECT_EQ(named_with(1, 1), "b1/1 b2/1");
  EXPECT_EQ(named_with(1, 0), "a1/1 a2/1");
  EXPECT_EQ(named_with(0, 0), "");
}

// Gangs with all kinds of claims are submitted and finish, some placed by nodes, some one by one,
// some with required topology: no node ever has more volumes attached than its limit, and a
// workload that needs only a node without a limit is never refused.
TEST(OwnVolumesLaws, AttachLimitsAreNeverExceeded) {
  std::mt19937 random(3);
  const auto upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Options options;
  options.keep_ended = std::chrono::seconds(5);
  options.hold = std::chrono::hours(1'000);
  Engine engine(options);
  constexpr int kNodes = 6, kClaims = 5;
  std::vector<Command> batch;
  NodesSynced all;
  std::map<NodeName, int> limits;
  for (int i = 0; i < kNodes; ++i) {
    const NodeName name(fmt::format("n{}", i));
    batch.emplace_back(NodeUpdated{name, node_facts(8)});
    all.nodes.insert(name);
    if (i == 0) continue;
    limits[name] = i;
    batch.emplace_back(StorageUpdated{fmt::format("limits/{}", name), AttachLimits{{{kDriver, i}}}});
  }
  batch.emplace_back(all);
  batch.emplace_back(PodsSynced{});
  batch.emplace_back(StorageUpdated{"class/any", StorageClass{true, true, {}, kDriver, true}});
  for (int i = 0; i < kClaims; ++i) {
    batch.emplace_back(StorageUpdated{fmt::format("volume/pv{}", i), Volume{{}, kDriver, fmt::format("v{}", i), {}}});
    batch.emplace_back(
        StorageUpdated{fmt::format("claim/default/c{}", i), Claim{fmt::format("pv{}", i), "", "", false, {}}});
  }
  for (const char* kind : {"claim", "volume", "class", "limits"}) {
    StorageSynced synced{kind, {}};
    for (const auto& command : batch) {
      if (const auto* seen = std::get_if<StorageUpdated>(&command); seen != nullptr) synced.keys.insert(seen->key);
    }
    batch.emplace_back(synced);
  }
  Instant now = from_micros(1'000'000'000);
  (void)engine.step(batch, now);
  engine.commit();
  std::map<std::string, std::pair<WorkloadUpdated, PodTemplate>> there;
  int placed = 0, refused = 0, full = 0;
  for (int next = 0; next < 1'500; ++next) {
    batch.clear();
    now += std::chrono::seconds(1);
    while (std::ssize(there) > 8) {
      auto leaving = std::next(there.begin(), upto(static_cast<int>(there.size())));
      leaving->second.first.phase = WorkloadPhase::kCancelled;
      batch.emplace_back(leaving->second.first);
      there.erase(leaving);
    }
    WorkloadUpdated latest;
    const auto uid = fmt::format("w{}", next);
    latest.spec.uid = WorkloadUid(uid);
    latest.spec.ns = Namespace("default");
    latest.spec.pod_sets = {pod_set(1 + upto(4), upto(2))};
    PodTemplate like{Namespace("default"), {}, {}};
    for (int c = 0; c < kClaims; ++c) {
      if (upto(3) == 0) like.rules.claims.push_back(fmt::format("c{}", c));
    }
    for (int own = upto(3); own > 0; --own) like.rules.own_claims.push_back({fmt::format("o{}", own), std::nullopt});
    if (upto(4) == 0) {
      like.labels = {{"app", "ranks"}};
      like.rules.spread = {{"zone", 1, 1, false, LabelSelector{{{"app", LabelRequirement::Op::kIn, {"ranks"}}}}}};
    }
    latest.spec.pod_sets[0].rules = rules::text_of(like);
    if (upto(6) == 0) latest.spec.pod_sets[0].topology.required = std::string(kHostname);
    latest.phase = WorkloadPhase::kQuotaReserved;
    latest.attempt = 1;
    batch.emplace_back(latest);
    there[uid] = {latest, like};
    (void)engine.step(batch, now);
    engine.commit();
    std::map<NodeName, std::set<std::string>> attached;
    for (const auto& [other, known] : there) {
      const auto* row = engine.tables().assignments.find({WorkloadUid(other), 1});
      if (row == nullptr || !row->holds()) continue;
      for (const auto& member : row->members) {
        auto& on = attached[member.node];
        for (const auto& claim : known.second.rules.claims) on.insert(claim);
        for (const auto& own : known.second.rules.own_claims)
          on.insert(fmt::format("{} {} {}", other, member.index, own.volume));
      }
    }
    for (const auto& [node, limit] : limits) ASSERT_LE(std::ssize(attached[node]), limit) << node << " after " << next;
    for (const auto& [node, limit] : limits) full += std::ssize(attached[node]) == limit ? 1 : 0;
    const auto* row = engine.tables().assignments.find({latest.spec.uid, 1});
    (row->holds() ? placed : refused) += 1;
    // Pods without GPUs always fit: n0 has no limit.
    if (latest.spec.pod_sets[0].shape.gpu.none()) {
      ASSERT_TRUE(row->holds()) << next;
    }
    if (next % 100 == 0) {
      engine.audit();
      ASSERT_EQ(read_back(engine, options)->digest(), engine.digest());
    }
  }
  EXPECT_GT(placed, 500);
  EXPECT_GT(refused, 50);
  EXPECT_GT(full, 500);
}

}  // namespace own_volumes_test
}  // namespace qm::placement::testing
