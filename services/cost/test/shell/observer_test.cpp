// Cost from nodes and pods alone: the charges from the observations add up.
#include "qm/cost/observer.hpp"

#include "qm/cost/shell.hpp"
#include "qm/http/http.hpp"
#include "qm/testing/testing.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace qm::cost {
namespace observer_test {

using qm::testing::wait_until;

/// Serves lists of nodes and pods, and a watch with later changes.
class Server {
 public:
  Server() : server_({}, [this](const http::Request& r) { return answer(r); }) { EXPECT_TRUE(server_.start()); }
  ~Server() {
    cut();
    server_.stop();
  }
  [[nodiscard]] kube::ClientOptions options() const {
    kube::ClientOptions out;
    out.server = "http://127.0.0.1:" + std::to_string(server_.port());
    return out;
  }
  void put(const std::string& plural, Json object) {
    const std::scoped_lock lock(mutex_);
    object.set("metadata").set("resourceVersion", std::to_string(++version_));
    objects_[plural][kube::name_of(object)] = object;
    tell(plural, "MODIFIED", object);
  }
  void erase(const std::string& plural, const std::string& name, bool silently = false) {
    const std::scoped_lock lock(mutex_);
    const Json last = objects_[plural][name];
    objects_[plural].erase(name);
    ++version_;
    if (!silently) tell(plural, "DELETED", last);
  }
  void cut() {
    const std::scoped_lock lock(mutex_);
    for (auto& [plural, stream] : streams_) stream->close();
    streams_.clear();
  }

 private:
  void tell(const std::string& plural, const char* type, const Json& object) {
    const std::string line = Json::object({{"type", type}, {"object", object}}).dump() + "\n";
    events_.push_back({plural, version_, line});
    for (auto& [watched, stream] : streams_) {
      if (watched == plural) stream->write(line);
    }
  }
  http::Answer answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    const std::string plural = request.path().substr(std::string("/api/v1/").size());
    if (request.query().contains("watch")) {
      const int from = std::atoi(request.query()["resourceVersion"].c_str());
      return {http::json(200, ""), [this, plural, from](std::shared_ptr<http::Stream> stream) {
                const std::scoped_lock inner(mutex_);
                for (const auto& event : events_) {
                  if (event.plural == plural && event.version > from) stream->write(event.line);
                }
                streams_.emplace_back(plural, std::move(stream));
              }};
    }
    Json items = Json::array();
    for (const auto& [name, object] : objects_[plural]) items.push_back(object);
    return http::json(200, Json::object({{"kind", "ThingList"},
                                         {"metadata", Json::object({{"resourceVersion", std::to_string(version_)}})},
                                         {"items", items}})
                               .dump());
  }

  std::mutex mutex_;
  std::map<std::string, std::map<std::string, Json>> objects_;
  std::vector<std::pair<std::string, std::shared_ptr<http::Stream>>> streams_;
  struct Event {
    std::string plural;
    int version;
    std::string line;
  };
  std::vector<Event> events_;  ///< for watches that begin at an older version
  int version_ = 1;
  http::Server server_;
};

constexpr const char* kNode = R"({"metadata":{"name":"a","uid":"n-a","creationTimestamp":"2026-03-01T10:00:00Z",
  "labels":{"node.kubernetes.io/instance-type":"p5.48xlarge","topology.kubernetes.io/zone":"us-east-1a",
            "karpenter.sh/capacity-type":"on-demand"}},
  "spec":{"providerID":"aws:///us-east-1a/i-1"},
  "status":{"allocatable":{"nvidia.com/gpu":"8"},
            "conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-03-01T10:00:00Z"}]}})";

Json pod(const std::string& name, int gpus, const char* phase, const char* finished = nullptr) {
  Json out = *Json::parse(fmt::format(
      R"({{"metadata":{{"name":"{0}","namespace":"lab","uid":"u-{0}","creationTimestamp":"2026-03-01T10:00:00Z"}},
        "spec":{{"nodeName":"a","containers":[{{"name":"main","resources":{{"limits":{{"nvidia.com/gpu":"{1}"}}}}}}]}},
        "status":{{"phase":"{2}","startTime":"2026-03-01T10:00:00Z"}}}})",
      name, gpus, phase));
  if (finished != nullptr) {
    out.set("status").set("containerStatuses",
                          Json::array({Json::object(
                              {{"state", Json::object({{"terminated", Json::object({{"finishedAt", finished}})}})}})}));
  }
  return out;
}

struct Service {
  ManualClock clock{*from_rfc3339("2026-03-01T12:00:00Z")};
  kube::Client client;
  std::unique_ptr<service::Host> host;
  std::unique_ptr<Observer> observer;

  Service(const Server& server, std::shared_ptr<store::MemoryDisk> disk) : client(server.options()) {
    static std::atomic<int> serial = 0;
    auto options = host_options("default");
    options.consumes.clear();
    host = std::make_unique<service::Host>(
        options, std::make_unique<Shell>(std::make_unique<Engine>(), Codec()), store::open_memory(std::move(disk)),
        *bus::make_bus(fmt::format("memory:cost-observer-{}", ++serial)), clock, nullptr);
    EXPECT_TRUE(host->open());
    host->start();
    EXPECT_TRUE(host->submit(prices_input(builtin_prices())));
    observer = std::make_unique<Observer>(client, *host, clock);
    observer->start();
    EXPECT_TRUE(wait_until([&] { return observer->synced(); }));
  }
  ~Service() {
    observer->stop();
    host->stop();
  }
  Statement statement() {
    Statement out;
    host->read([&](const service::Shell& shell) {
      EXPECT_EQ(engine_of(shell).audit(), "");
      const auto made = engine_of(shell).statement("", clock.now());
      EXPECT_TRUE(made) << made.error().to_string();
      if (made) out = *made;
    });
    return out;
  }
  /// Pods that hold devices now.
  int held() {
    int count = 0;
    host->read([&](const service::Shell& shell) {
      for (const auto& [id, row] : engine_of(shell).state().assignments) {
        for (const auto& member : row.members) count += member.released == Instant{} ? 1 : 0;
      }
    });
    return count;
  }
  std::int64_t gpu_minutes(const std::string& team) {
    const auto made = statement();
    const auto line = made.lines.find(team);
    return line == made.lines.end() ? 0 : line->second.gpu_micros / 60'000'000;
  }
};

TEST(Observer, ChargesWhatRanOnWhatThereWas) {
  Server server;
  server.put("nodes", *Json::parse(kNode));
  server.put("pods", pod("done", 4, "Succeeded", "2026-03-01T11:00:00Z"));
  server.put("pods", pod("runs", 2, "Running"));
  Service service(server, store::make_memory_disk());
  // 4 GPUs for an hour, 2 for two.
  ASSERT_TRUE(wait_until([&] { return service.gpu_minutes("lab") == 4 * 60 + 2 * 120; }));
  const auto bill = service.statement();
  Money total;
  for (const auto& [team, amount] : bill.lines) total += amount.nano;
  EXPECT_EQ(total, bill.provider) << "the lines are the bill";
  EXPECT_GT(bill.provider, Money());
  EXPECT_EQ(bill.imbalance, Money());

  // It is deleted without an end time: it ends when the deletion is observed.
  server.erase("pods", "runs");
  ASSERT_TRUE(wait_until([&] { return service.held() == 0; }));
  service.clock.advance(std::chrono::hours(1));
  EXPECT_EQ(service.gpu_minutes("lab"), 4 * 60 + 2 * 120);
  server.erase("nodes", "a");
  ASSERT_TRUE(wait_until([&] { return service.statement().open_instances == 0; }));
}

// The annotation of devices is also written by users: it moves no charge from one tenant to another, and removes none.
TEST(Observer, AnAnnotationOfDevicesChangesNoCharge) {
  Server server;
  server.put("nodes", *Json::parse(kNode));
  server.put("pods", pod("runs", 2, "Running"));
  auto forged = pod("forged", 3, "Running");
  forged.set("metadata").set("namespace", "other");
  forged.set("metadata")
      .set("annotations", Json::object({{"quartermaster.dev/devices", "0,0,1,1,2,3,4,5,6,7,9999,x"}}));
  server.put("pods", forged);
  Service service(server, store::make_memory_disk());
  ASSERT_TRUE(wait_until([&] { return service.held() == 2; }));
  EXPECT_EQ(service.gpu_minutes("lab"), 2 * 120);
  EXPECT_EQ(service.gpu_minutes("other"), 3 * 120);
  const auto bill = service.statement();
  Money total;
  for (const auto& [team, amount] : bill.lines) total += amount.nano;
  EXPECT_EQ(total, bill.provider);
}

TEST(Observer, AnInstanceThatEndedBetweenObservationsEndsWhenMissing) {
  Server server;
  server.put("nodes", *Json::parse(kNode));
  server.put("pods", pod("runs", 8, "Running"));
  const auto disk = store::make_memory_disk();
  {
    Service first(server, disk);
    ASSERT_TRUE(wait_until([&] { return first.gpu_minutes("lab") == 8 * 120; }));
    server.cut();
  }
  server.erase("pods", "runs", true);
  Service second(server, disk);
  ASSERT_TRUE(wait_until([&] { return second.held() == 0; }));
  second.clock.advance(std::chrono::hours(5));
  EXPECT_TRUE(wait_until([&] { return second.gpu_minutes("lab") == 8 * 120; })) << second.gpu_minutes("lab");
  EXPECT_EQ(second.statement().open_instances, 1U);
}

}  // namespace observer_test
}  // namespace qm::cost
