#include "qm/kube/client.hpp"
#include "qm/testing/testing.hpp"
#include "scripted_api.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

namespace qm::kube {
namespace informer_test {

using Api = ScriptedApi;
using testing::wait_until;

/// An informer on the scripted API that records its callbacks.
class Recorder {
 public:
  explicit Recorder(Api& api)
      : client_({api.origin()}),
        informer_(client_, resources::kPods, "ns",
                  {[this](const Json& object, bool deleted) {
                     if (deleted) {
                       const std::scoped_lock lock(mutex_);
                       gone_ = object;
                     }
                     note((deleted ? "-" : "+") + name_of(object) + "@" + resource_version_of(object));
                   },
                   [this] { note("synced"); }}) {
    informer_.start();
  }
  ~Recorder() { informer_.stop(); }

  /// Waits until the record is exactly this, and fails with the actual one.
  void expect(const std::vector<std::string>& want) {
    wait_until([&] { return record() == want || record().size() > want.size(); });
    EXPECT_EQ(record(), want);
  }
  Informer& informer() { return informer_; }
  /// The object that was reported as deleted last.
  Json gone() {
    const std::scoped_lock lock(mutex_);
    return gone_;
  }

 private:
  void note(std::string text) {
    const std::scoped_lock lock(mutex_);
    record_.push_back(std::move(text));
  }
  std::vector<std::string> record() {
    const std::scoped_lock lock(mutex_);
    return record_;
  }

  Client client_;
  std::mutex mutex_;
  std::vector<std::string> record_;
  Json gone_;
  Informer informer_;
};

TEST(Informer, ListsThenWatchesFromThere) {
  Api api;
  api.lists = {Api::list({Api::pod("a", "1"), Api::pod("b", "2")}, "10")};
  api.watches = {api.watch_and_hang(Api::event("MODIFIED", Api::pod("a", "11")) +
                                    Api::event("DELETED", Api::pod("b", "12")) +
                                    Api::event("ADDED", Api::pod("c", "13")))};
  Recorder recorder(api);
  recorder.expect({"+a@1", "+b@2", "synced", "+a@11", "-b@12", "+c@13"});
  EXPECT_EQ(api.watched_from(0), "10");
  EXPECT_TRUE(recorder.informer().synced());
  EXPECT_EQ(recorder.informer().counters().events, 3U);
}

TEST(Informer, AfterAPlainEndItWatchesFromTheLastVersion) {
  Api api;
  api.lists = {Api::list({}, "10")};
  api.watches = {Api::watch(Api::event("ADDED", Api::pod("a", "11"))),
                 api.watch_and_hang(Api::event("MODIFIED", Api::pod("a", "12")))};
  Recorder recorder(api);
  recorder.expect({"synced", "+a@11", "+a@12"});
  EXPECT_EQ(api.watched_from(1), "11");
  EXPECT_EQ(recorder.informer().counters().lists, 1U);
  EXPECT_EQ(recorder.informer().counters().cut, 0U);
}

TEST(Informer, ABookmarkMovesTheVersion) {
  Api api;
  api.lists = {Api::list({}, "10")};
  api.watches = {Api::watch(Api::event("BOOKMARK", Api::bookmark("50"))), api.watch_and_hang("")};
  Recorder recorder(api);
  EXPECT_TRUE(wait_until([&] { return api.watched_from(1) == "50"; }));
  EXPECT_EQ(recorder.informer().counters().bookmarks, 1U);
  recorder.expect({"synced"});
}

TEST(Informer, AfterExpiryItListsAgainAndReportsWhatVanished) {
  Api api;
  api.lists = {Api::list({Api::pod("a", "1"), Api::pod("b", "2"), Api::pod("c", "3")}, "10"),
               Api::list({Api::pod("a", "1"), Api::pod("c", "9")}, "20")};
  api.watches = {Api::watch(Api::event("ERROR", Api::status_object(410, "Expired", "too old"))),
                 api.watch_and_hang("")};
  Recorder recorder(api);
  // a did not change and is not reported again.
  recorder.expect({"+a@1", "+b@2", "+c@3", "synced", "-b@2", "+c@9", "synced"});
  EXPECT_TRUE(wait_until([&] { return api.watched_from(1) == "20"; }));
  EXPECT_EQ(recorder.informer().counters().expired, 1U);
}

TEST(Informer, WhatVanishedIsReportedWithItsContent) {
  Json pod = Api::pod("b", "2");
  pod.set("metadata").set("labels", Json::object({{"team", "vision"}}));
  pod.set("spec", Json::object({{"nodeName", "n1"}, {"priority", 7}}));
  const Json content = pod;
  pod.set("metadata").set("managedFields", Json::array({Json::object({{"manager", "kubectl"}})}));
  Api api;
  api.lists = {Api::list({pod}, "10"), Api::list({}, "20")};
  api.watches = {Api::status(410, "Expired", "too old"), api.watch_and_hang("")};
  Recorder recorder(api);
  recorder.expect({"+b@2", "synced", "-b@2", "synced"});
  Json gone = recorder.gone();
  gone.erase("apiVersion");  // of the list
  EXPECT_EQ(gone.dump(), content.dump()) << "all of it but managedFields";
}

TEST(Informer, ANameGivenToAnotherObjectIsADeletionToo) {
  Api api;
  api.lists = {Api::list({Api::pod("a", "1", "first")}, "10"), Api::list({Api::pod("a", "15", "second")}, "20")};
  api.watches = {Api::status(410, "Expired", "too old"), api.watch_and_hang("")};
  Recorder recorder(api);
  recorder.expect({"+a@1", "synced", "-a@1", "+a@15", "synced"});
}

TEST(Informer, ABrokenWatchResumesWithoutANewList) {
  Api api;
  const auto line = Api::event("ADDED", Api::pod("b", "12"));
  api.lists = {Api::list({}, "10")};
  api.watches = {Api::watch(Api::event("ADDED", Api::pod("a", "11")) + line.substr(0, 20)), api.watch_and_hang(line)};
  Recorder recorder(api);
  recorder.expect({"synced", "+a@11", "+b@12"});
  EXPECT_EQ(api.watched_from(1), "11");
  EXPECT_EQ(recorder.informer().counters().cut, 1U);
  EXPECT_EQ(recorder.informer().counters().lists, 1U);
}

TEST(Informer, TriesAgainUntilTheServerAnswers) {
  Api api;
  api.lists = {Api::status(503, "ServiceUnavailable", "starting"), Api::status(429, "TooManyRequests", "slow down"),
               Api::list({Api::pod("a", "1")}, "10")};
  api.watches = {Api::status(500, "InternalError", "etcd"), api.watch_and_hang("")};
  Recorder recorder(api);
  recorder.expect({"+a@1", "synced"});
  EXPECT_TRUE(wait_until([&] { return api.watched_from(1) == "10"; }));
  EXPECT_EQ(recorder.informer().counters().cut, 1U);
}

TEST(Informer, ARepeatedEventIsDeliveredOnce) {
  Api api;
  api.lists = {Api::list({Api::pod("a", "11")}, "10")};  // the list is newer than its version
  api.watches = {api.watch_and_hang(Api::event("MODIFIED", Api::pod("a", "11")) +
                                    Api::event("DELETED", Api::pod("x", "12")) +
                                    Api::event("MODIFIED", Api::pod("a", "13")))};
  Recorder recorder(api);
  recorder.expect({"+a@11", "synced", "+a@13"});
}

TEST(Informer, StopsWhileItWaits) {
  Api api;
  api.lists = {Api::status(503, "ServiceUnavailable", "away")};
  Recorder recorder(api);
  EXPECT_TRUE(wait_until([&] { return api.seen().size() >= 2; }));
  const auto start = std::chrono::steady_clock::now();
  recorder.informer().stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_FALSE(recorder.informer().synced());
}

TEST(Informer, AKindThatIsNotInstalledIsLookedForUntilItIs) {
  Api api;
  api.lists = {Api::list({Api::pod("a", "1")}, "10")};
  api.watches = {api.watch_and_hang("")};
  Client client(ClientOptions{api.origin(), {}, {}, {}, {}});
  std::atomic<int> looks = 0, notified = 0;
  std::atomic<bool> served = false;
  Informer informer(client,
                    [&]() -> Result<Resource> {
                      ++looks;
                      if (!served) return fail(Code::kNotFound, "pods are not served");
                      return resources::kPods;
                    },
                    "", {[&](const Json&, bool) { ++notified; }, [] {}, {}});
  informer.start();
  EXPECT_TRUE(wait_until([&] { return informer.absent() && looks >= 2; }));
  served = true;
  EXPECT_TRUE(wait_until([&] { return informer.synced(); }));
  EXPECT_EQ(notified, 1);
  EXPECT_EQ(informer.resource().plural, "pods");
  EXPECT_TRUE(wait_until([&] { return !informer.absent(); }));
  informer.stop();
}

TEST(Informer, WhatIsNotWantedAnyMoreComesAsDeleted) {
  Api api;
  auto marked = Api::pod("a", "1"), plain = Api::pod("a", "12");
  marked.set("metadata").set("labels").set("ours", "1");
  api.lists = {Api::list({marked, Api::pod("b", "2")}, "10")};
  api.watches = {api.watch_and_hang(Api::event("MODIFIED", plain) + Api::event("DELETED", Api::pod("b", "13")))};
  Client client(ClientOptions{api.origin(), {}, {}, {}, {}});
  std::mutex mutex;
  std::vector<std::string> received;
  Informer informer(client, resources::kPods, "",
                    {[&](const Json& object, bool deleted) {
                       const std::scoped_lock lock(mutex);
                       received.push_back((deleted ? "-" : "+") + name_of(object));
                     },
                     [] {}, [](const Json& object) { return !label(object, "ours").empty(); }});
  informer.start();
  EXPECT_TRUE(wait_until([&] { return informer.counters().events == 2; }));
  informer.stop();
  EXPECT_EQ(received, (std::vector<std::string>{"+a", "-a"}));
}

}  // namespace informer_test
}  // namespace qm::kube
