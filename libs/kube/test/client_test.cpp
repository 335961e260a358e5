#include "qm/kube/client.hpp"

#include "qm/testing/testing.hpp"
#include "scripted_api.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace qm::kube {
namespace client_test {

using Api = ScriptedApi;

ClientOptions options_of(const Api& api) {
  ClientOptions options;
  options.server = api.origin();
  return options;
}

TEST(KubePaths, GroupsNamespacesAndNames) {
  EXPECT_EQ(resources::kPods.path("ns", "a"), "/api/v1/namespaces/ns/pods/a");
  EXPECT_EQ(resources::kPods.path(), "/api/v1/pods");
  EXPECT_EQ(resources::kNodes.path("ignored", "n"), "/api/v1/nodes/n");
  EXPECT_EQ(resources::kJobs.path("ns"), "/apis/batch/v1/namespaces/ns/jobs");
}

TEST(KubeClient, AnErrorNamesTheCallAndQuotesTheServer) {
  Api api;
  api.calls = {Api::status(422, "Invalid", "the server's own words")};
  const auto got = Client(options_of(api)).create(resources::kPods, "ns", Api::pod("a", ""));
  ASSERT_FALSE(got);
  EXPECT_NE(got.error().message.find("the server's own words"), std::string::npos);
  EXPECT_NE(got.error().message.find("POST /api/v1/namespaces/ns/pods"), std::string::npos);
}

TEST(KubeClient, AProxysPageIsQuotedAndNamesTheCall) {
  Api api;
  api.calls = {[](const http::Request&) { return http::text(502, "<html>bad gateway</html>"); }};
  const auto got = Client(options_of(api)).get(resources::kNodes, "", "n");
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnavailable);
  EXPECT_NE(got.error().message.find("bad gateway"), std::string::npos);
}

TEST(KubeClient, AnAnswerThatIsNoJsonIsUnavailable) {
  Api api;
  api.calls = {[](const http::Request&) { return http::text(200, "{\"half\":"); }};
  EXPECT_EQ(Client(options_of(api)).get(resources::kNodes, "", "n").error().code, Code::kUnavailable);
}

TEST(KubeClient, TheVersionOfTheServerHasNoSignOfItsProvider) {
  Api api;
  api.lists = api.calls = {Api::body(Json::object({{"major", "1"}, {"minor", "31+"}})),
                           Api::body(Json::object({{"major", ""}}))};
  Client client(options_of(api));
  EXPECT_EQ(client.server_version().value_or(""), "1.31");
  EXPECT_FALSE(client.server_version());
}

TEST(KubeClient, AWriteThatMayHaveArrivedIsRetryable) {
  ClientOptions options;
  options.server = "http://127.0.0.1:" + std::to_string(testing::free_port());
  const auto got = Client(options).create(resources::kPods, "ns", Api::pod("a", ""));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, Code::kUnavailable);
  EXPECT_TRUE(got.error().retryable());
}

TEST(KubeClient, SendsWhatTheApiExpects) {
  Api api;
  api.calls = {Api::body(Json::object({{"kind", "Status"}, {"status", "Success"}}))};
  auto options = options_of(api);
  options.token = "secret";
  Client client(options);
  ASSERT_TRUE(client.bind("ns", "p", "u1", "node-1", Json::object({{"a", "b"}})));
  ASSERT_TRUE(client.evict("ns", "p", 30));
  ASSERT_TRUE(client.remove(resources::kJobs, "ns", "j", {"u2", 5, "Foreground"}));
  ASSERT_TRUE(client.merge_patch(resources::kJobs, "ns", "j", Json::object({{"x", nullptr}}), "status"));
  const auto seen = api.seen();
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0].headers.get("Authorization"), "Bearer secret");
  EXPECT_EQ(seen[0].headers.get("User-Agent"), std::string("quartermaster/") + program_invocation_short_name);
  EXPECT_EQ(seen[0].target, "/api/v1/namespaces/ns/pods/p/binding");
  const auto binding = *Json::parse(seen[0].body);
  EXPECT_EQ(binding.path("target.name").string(), "node-1");
  EXPECT_EQ(binding.path("metadata.uid").string(), "u1");
  EXPECT_EQ(binding.path("metadata.annotations.a").string(), "b");
  EXPECT_EQ(seen[1].target, "/api/v1/namespaces/ns/pods/p/eviction");
  EXPECT_EQ(Json::parse(seen[1].body)->path("deleteOptions.gracePeriodSeconds").integer(), 30);
  EXPECT_EQ(seen[2].method, "DELETE");
  const auto deletion = *Json::parse(seen[2].body);
  EXPECT_EQ(deletion.path("preconditions.uid").string(), "u2");
  EXPECT_EQ(deletion["gracePeriodSeconds"].integer(), 5);
  EXPECT_EQ(deletion["propagationPolicy"].string(), "Foreground");
  EXPECT_EQ(seen[3].method, "PATCH");
  EXPECT_EQ(seen[3].headers.get("Content-Type"), "application/merge-patch+json");
  EXPECT_TRUE(seen[3].target.ends_with("/jobs/j/status"));
  EXPECT_EQ(seen[3].body, R"({"x":null})");
}

/// Many informers wait for kinds that are not installed.
TEST(KubeClient, AbsentKindsAreLocatedInOneList) {
  Api api;
  api.calls = {Api::body(*Json::parse(R"({"kind":"APIGroupList","groups":[]})"))};
  Client client(options_of(api));
  for (const char* group : {"a.example", "b.example", "a.example"}) {
    const auto located = client.locate(group, "things", {"v1"});
    ASSERT_FALSE(located);
    EXPECT_EQ(located.error().code, Code::kNotFound);
  }
  EXPECT_EQ(api.seen().size(), 1U);
  EXPECT_FALSE(client.find_kind("a.example", "things", {"v1"}));
  EXPECT_EQ(api.seen().size(), 2U) << "who asks once gets the present list";
}

TEST(KubeClient, ListAllFollowsTheContinueToken) {
  Api api;
  api.lists = {Api::list({Api::pod("a", "1"), Api::pod("b", "2")}, "10", "token/1"),
               Api::list({Api::pod("c", "3")}, "11")};
  std::string version;
  const auto all = Client(options_of(api)).list_all(resources::kPods, "ns", &version);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 3U);
  EXPECT_EQ(version, "10");
  const auto query = api.seen().at(1).query();
  EXPECT_EQ(query.at("continue"), "token/1");
  EXPECT_EQ(query.at("limit"), "500");
}

TEST(KubeClient, ListItemsLearnTheirKind) {
  Api api;
  api.lists = {Api::body(
      *Json::parse(R"({"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"kind":"Other"}]})"))};
  const auto page = Client(options_of(api)).list(resources::kPods, "ns");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->items.at(0)["kind"].string(), "Pod");
  EXPECT_EQ(page->items.at(0)["apiVersion"].string(), "v1");
  EXPECT_EQ(page->items.at(1)["kind"].string(), "Other");
}

TEST(KubeClient, AnExpiredTokenStartsTheListAgain) {
  Api api;
  api.lists = {Api::list({Api::pod("a", "1")}, "10", "t"), Api::status(410, "Expired", "too old"),
               Api::list({Api::pod("a", "1"), Api::pod("b", "2")}, "20")};
  std::string version;
  const auto all = Client(options_of(api)).list_all(resources::kPods, "ns", &version);
  ASSERT_TRUE(all) << all.error().to_string();
  EXPECT_EQ(all->size(), 2U);
  EXPECT_EQ(version, "20");
}

TEST(KubeClient, AListThatKeepsExpiringIsAskedForAtOnceAndThenGivenUp) {
  Api api;
  const auto page = Api::list({Api::pod("a", "1")}, "10", "t");
  const auto gone = Api::status(410, "Expired", "too old");
  api.lists = {page, gone, page, gone, page, gone, page, gone};
  const auto all = Client(options_of(api)).list_all(resources::kPods, "ns");
  ASSERT_FALSE(all);
  EXPECT_EQ(all.error().code, Code::kOutOfRange);
  EXPECT_FALSE(api.seen().at(6).query().contains("limit"));
}

TEST(KubeClient, SelectorsAreEncoded) {
  Api api;
  api.lists = {Api::list({}, "1")};
  ListOptions options;
  options.label_selector = "a=b,c in (d,e)";
  options.field_selector = "spec.nodeName=n";
  ASSERT_TRUE(Client(options_of(api)).list(resources::kPods, "ns", options));
  const auto query = api.seen().at(0).query();
  EXPECT_EQ(query.at("labelSelector"), "a=b,c in (d,e)");
  EXPECT_EQ(query.at("fieldSelector"), "spec.nodeName=n");
}

struct Watched {
  std::vector<std::string> events;
  Status ended;
};
Watched watch_once(Api& api, const std::function<bool()>& stop = {}) {
  Watched out;
  Client client(options_of(api));
  out.ended = client.watch(
      resources::kPods, "ns", "5",
      [&](const std::string& type, const Json& object) {
        out.events.push_back(type + " " + name_of(object) + "@" + resource_version_of(object));
      },
      stop, 10);
  return out;
}

TEST(KubeWatch, EventsThenAPlainEnd) {
  Api api;
  api.watches = {Api::watch(Api::event("ADDED", Api::pod("a", "6")) + Api::event("BOOKMARK", Api::bookmark("9")) +
                            Api::event("DELETED", Api::pod("a", "10")))};
  const auto got = watch_once(api);
  EXPECT_TRUE(got.ended) << got.ended.error().to_string();
  EXPECT_EQ(got.events, (std::vector<std::string>{"ADDED a@6", "BOOKMARK @9", "DELETED a@10"}));
  const auto query = api.seen().at(0).query();
  EXPECT_EQ(query.at("resourceVersion"), "5");
  EXPECT_EQ(query.at("allowWatchBookmarks"), "true");
  EXPECT_EQ(query.at("timeoutSeconds"), "10");
}

TEST(KubeWatch, GoneInsideAnErrorEvent) {
  Api api;
  api.watches = {Api::watch(Api::event("ADDED", Api::pod("a", "6")) +
                            Api::event("ERROR", Api::status_object(410, "Expired", "too old")))};
  const auto got = watch_once(api);
  ASSERT_FALSE(got.ended);
  EXPECT_EQ(got.ended.error().code, Code::kOutOfRange);
  EXPECT_EQ(got.events.size(), 1U);
}

TEST(KubeWatch, GoneAsTheAnswer) {
  Api api;
  api.watches = {Api::status(410, "Expired", "too old")};
  EXPECT_EQ(watch_once(api).ended.error().code, Code::kOutOfRange);
  api.watches = {Api::status(403, "Forbidden", "no")};
  EXPECT_EQ(watch_once(api).ended.error().code, Code::kPermissionDenied);
}

TEST(KubeWatch, BreaksInTheMiddleOfALine) {
  Api api;
  const auto line = Api::event("ADDED", Api::pod("b", "7"));
  api.watches = {Api::watch(Api::event("ADDED", Api::pod("a", "6")) + line.substr(0, line.size() / 2))};
  const auto got = watch_once(api);
  ASSERT_FALSE(got.ended);
  EXPECT_EQ(got.ended.error().code, Code::kUnavailable);
  EXPECT_EQ(got.events, (std::vector<std::string>{"ADDED a@6"}));
}

TEST(KubeWatch, AnEventSplitOverChunksIsOne) {
  Api api;
  const auto line = Api::event("ADDED", Api::pod("a", "6"));
  api.watches = {[line](const http::Request&) {
    return http::Answer(http::json(200, ""), [line](std::shared_ptr<http::Stream> stream) {
      for (const char c : line) stream->write(std::string(1, c));
      stream->close();
    });
  }};
  EXPECT_EQ(watch_once(api).events, (std::vector<std::string>{"ADDED a@6"}));
}

TEST(KubeWatch, GarbageEndsIt) {
  Api api;
  api.watches = {Api::watch("not json\n")};
  EXPECT_EQ(watch_once(api).ended.error().code, Code::kUnavailable);
}

TEST(KubeWatch, StopsWhenAsked) {
  Api api;
  api.watches = {api.watch_and_hang("")};
  int asked = 0;
  EXPECT_EQ(watch_once(api, [&] { return ++asked > 3; }).ended.error().code, Code::kCancelled);
}

TEST(KubeObjects, ReadThroughMissingMembers) {
  const auto pod = Api::pod("a", "1");
  EXPECT_EQ(name_of(pod), "a");
  EXPECT_EQ(namespace_of(pod), "ns");
  EXPECT_EQ(uid_of(pod), "uid-a");
  EXPECT_EQ(annotation(pod, "x/y"), "");
  EXPECT_EQ(label(Json(), "x"), "");
}

}  // namespace client_test
}  // namespace qm::kube
