// Objects in motion: order, resume, bookmarks, expiry.
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
  // What happened before the watch began, then what happens while it runs.
  bool more = false;
  (void)watch(kPods, list->resource_version, seen, [&] {
    if (seen.size() == 5 && !std::exchange(more, true)) must_create(kPods, pod("c"));
    return seen.size() >= 6;
  });
  std::vector<std::string> got;
  for (const auto& one : seen) got.push_back(one.type + " " + one.name);
  // A pod is seen going before it is gone, even one that no node has.
  EXPECT_EQ(got, (std::vector<std::string>{"ADDED a", "ADDED b", "MODIFIED a", "MODIFIED b", "DELETED b", "ADDED c"}));
  // Each event can be resumed from: the last one alone follows the one before it.
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
      8);  // the server sends it two seconds before: with less a slow machine is late
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
  // A real server forgets its first version by itself; the fleet was just told to forget all.
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
