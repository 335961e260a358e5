// Stored objects: reads, writes, preconditions, subresources.
#include "kube_under_test.hpp"

#include <algorithm>
#include <set>

namespace qm::kube {
namespace objects_kube_test {

using namespace resources;

TEST_F(KubeContract, CreateFillsInWhatTheServerOwns) {
  const auto made = must_create(kPods, pod("a"));
  EXPECT_FALSE(uid_of(made).empty());
  EXPECT_FALSE(resource_version_of(made).empty());
  EXPECT_EQ(namespace_of(made), ns());
  EXPECT_TRUE(from_rfc3339(made.path("metadata.creationTimestamp").string()));
  EXPECT_EQ(made.path("status.phase").string(), "Pending");
  EXPECT_EQ(uid_of(must_get(kPods, "a")), uid_of(made));
}

TEST_F(KubeContract, CreateTwiceIsAlreadyExists) {
  must_create(kPods, pod("a"));
  const auto again = client().create(kPods, ns(), pod("a"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
}

TEST_F(KubeContract, GenerateNameMakesAName) {
  auto object = pod("");
  object.set("metadata", Json::object({{"generateName", "gen-"}}));
  const auto first = must_create(kPods, object), second = must_create(kPods, object);
  EXPECT_TRUE(name_of(first).starts_with("gen-"));
  EXPECT_NE(name_of(first), name_of(second));
}

TEST_F(KubeContract, InvalidObjectsNameTheirField) {
  const auto wrong_name = client().create(kPods, ns(), pod("Upper_Case"));
  ASSERT_FALSE(wrong_name);
  EXPECT_EQ(wrong_name.error().code, Code::kInvalid);
  EXPECT_EQ(wrong_name.error().field, "metadata.name");
  auto empty = pod("a");
  empty.set("spec").set("containers", Json::array());
  const auto no_container = client().create(kPods, ns(), empty);
  ASSERT_FALSE(no_container);
  EXPECT_EQ(no_container.error().code, Code::kInvalid);
  EXPECT_EQ(no_container.error().field, "spec.containers");
}

TEST_F(KubeContract, WhatIsAbsentIsNotFound) {
  EXPECT_EQ(client().get(kPods, ns(), "absent").error().code, Code::kNotFound);
  EXPECT_EQ(client().merge_patch(kPods, ns(), "absent", Json::object()).error().code, Code::kNotFound);
  EXPECT_EQ(client().remove(kPods, ns(), "absent", {}).error().code, Code::kNotFound);
  EXPECT_EQ(client().list({"no.such.group", "v1", "things", true}, ns()).error().code, Code::kNotFound);
}

TEST_F(KubeContract, ListsPageBySmallLimits) {
  std::set<std::string> want;
  for (int i = 0; i < 5; ++i) {
    const auto name = "p" + std::to_string(i);
    must_create(kPods, pod(name));
    want.insert(name);
  }
  ListOptions options;
  options.limit = 2;
  std::vector<std::string> got;
  int pages = 0;
  do {
    const auto page = client().list(kPods, ns(), options);
    ASSERT_TRUE(page) << page.error().to_string();
    ASSERT_LE(page->items.size(), 2U);
    EXPECT_FALSE(page->resource_version.empty());
    for (const auto& item : page->items) {
      got.push_back(name_of(item));
      // A real list omits them; the client adds them, so that a reader of an item need not know.
      EXPECT_EQ(item["kind"].string(), "Pod");
      EXPECT_EQ(item["apiVersion"].string(), "v1");
    }
    options.continue_token = page->continue_token;
    ASSERT_LE(++pages, 3);
  } while (!options.continue_token.empty());
  EXPECT_EQ(pages, 3);
  EXPECT_EQ(got.size(), 5U);
  EXPECT_EQ(std::set<std::string>(got.begin(), got.end()), want);
}

TEST_F(KubeContract, ABrokenContinueTokenIsRefused) {
  ListOptions options;
  options.continue_token = "not a token";
  const auto page = client().list(kPods, ns(), options);
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Code::kInvalid);
}

TEST_F(KubeContract, ListsCanCoverAllNamespaces) {
  const auto uid = uid_of(must_create(kPods, pod("a")));
  const auto all = client().list_all(kPods, "");
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_TRUE(std::ranges::any_of(*all, [&](const Json& item) { return uid_of(item) == uid; }));
}

TEST_F(KubeContract, SelectorsChoose) {
  must_create(kPods, pod("a", Json::object({{"team", "x"}, {"tier", "1"}})));
  must_create(kPods, pod("b", Json::object({{"team", "y"}})));
  must_create(kPods, pod("c"));
  const auto names = [&](const std::string& labels, const std::string& fields = {}) {
    ListOptions options;
    options.label_selector = labels;
    options.field_selector = fields;
    const auto page = client().list(kPods, ns(), options);
    EXPECT_TRUE(page) << page.error().to_string();
    std::string out;
    if (page) {
      for (const auto& item : page->items) out += name_of(item);
    }
    return out;
  };
  EXPECT_EQ(names("team=x"), "a");
  EXPECT_EQ(names("team!=x"), "bc");
  EXPECT_EQ(names("team in (x,y)"), "ab");
  EXPECT_EQ(names("team notin (x)"), "bc");
  EXPECT_EQ(names("team"), "ab");
  EXPECT_EQ(names("!team"), "c");
  EXPECT_EQ(names("team=x,tier=2"), "");
  EXPECT_EQ(names("", "metadata.name=b"), "b");
  EXPECT_EQ(names("", "spec.nodeName=,metadata.name!=a"), "bc");
  ListOptions wrong;
  wrong.field_selector = "spec.noSuchField=1";
  EXPECT_EQ(client().list(kPods, ns(), wrong).error().code, Code::kInvalid);
}

TEST_F(KubeContract, AnUpdateWithAStaleVersionIsAConflict) {
  const auto first = must_create(kPods, pod("a"));
  auto changed = first;
  changed.set("metadata").set("labels", Json::object({{"n", "1"}}));
  const auto updated = client().update(kPods, ns(), "a", changed);
  ASSERT_TRUE(updated) << updated.error().to_string();
  EXPECT_EQ(label(*updated, "n"), "1");
  EXPECT_NE(resource_version_of(*updated), resource_version_of(first));
  const auto stale = client().update(kPods, ns(), "a", changed);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Code::kAborted);
}

TEST_F(KubeContract, AnUpdateThatChangesNothingKeepsTheVersion) {
  const auto first = must_create(kPods, pod("a"));
  const auto same = client().update(kPods, ns(), "a", first);
  ASSERT_TRUE(same) << same.error().to_string();
  EXPECT_EQ(resource_version_of(*same), resource_version_of(first));
}

TEST_F(KubeContract, AMergePatchSetsAndDeletes) {
  const auto first = must_create(kPods, pod("a", Json::object({{"keep", "1"}, {"drop", "1"}})));
  const auto patch =
      Json::object({{"metadata", Json::object({{"labels", Json::object({{"drop", nullptr}, {"add", "2"}})}})}});
  const auto patched = client().merge_patch(kPods, ns(), "a", patch);
  ASSERT_TRUE(patched) << patched.error().to_string();
  EXPECT_EQ((*patched)["metadata"]["labels"], Json::object({{"keep", "1"}, {"add", "2"}}));

  auto stale = patch;
  stale.set("metadata").set("resourceVersion", resource_version_of(first));
  stale.set("metadata").set("labels", Json::object({{"add", "3"}}));
  const auto refused = client().merge_patch(kPods, ns(), "a", stale);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kAborted);
  EXPECT_EQ(label(must_get(kPods, "a"), "add"), "2");
}

TEST_F(KubeContract, StatusAndSpecAreWrittenApart) {
  must_create(kPods, pod("a"));
  const auto both = Json::object({{"metadata", Json::object({{"labels", Json::object({{"l", "1"}})}})},
                                  {"status", Json::object({{"message", "m"}})}});
  auto patched = client().merge_patch(kPods, ns(), "a", both);
  ASSERT_TRUE(patched) << patched.error().to_string();
  EXPECT_EQ(label(*patched, "l"), "1");
  EXPECT_EQ(patched->path("status.message").string(), "");

  const auto status = Json::object(
      {{"spec", Json::object({{"activeDeadlineSeconds", 7}})}, {"status", Json::object({{"message", "m"}})}});
  patched = client().merge_patch(kPods, ns(), "a", status, "status");
  ASSERT_TRUE(patched) << patched.error().to_string();
  EXPECT_EQ(patched->path("status.message").string(), "m");
  EXPECT_TRUE(patched->path("spec.activeDeadlineSeconds").is_null());
}

TEST_F(KubeContract, DeletionHoldsToItsUid) {
  const auto made = must_create(kPods, pod("a"));
  const auto other = client().remove(kPods, ns(), "a", {"00000000-0000-0000-0000-000000000000", -1, "Background"});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::kAborted);
  EXPECT_TRUE(client().get(kPods, ns(), "a"));
  // A pod without a node is deleted at once.
  const auto removed = client().remove(kPods, ns(), "a", {uid_of(made), -1, "Background"});
  ASSERT_TRUE(removed) << removed.error().to_string();
  EXPECT_EQ(client().get(kPods, ns(), "a").error().code, Code::kNotFound);
}

TEST_F(KubeContract, ABoundPodIsGivenItsGrace) {
  const auto made = must_create(kPods, pod("a"));
  ASSERT_TRUE(client().bind(ns(), "a", uid_of(made), two_nodes()[0]));
  const auto from = resource_version_of(must_get(kPods, "a"));
  const auto removed = client().remove(kPods, ns(), "a", {uid_of(made), 25, "Background"});
  ASSERT_TRUE(removed) << removed.error().to_string();
  std::vector<Seen> seen;
  // If the node ends the pod at once, it deletes it without grace; the watch may show that already.
  const auto marked = [&] {
    return std::ranges::find_if(seen, [](const Seen& one) {
      return one.type == "MODIFIED" && one.object["metadata"].contains("deletionTimestamp");
    });
  };
  (void)watch(kPods, from, seen, [&] { return marked() != seen.end(); });
  ASSERT_NE(marked(), seen.end());
  EXPECT_EQ(marked()->object["metadata"]["deletionGracePeriodSeconds"].integer(), 25);
  // With grace zero the kubelet is not involved.
  (void)client().remove(kPods, ns(), "a", {uid_of(made), 0, "Background"});
  EXPECT_TRUE(testing::wait_until([&] {
    const auto got = client().get(kPods, ns(), "a");
    return !got && got.error().code == Code::kNotFound;
  }));
}

TEST_F(KubeContract, APodIsBoundOnce) {
  // A bind overwrites annotations of the pod, also with an empty value; it cannot remove an annotation.
  auto annotated = pod("a");
  annotated.set("metadata")
      .set("annotations", Json::object({{"x/devices", "7"}, {"x/ring", "rank=9"}, {"x/own", "kept"}}));
  const auto made = must_create(kPods, annotated);
  const auto nodes = two_nodes();
  const auto wrong_uid = client().bind(ns(), "a", "00000000-0000-0000-0000-000000000000", nodes[0]);
  ASSERT_FALSE(wrong_uid);
  EXPECT_EQ(wrong_uid.error().code, Code::kAborted);
  const auto bound =
      client().bind(ns(), "a", uid_of(made), nodes[0], Json::object({{"x/devices", "0,1"}, {"x/ring", ""}}));
  ASSERT_TRUE(bound) << bound.error().to_string();
  const auto got = must_get(kPods, "a");
  EXPECT_EQ(got.path("spec.nodeName").string(), nodes[0]);
  EXPECT_EQ(annotation(got, "x/devices"), "0,1");
  EXPECT_TRUE(got["metadata"]["annotations"].contains("x/ring"));
  EXPECT_EQ(annotation(got, "x/ring"), "");
  EXPECT_EQ(annotation(got, "x/own"), "kept");
  for (const auto& node : nodes) {
    const auto again = client().bind(ns(), "a", uid_of(made), node);
    ASSERT_FALSE(again) << node;
    EXPECT_EQ(again.error().code, Code::kAborted);
  }
  EXPECT_EQ(must_get(kPods, "a").path("spec.nodeName").string(), nodes[0]);
  EXPECT_EQ(client().bind(ns(), "absent", "", nodes[0]).error().code, Code::kNotFound);
}

TEST_F(KubeContract, AGatedPodIsNotBound) {
  auto gated = pod("a");
  gated.set("spec").set("schedulingGates", Json::array({Json::object({{"name", "contract/gate"}})}));
  const auto made = must_create(kPods, gated);
  const auto node = two_nodes()[0];
  EXPECT_FALSE(client().bind(ns(), "a", uid_of(made), node));
  const auto opened =
      client().merge_patch(kPods, ns(), "a", Json::object({{"spec", Json::object({{"schedulingGates", nullptr}})}}));
  ASSERT_TRUE(opened) << opened.error().to_string();
  const auto bound = client().bind(ns(), "a", uid_of(made), node);
  EXPECT_TRUE(bound) << bound.error().to_string();
}

TEST_F(KubeContract, EvictionDeletesUnlessABudgetForbidsIt) {
  must_create(kPods, pod("free"));
  const auto evicted = client().evict(ns(), "free", 0);
  ASSERT_TRUE(evicted) << evicted.error().to_string();
  EXPECT_TRUE(testing::wait_until([&] { return !client().get(kPods, ns(), "free"); }));

  must_create(
      kBudgets,
      Json::object(
          {{"apiVersion", "policy/v1"},
           {"kind", "PodDisruptionBudget"},
           {"metadata", Json::object({{"name", "keep"}})},
           {"spec", Json::object({{"minAvailable", 1},
                                  {"selector", Json::object({{"matchLabels", Json::object({{"app", "kept"}})}})}})}}));
  must_create(kPods, pod("kept", Json::object({{"app", "kept"}})));
  const auto running = client().merge_patch(kPods, ns(), "kept",
                                            Json::object({{"status", Json::object({{"phase", "Running"}})}}), "status");
  ASSERT_TRUE(running) << running.error().to_string();
  const auto refused = client().evict(ns(), "kept", 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kExhausted);
  EXPECT_TRUE(client().get(kPods, ns(), "kept"));
  EXPECT_EQ(client().evict(ns(), "absent", 0).error().code, Code::kNotFound);
}

TEST_F(KubeContract, ALeaseHasOneHolder) {
  const auto lease = [](const std::string& holder) {
    return Json::object({{"apiVersion", "coordination.k8s.io/v1"},
                         {"kind", "Lease"},
                         {"metadata", Json::object({{"name", "leader"}})},
                         {"spec", Json::object({{"holderIdentity", holder},
                                                {"leaseDurationSeconds", 15},
                                                {"renewTime", "2026-11-21T09:14:29.123456Z"}})}});
  };
  auto mine = must_create(kLeases, lease("me"));
  EXPECT_EQ(client().create(kLeases, ns(), lease("you")).error().code, Code::kAlreadyExists);
  auto yours = must_get(kLeases, "leader");
  EXPECT_EQ(yours.path("spec.renewTime").string(), "2026-11-21T09:14:29.123456Z");
  mine.set("spec").set("renewTime", "2026-11-21T09:14:39.000001Z");
  ASSERT_TRUE(client().update(kLeases, ns(), "leader", mine));
  yours.set("spec").set("holderIdentity", "you");
  const auto lost = client().update(kLeases, ns(), "leader", yours);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, Code::kAborted);
  EXPECT_EQ(must_get(kLeases, "leader").path("spec.holderIdentity").string(), "me");
}

TEST_F(KubeContract, CustomKindsAreKept) {
  const auto class_ref = Json::object({{"group", "karpenter.k8s.aws"}, {"kind", "EC2NodeClass"}, {"name", "gpu"}});
  const auto requirements = Json::array({Json::object(
      {{"key", "node.kubernetes.io/instance-type"}, {"operator", "In"}, {"values", Json::array({"p5.48xlarge"})}})});
  const auto object = [&](const std::string& kind, const std::string& name, Json spec) {
    return Json::object({{"apiVersion", "karpenter.sh/v1"},
                         {"kind", kind},
                         {"metadata", Json::object({{"name", name}, {"labels", Json::object({{"contract", ns()}})}})},
                         {"spec", std::move(spec)}});
  };
  const auto node_spec = Json::object({{"nodeClassRef", class_ref}, {"requirements", requirements}});
  const auto pool = cluster_name(kNodePools, "pool"), claim = cluster_name(kNodeClaims, "claim");
  must_create(kNodePools, object("NodePool", pool,
                                 Json::object({{"template", Json::object({{"spec", node_spec}})}, {"weight", 10}})));
  must_create(kNodeClaims, object("NodeClaim", claim, node_spec));
  EXPECT_EQ(must_get(kNodePools, pool).path("spec.weight").integer(), 10);

  const auto status = Json::object({{"status", Json::object({{"providerID", "aws:///us-east-1a/i-1"}})},
                                    {"spec", Json::object({{"requirements", Json::array()}})}});
  const auto patched = client().merge_patch(kNodeClaims, "", claim, status, "status");
  ASSERT_TRUE(patched) << patched.error().to_string();
  EXPECT_EQ(patched->path("status.providerID").string(), "aws:///us-east-1a/i-1");
  EXPECT_EQ(patched->path("spec.requirements").size(), 1U);

  ListOptions options;
  options.label_selector = "contract=" + ns();
  const auto listed = client().list(kNodeClaims, "", options);
  ASSERT_TRUE(listed) << listed.error().to_string();
  ASSERT_EQ(listed->items.size(), 1U);
  EXPECT_EQ(name_of(listed->items[0]), claim);
  ASSERT_TRUE(client().remove(kNodeClaims, "", claim, {}));
  EXPECT_TRUE(testing::wait_until([&] { return !client().get(kNodeClaims, "", claim); }));
}

TEST_F(KubeContract, AFinalizerHoldsADeletedObject) {
  auto held = pod("a");
  held.set("metadata").set("finalizers", Json::array({"contract.example/hold"}));
  must_create(kPods, held);
  ASSERT_TRUE(client().remove(kPods, ns(), "a", {}));
  EXPECT_TRUE(must_get(kPods, "a")["metadata"].contains("deletionTimestamp"));
  const auto let_go =
      client().merge_patch(kPods, ns(), "a", Json::object({{"metadata", Json::object({{"finalizers", nullptr}})}}));
  ASSERT_TRUE(let_go) << let_go.error().to_string();
  EXPECT_TRUE(testing::wait_until([&] { return !client().get(kPods, ns(), "a"); }));
}

}  // namespace objects_kube_test
}  // namespace qm::kube
