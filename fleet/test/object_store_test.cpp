#include "object_store.hpp"

#include "test/rig.hpp"

#include <gtest/gtest.h>

namespace qm::fleet {
namespace object_store_test {

Json config(const std::string& name, const std::string& value = "1") {
  return Json::object({{"metadata", Json::object({{"name", name}})}, {"data", Json::object({{"k", value}})}});
}
std::string version_of(const Json& object) { return object["metadata"]["resourceVersion"].string(); }

struct Log {
  std::vector<std::string> lines;  // "ADDED name", with the version for bookmarks
  ObjectStore::Sink sink() {
    return [this](const std::string& line) {
      const Json event = *Json::parse(line);
      const Json& object = event["object"];
      const bool error = event["type"].string() == "ERROR";
      lines.push_back(event["type"].string() + " " +
                      (error ? std::to_string(object["code"].integer()) : name_of(object)));
      return true;
    };
  }
};

class Store : public ::testing::Test {
 protected:
  Selector select(std::string_view plural, std::string_view labels, std::string_view fields) {
    auto selector = Selector::parse(kind_of(plural), labels, fields);
    EXPECT_TRUE(selector.has_value()) << selector.error().message;
    return *selector;
  }
  Rig rig;
  ObjectStore& store = rig.store;
  const Kind& configs = kind_of("configmaps");
  const Kind& pods = kind_of("pods");
  const Kind& jobs = kind_of("jobs");
};

TEST_F(Store, CreateGivesIdentityAndRefusesTheSecond) {
  const auto made = rig.make("configmaps", "team-a", config("c"));
  EXPECT_EQ(uid_of(*made).size(), 36u);
  EXPECT_EQ((*made)["metadata"]["creationTimestamp"].string(), "2026-11-21T09:00:00Z");
  EXPECT_EQ((*made)["metadata"]["generation"].integer(), 1);
  EXPECT_EQ((*made)["apiVersion"].string(), "v1");
  const auto again = store.create(configs, "team-a", config("c"));
  EXPECT_EQ(again.error().code, 409);
  EXPECT_EQ(again.error().reason, "AlreadyExists");
  EXPECT_EQ(store.create(configs, "nowhere", config("c")).error().code, 404);
  EXPECT_EQ(store.create(configs, "team-a", config("Not A Name")).error().code, 422);
  EXPECT_EQ(store.create(configs, "team-a", Json::object()).error().field, "metadata.name");
  Json elsewhere = config("d");
  elsewhere.set("metadata").set("namespace", "team-b");
  EXPECT_EQ(store.create(configs, "team-a", elsewhere).error().code, 400);
  Json generated = Json::object({{"metadata", Json::object({{"generateName", "x-"}})}});
  EXPECT_EQ(name_of(*rig.make("configmaps", "team-a", generated)).size(), 7u);
}

TEST_F(Store, PodsTolerateNodesThatAreNotReadyForAsLongAsTheApiServerLetsThem) {
  const auto of = [&](const char* name, Json spec) {
    const auto made = rig.make("pods", "team-a",
                               Json::object({{"metadata", Json::object({{"name", name}})}, {"spec", std::move(spec)}}));
    std::map<std::string, std::int64_t> seconds;
    for (const Json& toleration : (*made)["spec"]["tolerations"].items())
      seconds[toleration["key"].string()] = toleration["tolerationSeconds"].integer(-1);
    return seconds;
  };
  const std::string not_ready = "node.kubernetes.io/not-ready", unreachable = "node.kubernetes.io/unreachable";
  EXPECT_EQ(of("plain", Rig::pod_spec(1)), (std::map<std::string, std::int64_t>{{not_ready, 300}, {unreachable, 300}}));
  Json own = Rig::pod_spec(1);
  own.set("tolerations",
          Json::array({Json::object({{"key", not_ready}, {"operator", "Exists"}, {"tolerationSeconds", 5}})}));
  EXPECT_EQ(of("own", own), (std::map<std::string, std::int64_t>{{not_ready, 5}, {unreachable, 300}}));
  own.set("tolerations", Json::array({Json::object({{"operator", "Exists"}})}));
  EXPECT_EQ(of("all", own), (std::map<std::string, std::int64_t>{{"", -1}}));
}

TEST_F(Store, UpdateIsOptimistic) {
  const auto first = rig.make("configmaps", "team-a", config("c"));
  Json changed = *first;
  changed.set("data", Json::object({{"k", "2"}}));
  const auto second = store.update(configs, "team-a", "c", changed, Part::kMain);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ((**second)["metadata"]["generation"].integer(), 2);
  EXPECT_EQ(store.update(configs, "team-a", "c", changed, Part::kMain).error().reason, "Conflict");
  EXPECT_EQ(version_of(**store.update(configs, "team-a", "c", **second, Part::kMain)), version_of(**second))
      << "an update without a difference is not a change";
  Json stranger = **second;
  stranger.set("metadata").set("uid", "other");
  EXPECT_EQ(store.update(configs, "team-a", "c", stranger, Part::kMain).error().code, 409);
  EXPECT_EQ(store.update(configs, "team-a", "none", config("none"), Part::kMain).error().code, 404);
}

TEST_F(Store, MergePatchDeletesWithNullAndChecksItsVersion) {
  const auto made = rig.make("configmaps", "team-a", config("c"));
  const auto patched = rig.merge(configs, "team-a", "c", *Json::parse(R"({"data":{"k":null,"n":"1"}})"), Part::kMain);
  ASSERT_TRUE(patched.has_value());
  EXPECT_EQ((**patched)["data"], Json::object({{"n", "1"}}));
  const Json stale =
      Json::object({{"metadata", Json::object({{"resourceVersion", version_of(*made)}})}, {"data", Json()}});
  EXPECT_EQ(rig.merge(configs, "team-a", "c", stale, Part::kMain).error().reason, "Conflict");
}

TEST_F(Store, StatusAndSpecKeepOutOfEachOthersWay) {
  const auto job = rig.make_job("j", 1, 0, Json::object(), true);
  ASSERT_TRUE(
      rig.merge(jobs, "team-a", "j", *Json::parse(R"({"status":{"failed":3},"spec":{"parallelism":1}})"), Part::kMain));
  EXPECT_NE(rig.get("jobs", "team-a", "j")["status"]["failed"].integer(), 3);
  ASSERT_TRUE(rig.merge(jobs, "team-a", "j", *Json::parse(R"({"status":{"note":"x"},"spec":{"parallelism":9}})"),
                        Part::kStatus));
  const Json after = rig.get("jobs", "team-a", "j");
  EXPECT_EQ(after["status"]["note"].string(), "x");
  EXPECT_EQ(after["spec"]["parallelism"].integer(), 1);
  EXPECT_EQ(after["metadata"]["generation"].integer(), 1) << "a status is not a new generation";
}

TEST_F(Store, ANamespaceGoesWithItsLastObject) {
  const auto job = rig.make_job("j", 2, 1);
  Json held = config("held");
  held.set("metadata").set("finalizers", Json::array({"example.com/hold"}));
  rig.make("configmaps", "team-a", held);
  rig.settle();
  ASSERT_EQ(rig.pods_of(job).size(), 2U);
  const auto& spaces = kind_of("namespaces");
  const auto removed = store.remove(spaces, "", "team-a", {});
  ASSERT_TRUE(removed.has_value());
  EXPECT_EQ((**removed)["status"]["phase"].string(), "Terminating");
  rig.settle();
  EXPECT_TRUE(rig.pods_of(job).empty()) << "its job does not replace them";
  EXPECT_EQ(store.create(configs, "team-a", config("late")).error().code, 403);
  EXPECT_TRUE(store.find(spaces, "", "team-a")) << "a finalizer holds one of its objects";
  EXPECT_TRUE(store.remove(spaces, "", "team-a", {})) << "a second time changes nothing";
  rig.patch("configmaps", "team-a", "held", R"({"metadata":{"finalizers":null}})");
  EXPECT_FALSE(store.find(spaces, "", "team-a"));
  rig.make("namespaces", "", Json::object({{"metadata", Json::object({{"name", "team-a"}})}}));
  EXPECT_FALSE(store.find(configs, "team-a", "held"));
}

TEST_F(Store, RefusesInvalidJobsAndImmutableFields) {
  Json job = *rig.make_job("good", 1, 0, Json::object(), true);
  for (const char* owned : {"uid", "resourceVersion"}) job.set("metadata").erase(owned);
  job.set("metadata").set("name", "bad");
  job.set("spec").set("template").set("spec").set("restartPolicy", "Always");
  EXPECT_EQ(store.create(jobs, "team-a", job).error().field, "spec.template.spec.restartPolicy");
  job.set("spec").set("template").set("spec").set("restartPolicy", "Never").erase("containers");
  EXPECT_EQ(store.create(jobs, "team-a", job).error().field, "spec.template.spec.containers");

  rig.make_pod("p", 1);
  EXPECT_EQ(rig.merge(pods, "team-a", "p", *Json::parse(R"({"spec":{"nodeName":"n"}})"), Part::kMain).error().code,
            422);
  const auto image = *Json::parse(R"({"spec":{"template":{"spec":{"containers":[{"name":"main","image":"other"}]}}}})");
  EXPECT_EQ(rig.merge(jobs, "team-a", "good", image, Part::kMain).error().field, "spec.template");
  const auto selector = *Json::parse(R"({"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}})");
  EXPECT_TRUE(rig.merge(jobs, "team-a", "good", selector, Part::kMain)) << "where, but not what";
  rig.make_job("runs", 1, 0);
  rig.settle();
  EXPECT_EQ(rig.merge(jobs, "team-a", "runs",
                      *Json::parse(R"({"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}})"), Part::kMain)
                .error()
                .field,
            "spec.template");
}

TEST_F(Store, ListPagesInOrderAndForgetsOldTokens) {
  for (const char* name : {"c", "a", "b"}) rig.make("configmaps", "team-a", config(name));
  const auto first = store.list(configs, "team-a", Selector{}, 2);
  ASSERT_EQ(first->items.size(), 2u);
  EXPECT_EQ(name_of(*first->items[1]), "b");
  const auto rest = store.list(configs, "team-a", Selector{}, 2, first->continue_token);
  ASSERT_EQ(rest->items.size(), 1u);
  EXPECT_EQ(name_of(*rest->items[0]), "c");
  EXPECT_TRUE(rest->continue_token.empty());
  EXPECT_EQ(store.list(configs, "team-a", Selector{}, 2, "nonsense").error().code, 400);
  store.compact();
  EXPECT_EQ(store.list(configs, "team-a", Selector{}, 2, first->continue_token).error().reason, "Expired");
}

TEST_F(Store, SelectorsSelect) {
  rig.make_pod("one", 1);
  rig.make_pod("two", 1);
  ASSERT_TRUE(rig.bind("two", "node-x"));
  const auto names = [&](const Selector& selector) {
    std::string all;
    const auto page = store.list(pods, "", selector);
    for (const auto& pod : page->items) all += name_of(*pod) + " ";
    return all;
  };
  EXPECT_EQ(names(select("pods", "", "spec.nodeName=node-x")), "two ");
  EXPECT_EQ(names(select("pods", "", "spec.nodeName=")), "one ");
  EXPECT_EQ(names(select("pods", "", "spec.nodeName!=,status.phase==Pending,spec.schedulerName=quartermaster")),
            "two ");
  EXPECT_EQ(names(select("pods", "", "metadata.name=one")), "one ");
  EXPECT_EQ(names(select("pods", "app=x", "")), "");
  rig.patch("pods", "team-a", "one", R"({"metadata":{"labels":{"app":"x"}}})");
  EXPECT_EQ(names(select("pods", "app in (x,y)", "")), "one ");
  EXPECT_EQ(Selector::parse(pods, "", "spec.color=red").error().code, 400);
  EXPECT_EQ(Selector::parse(pods, "", "nodeName").error().code, 400);
  EXPECT_EQ(Selector::parse(pods, "a in (", "").error().code, 400);
}

TEST_F(Store, WatchResumesWithoutGapOrRepeat) {
  const auto first = rig.make("configmaps", "team-a", config("a"));
  rig.make("configmaps", "team-a", config("b"));
  Log log, other;
  ASSERT_NE(store.watch(configs, "", Selector{}, version_of(*first), log.sink()), 0u);
  ASSERT_NE(store.watch(configs, "kube-system", Selector{}, "", other.sink()), 0u);
  rig.patch("configmaps", "team-a", "a", R"({"data":{"k":"9"}})");
  ASSERT_TRUE(store.remove(configs, "team-a", "b", {}));
  EXPECT_EQ(log.lines, (std::vector<std::string>{"ADDED b", "MODIFIED a", "DELETED b"}));
  EXPECT_TRUE(other.lines.empty()) << "another namespace";
}

TEST_F(Store, WatchFromNowhereBeginsWithWhatExists) {
  rig.make("configmaps", "team-a", config("a"));
  Log log;
  ASSERT_NE(store.watch(configs, "", Selector{}, "0", log.sink()), 0u);
  EXPECT_EQ(log.lines, std::vector<std::string>{"ADDED a"});
}

TEST_F(Store, ASelectingWatchSeesObjectsComeAndGo) {
  rig.make_pod("p", 1);
  Log log;
  store.watch(pods, "", select("pods", "app=x", ""), std::to_string(store.resource_version()), log.sink());
  rig.patch("pods", "team-a", "p", R"({"metadata":{"labels":{"other":"1"}}})");
  rig.patch("pods", "team-a", "p", R"({"metadata":{"labels":{"app":"x"}}})");
  rig.patch("pods", "team-a", "p", R"({"metadata":{"labels":{"more":"1"}}})");
  rig.patch("pods", "team-a", "p", R"({"metadata":{"labels":{"app":"y"}}})");
  EXPECT_EQ(log.lines, (std::vector<std::string>{"ADDED p", "MODIFIED p", "DELETED p"}));
}

TEST_F(Store, OldPositionsAreGone) {
  Rig small({{}, {}, 4});
  const auto made = small.make("configmaps", "team-a", config("a"));
  for (int i = 0; i < 4; ++i) {
    small.patch("configmaps", "team-a", "a", ("{\"data\":{\"k\":\"v" + std::to_string(i) + "\"}}").c_str());
  }
  Log still, gone, future, nonsense;
  EXPECT_NE(small.store.watch(configs, "", Selector{}, version_of(*made), still.sink()), 0u);
  EXPECT_EQ(still.lines.size(), 4u);
  small.patch("configmaps", "team-a", "a", R"({"data":{"k":"last"}})");
  EXPECT_EQ(small.store.watch(configs, "", Selector{}, version_of(*made), gone.sink()), 0u);
  EXPECT_EQ(gone.lines, std::vector<std::string>{"ERROR 410"});
  EXPECT_EQ(small.store.watch(configs, "", Selector{}, "999999", future.sink()), 0u);
  EXPECT_EQ(future.lines, std::vector<std::string>{"ERROR 504"});
  EXPECT_EQ(small.store.watch(configs, "", Selector{}, "abc", nonsense.sink()), 0u);
  EXPECT_EQ(nonsense.lines, std::vector<std::string>{"ERROR 400"});
}

TEST_F(Store, BookmarkCarriesThePositionAndASinkThatEndsEndsItsWatch) {
  std::string last;
  bool open = true;
  const auto id = store.watch(configs, "", Selector{}, "0", [&](const std::string& line) {
    last = line;
    return open;
  });
  rig.make_pod("p", 1);
  ASSERT_TRUE(store.bookmark(id));
  EXPECT_EQ((*Json::parse(last))["object"]["metadata"]["resourceVersion"].string(),
            std::to_string(store.resource_version()));
  open = false;
  rig.make("configmaps", "team-a", config("a"));
  EXPECT_EQ(store.watchers(), 0u);
  EXPECT_FALSE(store.bookmark(id));
}

TEST_F(Store, DeletionHonoursPreconditionsAndFinalizers) {
  Json claim = Json::object(
      {{"metadata", Json::object({{"name", "c1"}, {"finalizers", Json::array({"karpenter.sh/termination"})}})}});
  rig.make("nodeclaims", "", claim);
  const Kind& claims = kind_of("nodeclaims");
  EXPECT_EQ(store.remove(claims, "", "c1", {"wrong", {}, {}, {}}).error().code, 409);
  EXPECT_EQ(store.remove(claims, "", "none", {}).error().code, 404);
  ASSERT_TRUE(store.remove(claims, "", "c1", {}));
  EXPECT_TRUE(rig.get("nodeclaims", "", "c1")["metadata"].contains("deletionTimestamp"));
  rig.patch("nodeclaims", "", "c1", R"({"metadata":{"finalizers":[]}})");
  EXPECT_TRUE(rig.get("nodeclaims", "", "c1").is_null());
}

TEST_F(Store, CascadesFollowThePolicy) {
  const auto family = [&](const std::string& name) {
    const auto job = rig.make_job(name, 2, 0);
    rig.settle();
    EXPECT_EQ(rig.pods_of(job).size(), 2u);
    return job;
  };
  const auto background = family("background");
  ASSERT_TRUE(store.remove(jobs, "team-a", "background", {{}, {}, {}, "Background"}));
  EXPECT_TRUE(rig.get("jobs", "team-a", "background").is_null());
  EXPECT_TRUE(rig.pods_of(background).empty());

  family("orphan");
  ASSERT_TRUE(store.remove(jobs, "team-a", "orphan", {}));
  std::size_t left = 0;
  store.each(pods, [&](const ObjectPtr& pod) { left += (*pod)["metadata"]["ownerReferences"].size() == 0 ? 1u : 0u; });
  EXPECT_EQ(left, 2u) << "without a policy a Job leaves its pods behind";

  const auto node = rig.launch();
  const auto foreground = family("foreground");
  const auto names = rig.pods_of(foreground);
  for (const auto& name : names) ASSERT_TRUE(rig.bind(name, node.private_dns));
  rig.advance(5);
  ASSERT_TRUE(store.remove(jobs, "team-a", "foreground", {{}, {}, {}, "Foreground"}));
  EXPECT_FALSE(rig.get("jobs", "team-a", "foreground").is_null()) << "waits for its pods";
  rig.advance(5);
  EXPECT_TRUE(rig.get("jobs", "team-a", "foreground").is_null());
  EXPECT_TRUE(rig.get("pods", "team-a", names[0]).is_null());
}

TEST_F(Store, BindingBindsOnce) {
  const auto pod = rig.make_pod("p", 1);
  Json wrong =
      Json::object({{"metadata", Json::object({{"uid", "other"}})}, {"target", Json::object({{"name", "n"}})}});
  EXPECT_EQ(store.bind("team-a", "p", wrong).error().code, 409);
  EXPECT_EQ(store.bind("team-a", "p", Json::object()).error().code, 422);
  EXPECT_EQ(store.bind("team-a", "none", wrong).error().code, 404);
  ASSERT_TRUE(rig.bind("p", "node-1", "0,3"));
  const Json bound = rig.get("pods", "team-a", "p");
  EXPECT_EQ(bound["spec"]["nodeName"].string(), "node-1");
  EXPECT_EQ(annotation_of(bound, words::kDevices).string(), "0,3");
  const auto second = rig.bind("p", "node-2");
  EXPECT_EQ(second.error().code, 409);
  EXPECT_NE(second.error().message.find("already assigned to node"), std::string::npos);
  rig.patch("pods", "team-a", name_of(*rig.make_pod("gated", 1)).c_str(),
            R"({"spec":{"schedulingGates":[{"name":"g"}]}})");
  EXPECT_EQ(rig.bind("gated", "node-1").error().code, 409);
}

TEST_F(Store, EvictionAsksTheBudget) {
  const auto node = rig.launch();
  for (const char* name : {"a", "b"}) {
    rig.make_pod(name, 1, run_for(1000));
    rig.patch("pods", "team-a", name, R"({"metadata":{"labels":{"app":"x"}}})");
    ASSERT_TRUE(rig.bind(name, node.private_dns));
  }
  rig.advance(3);
  rig.make("poddisruptionbudgets", "team-a", *Json::parse(R"({"metadata":{"name":"b"},"spec":{"minAvailable":2,
      "selector":{"matchLabels":{"app":"x"}}}})"));
  EXPECT_EQ(store.evict("team-a", "a", Json::object()).error().code, 429);
  rig.patch("poddisruptionbudgets", "team-a", "b", R"({"spec":{"minAvailable":1}})");
  EXPECT_TRUE(store.evict("team-a", "a", Json::object()));
  EXPECT_EQ(store.evict("team-a", "b", Json::object()).error().code, 429) << "the first one is on its way out";
  EXPECT_EQ(store.evict("team-a", "none", Json::object()).error().code, 404);
}

}  // namespace object_store_test
}  // namespace qm::fleet
