// Changes of objects: order, resume, bookmarks, expiry.
#include "kube_under_test.hpp"

#include <algorithm>

namespace qm::kube {
namespace watch_kube_test {

using namespace resources;

TEST_F(KubeContract, AWatchResumesInOrder) {
  must_create(kPods, pod("before"));
  const auto list = client().list(kPods, ns());
  ASSERT_TRUE(list) << list.error().to_string();
  must_create(kPods, pod("a"));
  must_create(kPods, pod("b"));
  ASSERT_TRUE(client().merge_patch(
      kPods, ns(), "a", Json::object({{"metadata", Json::object({{"labels", Json::object({{"x", "1"}})}})}})));
  ASSERT_TRUE(client().remove(kPods, ns(), "b", {}));
  std::vector<Seen> seen;
  // Changes before the watch began, then changes while it runs.
  bool more = false;
  (void)watch(kPods, list->resource_version, seen, [&] {
    if (seen.size() == 5 && !std::exchange(more, true)) must_create(kPods, pod("c"));
    return seen.size() >= 6;
  });
  std::vector<std::string> got;
  for (const auto& one : seen) got.push_back(one.type + " " + one.name);
  // The deletion of a pod is visible before it is gone, even of one without a node.
  EXPECT_EQ(got, (std::vector<std::string>{"ADDED a", "ADDED b", "MODIFIED a", "MODIFIED b", "DELETED b", "ADDED c"}));
  // Each event can be resumed from: after the last but one, only the last event follows.
  ASSERT_EQ(seen.size(), 6U);
  EXPECT_TRUE(seen[3].object["metadata"].contains("deletionTimestamp"));
  std::vector<Seen> rest;
  (void)watch(kPods, seen[4].version, rest, [&] { return !rest.empty(); });
  ASSERT_FALSE(rest.empty());
  EXPECT_EQ(rest[0].type + " " + rest[0].name, "ADDED c");
}

TEST_F(KubeContract, AWatchWithoutAVersionStartsWithWhatIs) {
  must_create(kPods, pod("a"));
  must_create(kPods, pod("b"));
  std::vector<Seen> seen;
  (void)watch(kPods, "", seen, [&] { return seen.size() >= 2; });
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_TRUE(std::ranges::all_of(seen, [](const Seen& one) { return one.type == "ADDED"; }));
}

TEST_F(KubeContract, AWatchEndsAtItsTimeoutWithABookmarkBefore) {
  const auto list = client().list(kPods, ns());
  ASSERT_TRUE(list) << list.error().to_string();
  std::vector<Seen> seen;
  const auto ended = watch(
      kPods, list->resource_version, seen, [] { return false; },
      8);  // the server sends it two seconds before: with a shorter timeout a slow host is late
  EXPECT_TRUE(ended) << ended.error().to_string();
  ASSERT_FALSE(seen.empty()) << "no bookmark came";
  EXPECT_EQ(seen.back().type, "BOOKMARK");
  // A version is opaque, but it can be watched from.
  ASSERT_FALSE(seen.back().version.empty());
  must_create(kPods, pod("later"));
  std::vector<Seen> after;
  (void)watch(kPods, seen.back().version, after, [&] { return !after.empty(); });
  ASSERT_FALSE(after.empty());
  EXPECT_EQ(after[0].name, "later");
}

TEST_F(KubeContract, AnOldVersionIsGone) {
  const auto old = resource_version_of(must_create(kPods, pod("a")));
  must_create(kPods, pod("b"));
  server().expire_watches();
  std::vector<Seen> seen;
  auto ended = watch(kPods, "1", seen, [&] { return !seen.empty(); });
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, Code::kOutOfRange) << ended.error().to_string();
  EXPECT_TRUE(seen.empty());
  // A new list can be watched from again.
  const auto list = client().list(kPods, ns());
  ASSERT_TRUE(list) << list.error().to_string();
  EXPECT_NE(list->resource_version, old);
  must_create(kPods, pod("c"));
  (void)watch(kPods, list->resource_version, seen, [&] { return !seen.empty(); });
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen[0].name, "c");
}

// An agent's view of the cluster: a pod appears when it is bound to the node, and pods of other nodes never do.
TEST_F(KubeContract, AWatchOfANodeHasTheNodesPodsAlone) {
  const auto nodes = two_nodes();
  const std::string here = "spec.nodeName=" + nodes[0];
  const auto bind = [&](const std::string& name, const std::string& node) {
    const auto bound = client().bind(ns(), name, uid_of(must_get(kPods, name)), node);
    ASSERT_TRUE(bound) << bound.error().to_string();
  };
  for (const char* name : {"before", "comes", "elsewhere", "waits"}) must_create(kPods, pod(name));
  bind("before", nodes[0]);
  ListOptions of_node;
  of_node.field_selector = here;
  const auto list = client().list(kPods, ns(), of_node);
  ASSERT_TRUE(list) << list.error().to_string();
  ASSERT_EQ(list->items.size(), 1U);
  EXPECT_EQ(name_of(list->items[0]), "before");

  const Json mark = Json::object({{"metadata", Json::object({{"labels", Json::object({{"x", "1"}})}})}});
  bind("elsewhere", nodes[1]);
  for (const char* name : {"elsewhere", "waits", "before"}) ASSERT_TRUE(client().merge_patch(kPods, ns(), name, mark));
  bind("comes", nodes[0]);
  for (const char* name : {"elsewhere", "waits", "before"}) {
    const auto removed = client().remove(kPods, ns(), name, {"", 0, "Background"});
    ASSERT_TRUE(removed) << removed.error().to_string();
  }
  must_create(kPods, pod("last"));
  bind("last", nodes[0]);
  std::vector<Seen> seen;
  const auto types_of = [&](const std::string& name) {
    std::vector<std::string> out;
    for (const auto& one : seen) {
      if (one.name == name && one.type != "BOOKMARK") out.push_back(one.type);
    }
    return out;
  };
  (void)watch(
      kPods, list->resource_version, seen, [&] { return !types_of("last").empty(); }, 60, here);
  ASSERT_FALSE(types_of("last").empty());
  EXPECT_EQ(types_of("last").front(), "ADDED");
  ASSERT_FALSE(types_of("comes").empty());
  EXPECT_EQ(types_of("comes").front(), "ADDED") << "it begins to match with its bind";
  ASSERT_FALSE(types_of("before").empty());
  EXPECT_EQ(types_of("before").front(), "MODIFIED");
  EXPECT_EQ(types_of("before").back(), "DELETED");
  EXPECT_TRUE(types_of("elsewhere").empty());
  EXPECT_TRUE(types_of("waits").empty());

  // All bound pods except those of a node.
  of_node.field_selector = "spec.nodeName!=,spec.nodeName!=" + nodes[1];
  must_create(kPods, pod("unbound"));
  const auto others = client().list(kPods, ns(), of_node);
  ASSERT_TRUE(others) << others.error().to_string();
  EXPECT_TRUE(std::ranges::all_of(others->items,
                                  [&](const Json& item) { return item.path("spec.nodeName").string() == nodes[0]; }));
  EXPECT_EQ(others->items.size(), 2U);
}

TEST_F(KubeContract, ARecreatedNameIsAnotherObject) {
  const auto first = must_create(kPods, pod("a"));
  ASSERT_TRUE(client().remove(kPods, ns(), "a", {}));
  const auto second = must_create(kPods, pod("a"));
  EXPECT_NE(uid_of(first), uid_of(second));
  std::vector<Seen> seen;
  (void)watch(kPods, resource_version_of(first), seen, [&] { return seen.size() >= 3; });
  ASSERT_GE(seen.size(), 3U);
  EXPECT_EQ(seen[1].type, "DELETED");
  EXPECT_EQ(uid_of(seen[1].object), uid_of(first));
  EXPECT_EQ(seen[2].type, "ADDED");
  EXPECT_EQ(uid_of(seen[2].object), uid_of(second));
}

}  // namespace watch_kube_test
}  // namespace qm::kube
