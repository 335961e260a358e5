// Nodes whose taint is removed once their pods are nominated.
#include "src/shell/pods/held_nodes.hpp"

#include "qm/http/http.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>

namespace qm::autoscaler {
namespace held_nodes_test {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// An API server with nodes. It refuses a patch with another version than that of the node.
class NodeServer {
 public:
  NodeServer() : server_({}, [this](const http::Request& request) { return answer(request); }) {
    EXPECT_TRUE(server_.start());
  }
  void add(const std::string& name) {
    nodes_[name] = *Json::parse(fmt::format(
        R"({{"metadata":{{"name":"{}","resourceVersion":"1"}},"spec":{{"taints":[{{"key":"gpu","value":"a","effect":"NoSchedule"}},
            {{"key":"quartermaster.dev/nominating","effect":"NoSchedule"}}]}}}})",
        name));
  }
  [[nodiscard]] std::vector<std::string> released() const {
    std::vector<std::string> out;
    for (const auto& [name, node] : nodes_) {
      const auto& taints = node["spec"]["taints"].items();
      if (taints.size() == 1 && taints.begin()->dump() == R"({"key":"gpu","value":"a","effect":"NoSchedule"})")
        out.push_back(name);
    }
    return out;
  }
  [[nodiscard]] kube::ClientOptions options() const {
    return {fmt::format("http://127.0.0.1:{}", server_.port()), {}, {}, {}, {}};
  }
  std::string changed_meanwhile;  ///< a node that another client changes after the next GET
  int patches = 0;

 private:
  http::Answer answer(const http::Request& request) {
    const std::string name = request.path().substr(request.path().rfind('/') + 1);
    const auto at = nodes_.find(name);
    if (at == nodes_.end()) return http::json(404, R"({"kind":"Status","code":404,"reason":"NotFound"})");
    if (request.method == "GET") {
      auto found = http::json(200, at->second.dump());
      if (name == changed_meanwhile) at->second.set("metadata").set("resourceVersion", "2");
      changed_meanwhile.clear();
      return found;
    }
    ++patches;
    const Json patch = *Json::parse(request.body);
    if (patch["metadata"]["resourceVersion"].string() != at->second["metadata"]["resourceVersion"].string())
      return http::json(409, R"({"kind":"Status","code":409,"reason":"Conflict"})");
    at->second.merge_patch(patch);
    return http::json(200, at->second.dump());
  }
  std::map<std::string, Json> nodes_;
  http::Server server_;
};

class Held : public ::testing::Test {
 protected:
  Held() {
    for (const char* name : {"a", "b"}) server_.add(name);
  }
  std::vector<std::string> pass(const std::set<NodeName>& held, const std::set<NodeName>& open, SteadyDuration at) {
    const auto nominate = [&] {
      ++rounds_;
      Nominator::Outcome out{{}, open};
      if (removed_ > 0) --removed_, out.written.insert(a_);
      return out;
    };
    nodes_.pass(held, nominate, SteadyInstant{} + at);
    return server_.released();
  }
  NodeServer server_;
  kube::Client client_{server_.options()};
  HeldNodes nodes_{client_, {.settled = 0ms, .longest = 2s}};
  const NodeName a_{"a"}, b_{"b"};
  int rounds_ = 0;
  int removed_ = 0;  ///< so often the scheduler removes a nomination for node a
};

TEST_F(Held, AreReleasedOnceTheirPodsAreNominated) {
  EXPECT_THAT(pass({a_, b_}, {a_}, 0ms), ElementsAre("b"));
  EXPECT_THAT(pass({a_}, {a_}, 1999ms), ElementsAre("b"));
  EXPECT_THAT(pass({a_}, {}, 1999ms), ElementsAre("a", "b"));
  EXPECT_EQ(server_.patches, 2);
}

TEST_F(Held, NominationsThatTheSchedulerRemovedAreWrittenAgainBefore) {
  removed_ = 3;
  EXPECT_THAT(pass({a_}, {}, 0ms), ElementsAre("a"));
  EXPECT_EQ(rounds_, 4);
}

TEST_F(Held, ANodeWhoseNominationsDoNotLastIsHeldForTheNextPass) {
  removed_ = HeldNodes::kMostRounds;
  EXPECT_THAT(pass({a_, b_}, {}, 0ms), ElementsAre("b"));
  EXPECT_EQ(rounds_, HeldNodes::kMostRounds);
  EXPECT_THAT(pass({a_}, {}, 200ms), ElementsAre("a", "b"));
}

TEST_F(Held, WithoutThemPodsAreNominatedOnce) {
  removed_ = 2;
  pass({}, {}, 0ms);
  EXPECT_EQ(rounds_, 1);
}

TEST_F(Held, NotForever) {
  EXPECT_THAT(pass({a_}, {a_}, 0ms), IsEmpty());
  EXPECT_THAT(pass({a_, b_}, {a_, b_}, 1900ms), IsEmpty());
  EXPECT_THAT(pass({a_, b_}, {a_, b_}, 2000ms), ElementsAre("a"));
  // A node that was not ready meanwhile is held again.
  EXPECT_THAT(pass({}, {}, 2100ms), ElementsAre("a"));
  EXPECT_THAT(pass({b_}, {b_}, 4000ms), ElementsAre("a"));
}

TEST_F(Held, AChangeOfTheNodeMeanwhileIsRespected) {
  server_.changed_meanwhile = "a";
  EXPECT_THAT(pass({a_}, {}, 0ms), IsEmpty());
  EXPECT_THAT(pass({a_, NodeName("deleted")}, {}, 200ms), ElementsAre("a"));
  EXPECT_EQ(server_.patches, 2);
}

}  // namespace held_nodes_test
}  // namespace qm::autoscaler
