// The owner of a namespace, with all ways to set it, against an API server of three pages.
#include "qm/kube/ownership.hpp"

#include "qm/base/time.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

namespace qm::kube {
namespace ownership_test {

using testing::wait_until;
using namespace std::chrono_literals;

/// Serves namespaces, groups, leases and deployments; a watch hangs.
class Server {
 public:
  Server() : server_({}, [this](const http::Request& request) { return answer(request); }) {
    EXPECT_TRUE(server_.start());
  }
  ~Server() {
    {
      const std::scoped_lock lock(mutex_);
      for (auto& stream : streams_) stream->close();
    }
    server_.stop();
  }
  [[nodiscard]] ClientOptions options() const {
    return ClientOptions{"http://127.0.0.1:" + std::to_string(server_.port()), {}, {}, {}, {}};
  }
  void put_namespace(const std::string& name, const Json& labels, const Json& annotations = {}) {
    auto metadata = Json::object({{"name", name}, {"uid", "uid-" + name}});
    const std::scoped_lock lock(mutex_);
    metadata.set("resourceVersion", std::to_string(++version_));
    metadata.set("labels", labels);
    metadata.set("annotations", annotations);
    const auto object = Json::object({{"kind", "Namespace"}, {"metadata", metadata}});
    namespaces_.push_back(object);
    events_of_namespaces_.emplace_back(version_,
                                       Json::object({{"type", "MODIFIED"}, {"object", object}}).dump() + "\n");
    for (auto& stream : streams_) stream->write(events_of_namespaces_.back().second);
  }
  void group(const std::string& name) {
    const std::scoped_lock lock(mutex_);
    groups_.push_back(name);
  }
  void lease(const std::string& ns, const std::string& name, Instant renewed, const std::string& holder = "pod-1") {
    const std::scoped_lock lock(mutex_);
    leases_[name] = Json::object({{"metadata", Json::object({{"name", name}, {"namespace", ns}})},
                                  {"spec", Json::object({{"holderIdentity", holder},
                                                         {"leaseDurationSeconds", 15},
                                                         {"renewTime", to_rfc3339(renewed)}})}});
  }
  void deployment(const std::string& name, int replicas) {
    const std::scoped_lock lock(mutex_);
    deployments_[name] = Json::object({{"metadata", Json::object({{"name", name}, {"namespace", "system"}})},
                                       {"status", Json::object({{"availableReplicas", replicas}})}});
  }
  std::vector<Json> events() {
    const std::scoped_lock lock(mutex_);
    return events_;
  }
  static Instant now() {
    return from_micros(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
  }

 private:
  http::Answer answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    const auto path = request.path();
    auto query = request.query();
    const auto list = [&](const std::vector<Json>& items) {
      return http::json(200, Json::object({{"kind", "ThingList"},
                                           {"metadata", Json::object({{"resourceVersion", std::to_string(version_)}})},
                                           {"items", Json(items)}})
                                 .dump());
    };
    if (path == "/apis") {
      Json groups = Json::array();
      for (const auto& name : groups_) {
        const auto v1 = Json::object({{"version", "v1"}});
        groups.push_back(Json::object({{"name", name}, {"versions", Json::array({v1})}, {"preferredVersion", v1}}));
      }
      return http::json(200, Json::object({{"groups", groups}}).dump());
    }
    if (path.ends_with("/events")) {
      events_.push_back(*Json::parse(request.body));
      return http::json(201, request.body);
    }
    if (path == "/api/v1/namespaces" && query.contains("watch")) {
      return {http::json(200, ""),
              [this, from = std::stoi(query["resourceVersion"])](std::shared_ptr<http::Stream> stream) {
                const std::scoped_lock inner(mutex_);
                for (const auto& [version, line] : events_of_namespaces_) {
                  if (version > from) stream->write(line);
                }
                streams_.push_back(std::move(stream));
              }};
    }
    if (path == "/api/v1/namespaces") return list(namespaces_);
    const auto& from = path.ends_with("/leases") ? leases_ : deployments_;
    const auto name = query["fieldSelector"].substr(std::string("metadata.name=").size());
    const auto it = from.find(name);
    return it == from.end() ? list({}) : list({it->second});
  }

  std::mutex mutex_;
  std::vector<Json> namespaces_, events_;
  std::vector<std::pair<int, std::string>>
      events_of_namespaces_;  ///< by version; a watch starts at the version of its list
  std::vector<std::string> groups_;
  std::map<std::string, Json> leases_, deployments_;
  std::vector<std::shared_ptr<http::Stream>> streams_;
  int version_ = 1;
  http::Server server_;
};

Ownership::Options options_of(const std::string& what, const std::string& standard = "auto") {
  return {what, standard, other_controllers_of(what), 20ms};
}
const std::string kQuota = "quartermaster.dev/quota";

TEST(Ownership, WithoutAnotherControllerItActs) {
  Server server;
  server.put_namespace("team", {});
  server.group("kueue.x-k8s.io");  // definitions alone do not count as active
  Client client(server.options());
  Ownership ownership(client, options_of("quota"));
  EXPECT_FALSE(ownership.of("team").ours) << "before anything was seen";
  EXPECT_FALSE(ownership.acts("team", "job team/a"));
  ownership.start();
  ASSERT_TRUE(wait_until([&] { return ownership.known(); }));
  EXPECT_TRUE(ownership.of("team").ours);
  EXPECT_FALSE(ownership.of("team").explicit_owner);
  EXPECT_TRUE(ownership.acts("team", "job team/a"));
  EXPECT_TRUE(server.events().empty());
}

TEST(Ownership, AHeldLeaseOfAnotherControllerPreventsActionUntilALabel) {
  Server server;
  server.put_namespace("silent", {});
  server.put_namespace("label", Json::object({{kQuota, "quartermaster"}}));
  server.put_namespace("noted", {}, Json::object({{kQuota, "quartermaster"}}));
  server.put_namespace("theirs", Json::object({{kQuota, "volcano"}}));
  server.group("kueue.x-k8s.io");
  server.lease("kueue-system", "c1f6bfd2.kueue.x-k8s.io", Server::now());
  Client client(server.options());
  std::atomic<int> changes = 0;
  Ownership ownership(client, options_of("quota"), [&] { ++changes; });
  ownership.start();
  ASSERT_TRUE(wait_until([&] { return ownership.known(); }));
  EXPECT_EQ(ownership.of("silent").owner, "kueue");
  EXPECT_TRUE(ownership.of("label").ours);
  EXPECT_TRUE(ownership.of("noted").ours);
  EXPECT_EQ(ownership.of("theirs").owner, "volcano");

  // Skipped with one Event, which has the remedy.
  EXPECT_FALSE(ownership.acts("silent", "job silent/a"));
  EXPECT_FALSE(ownership.acts("silent", "job silent/b"));
  ASSERT_TRUE(wait_until([&] { return server.events().size() == 1; }));
  const auto event = server.events().front();
  EXPECT_EQ(event["reason"].string(), "DeferredToOtherController");
  EXPECT_EQ(event.path("metadata.namespace").string(), "silent");
  EXPECT_NE(event["message"].string().find("kueue is active (leases kueue-system/c1f6bfd2.kueue.x-k8s.io)"),
            std::string::npos)
      << event["message"].string();
  EXPECT_NE(event["message"].string().find("quartermaster.dev/quota=quartermaster"), std::string::npos);
  EXPECT_EQ(ownership.left_alone()["silent"].string(), "kueue");

  // A later label takes effect at once.
  const int before = changes;
  server.put_namespace("silent", Json::object({{kQuota, "quartermaster"}}));
  ASSERT_TRUE(wait_until([&] { return changes > before; }));
  EXPECT_TRUE(ownership.acts("silent", "job silent/a"));
  EXPECT_FALSE(ownership.left_alone().contains("silent"));
}

TEST(Ownership, AnExpiredLeaseShowsNoController) {
  Server server;
  server.put_namespace("team", {});
  server.group("kueue.x-k8s.io");
  server.lease("kueue-system", "kueue-controller-manager", Server::now() - std::chrono::hours(1));
  Client client(server.options());
  Ownership ownership(client, options_of("quota"));
  ownership.start();
  ASSERT_TRUE(wait_until([&] { return ownership.known(); }));
  EXPECT_TRUE(ownership.of("team").ours);
  // The other controller becomes active again at run time.
  server.lease("kueue-system", "kueue-controller-manager", Server::now());
  EXPECT_TRUE(wait_until([&] { return !ownership.of("team").ours; }));
  server.lease("kueue-system", "kueue-controller-manager", Server::now(), "");
  EXPECT_TRUE(wait_until([&] { return ownership.of("team").ours; }));
}

TEST(Ownership, EachOtherControllerIsDetectedByItsObjects) {
  struct Case {
    const char *what, *group, *lease, *deployment, *owner;
  };
  for (const Case& c : {Case{"quota", "kueue.x-k8s.io", "", "kueue-controller-manager", "kueue"},
                        Case{"quota", "scheduling.volcano.sh", "vc-controller-manager", "", "volcano"},
                        Case{"scaling", "karpenter.sh", "karpenter-leader-election", "", "karpenter"},
                        Case{"scaling", "", "cluster-autoscaler", "", "cluster-autoscaler"},
                        Case{"replicas", "keda.sh", "operator.keda.sh", "", "keda"}}) {
    Server server;
    if (*c.group != 0) server.group(c.group);
    if (*c.lease != 0) server.lease("system", c.lease, Server::now());
    if (*c.deployment != 0) server.deployment(c.deployment, 1);
    Client client(server.options());
    Ownership ownership(client, options_of(c.what));
    ownership.start();
    ASSERT_TRUE(wait_until([&] { return ownership.known(); }));
    EXPECT_EQ(ownership.of("").owner, c.owner);
    EXPECT_FALSE(ownership.of("").ours);
    // Without the definitions the same lease belongs to another program with that name.
    if (*c.group == 0) continue;
    Server bare;
    if (*c.lease != 0) bare.lease("system", c.lease, Server::now());
    if (*c.deployment != 0) bare.deployment(c.deployment, 1);
    Client other(bare.options());
    Ownership alone(other, options_of(c.what));
    alone.start();
    ASSERT_TRUE(wait_until([&] { return alone.known(); }));
    EXPECT_TRUE(alone.of("").ours) << c.owner;
  }
}

TEST(Ownership, TheSettingHoldsWhereTheNamespaceIsSilent) {
  Server server;
  server.put_namespace("silent", {});
  server.put_namespace("theirs", Json::object({{kQuota, "kueue"}}));
  server.group("kueue.x-k8s.io");
  server.lease("kueue-system", "c1f6bfd2.kueue.x-k8s.io", Server::now());
  Client client(server.options());
  Ownership ours(client, options_of("quota", "quartermaster"));
  Ownership none(client, options_of("quota", "none"));
  ours.start();
  none.start();
  ASSERT_TRUE(wait_until([&] { return ours.known() && none.known(); }));
  EXPECT_TRUE(ours.of("silent").ours);
  EXPECT_TRUE(ours.of("silent").explicit_owner);
  EXPECT_FALSE(ours.of("theirs").ours);
  EXPECT_FALSE(none.of("silent").ours);
  EXPECT_EQ(none.of("silent").owner, "none");
}

}  // namespace ownership_test
}  // namespace qm::kube
