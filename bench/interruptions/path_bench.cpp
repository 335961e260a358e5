// The path of a notice through the programs: metadata, agent, telemetry, bus, autoscaler, and back to the ranks.
//
// One suite of processes on the simulated fleet, in real time: PostgreSQL for stores and bus with its default durability,
// qm-agent, five services. The clock of the fleet takes all instants.
//
// aws     notices one at a time at random phases of a poll each second: from the change of the metadata until the order
//         is on the bus, which is after its commit.
// gcp     the same for agents that wait for a change.
// gangs   N nodes of gangs of four get a notice at once: from the decision of the order, before its commit, until the last
//         rank of the gang has it, and from the change of the metadata until then.
#include "qm/bus/bus.hpp"
#include "qm/clock/clock.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "report.hpp"
#include "tests/e2e/support.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <thread>

namespace qm::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* kQueues = "bench/interruptions/queues.yaml";

/// First checkpoint orders by gang and by node, with the instant at which a reader of the bus has them.
class Orders {
 public:
  Orders(const std::string& postgres, const DomainClock& clock)
      : clock_(clock), bus_(must(bus::make_bus("postgres:" + postgres))) {
    consumer_ =
        must(bus_->consumer({.group = "bench/interruptions", .topics = {"qm.capacity"}, .cursor = [](const auto&) {
                               return std::int64_t{-1};
                             }}));
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) read();
    });
  }
  /// The instant of the first order whose notice came for the node; waits for it.
  std::optional<Instant> of_node(const std::string& node, SteadyDuration timeout) {
    std::optional<Instant> out;
    (void)testing::wait_until(
        [&] {
          const std::lock_guard lock(mutex_);
          const auto at = by_node_.find(node);
          if (at != by_node_.end()) out = at->second;
          return out.has_value();
        },
        std::chrono::duration_cast<milliseconds>(timeout));
    return out;
  }
  /// The decision of the first order of each gang.
  std::map<std::string, Instant> of_gangs() const {
    const std::lock_guard lock(mutex_);
    return by_gang_;
  }

 private:
  void read() {
    const auto messages = consumer_->poll(1000, milliseconds(200));
    if (!messages) return;
    const Instant now = clock_.now();
    const std::lock_guard lock(mutex_);
    for (const auto& message : *messages) {
      quartermaster::v1::Envelope envelope;
      quartermaster::v1::CapacityEvent event;
      if (!envelope.ParseFromString(message.value) || !event.ParseFromString(envelope.payload())) continue;
      if (!event.has_checkpoint() || !event.checkpoint().outcome().empty()) continue;
      const auto& id = event.checkpoint().id();
      by_node_.emplace(id.substr(id.rfind('/') + 1), now);
      by_gang_.try_emplace(event.checkpoint().uid(), from_micros(event.checkpoint().ordered_us()));
    }
  }
  const DomainClock& clock_;
  std::shared_ptr<bus::Bus> bus_;
  std::unique_ptr<bus::Consumer> consumer_;
  mutable std::mutex mutex_;
  std::map<std::string, Instant> by_node_, by_gang_;
  std::jthread thread_;
};

/// The suite with gangs of `ranks` whole nodes that fill all of its spot nodes but `spare`.
class Fleet {
 public:
  Fleet(int nodes, int ranks, int spare) {
    suite_ = must(e2e::Suite::up({"--nodes", std::to_string(nodes), "--spot-nodes", std::to_string(nodes), "--speed",
                                  "10", "--agent-set", "notice-period=1s"}));
    const auto applied = suite_->qmctl({"apply", "-f", kQueues});
    if (applied.code != 0) must(Status(fail(Code::kInvalid, "{}", applied.output)));
    clock_ = must(make_clock("scaled:" + suite_->endpoints()["clock"].string()));
    const int gangs = (nodes - spare) / ranks;
    for (int i = 0; i < gangs; ++i)
      must(suite_->submit({.name = fmt::format("gang-{}", i),
                           .pods = ranks,
                           .gpus = 8,
                           .run_s = 360'000,
                           .queue = "bench",
                           .saves = true},
                          seconds(60)));
    const std::int64_t gpus = std::int64_t{8} * gangs * ranks;
    const bool running = e2e::eventually(
        [&] {
          const auto state = suite_->fleet_state();
          return state && (*state)["cluster"]["gpus_computing"].integer() >= gpus;
        },
        seconds(300));
    if (!running) must(Status(fail(Code::kDeadlineExceeded, "the gangs do not run")));
    must(suite_->clock(1));
    std::this_thread::sleep_for(seconds(3));
    orders_ = std::make_unique<Orders>(suite_->postgres(), *clock_);
  }
  ~Fleet() { orders_.reset(); }
  e2e::Suite& suite() { return *suite_; }
  Orders& orders() { return *orders_; }
  const DomainClock& clock() { return *clock_; }
  std::vector<Json> history() const {
    std::vector<Json> out;
    std::ifstream in(suite_->dir() + "/fleet/history.jsonl");
    for (std::string line; std::getline(in, line);) {
      if (line.find("\"signal\"") == std::string::npos) continue;
      if (auto read = Json::parse(line)) out.push_back(std::move(*read));
    }
    return out;
  }

 private:
  std::unique_ptr<e2e::Suite> suite_;
  std::unique_ptr<DomainClock> clock_;
  std::unique_ptr<Orders> orders_;
};

double ms(Duration d) { return static_cast<double>(d.count()) / 1000; }

void print(const char* what, const std::vector<double>& values, std::size_t expected) {
  fmt::print("{:<44} n {:>5} of {:>5}  median {:8.1f} ms  p99 {:8.1f} ms  largest {:8.1f} ms\n", what, values.size(),
             expected, values.empty() ? 0 : at_share(values, 0.5), values.empty() ? 0 : at_share(values, 0.99),
             values.empty() ? 0 : at_share(values, 1));
  std::fflush(stdout);
}

void aws(int notices) {
  Fleet fleet(2 * notices, 1, notices);
  std::mt19937 random(1);
  std::vector<double> times;
  for (int i = 0; i < notices; ++i) {
    std::this_thread::sleep_for(milliseconds(200 + random() % 1000));
    const Instant begun = fleet.clock().now();
    const Json struck =
        must(fleet.suite().fault(Json::object({{"kind", "spot_reclaim"}, {"count", 1}, {"notice_s", 120}})));
    const auto& node = struck["nodes"].at(0).string();
    if (const auto at = fleet.orders().of_node(node, seconds(20))) times.push_back(ms(*at - begun));
  }
  print("aws: metadata change to committed order", times, static_cast<std::size_t>(notices));
}

/// Metadata servers of GCP on addresses 127.0.2.N: instance/preempted with versions and waiting reads.
class Gcp {
 public:
  explicit Gcp(std::size_t nodes)
      : nodes_(nodes),
        server_({.address = "0.0.0.0", .threads = 2}, [this](const http::Request& r) { return answer(r); }) {
    must(server_.start());
  }
  ~Gcp() { server_.stop(); }
  std::string url(std::size_t i) const { return fmt::format("http://127.0.2.{}:{}", i + 1, server_.port()); }
  void preempt(std::size_t i) {
    const std::lock_guard lock(mutex_);
    nodes_[i].preempted = true;
    for (auto& stream : nodes_[i].waiting) stream->write("TRUE"), stream->close();
    nodes_[i].waiting.clear();
  }
  /// Ends waits, as the real server does after timeout_sec.
  void expire() {
    const std::lock_guard lock(mutex_);
    for (auto& node : nodes_) {
      std::erase_if(node.waiting, [](const auto& stream) { return stream->closed(); });
      if (node.preempted || node.waiting.empty() || Clock::now() - node.since < seconds(1)) continue;
      for (auto& stream : node.waiting) stream->write("FALSE"), stream->close();
      node.waiting.clear();
    }
  }

 private:
  struct Node {
    bool preempted = false;
    Clock::time_point since;
    std::vector<std::shared_ptr<http::Stream>> waiting;
  };
  http::Answer answer(const http::Request& request) {
    const std::string host(request.headers.get("Host"));
    const auto index = static_cast<std::size_t>(std::atoi(host.substr(host.rfind('.') + 1).c_str()) - 1);
    if (index >= nodes_.size()) return http::text(404, "");
    const std::string path = request.path();
    if (path.ends_with("/maintenance-event")) return http::text(200, "NONE");
    if (path.ends_with("/instance/id")) return http::text(200, std::to_string(1000 + index));
    const std::lock_guard lock(mutex_);
    Node& node = nodes_[index];
    const std::string etag = node.preempted ? "b" : "a";
    http::Response now = http::text(200, node.preempted ? "TRUE" : "FALSE");
    now.headers.set("ETag", etag);
    auto query = request.query();
    if (query["wait_for_change"] != "true" || query["last_etag"] != etag) return now;
    now.body.clear();
    return {std::move(now), [this, index](std::shared_ptr<http::Stream> stream) {
              const std::lock_guard hold(mutex_);
              nodes_[index].since = Clock::now();
              nodes_[index].waiting.push_back(std::move(stream));
            }};
  }
  std::mutex mutex_;
  std::vector<Node> nodes_;
  http::Server server_;
};

void gcp(int notices) {
  Fleet fleet(notices, 1, 0);
  const Json state = must(fleet.suite().fleet_state());
  Gcp metadata(static_cast<std::size_t>(notices));
  std::jthread ticker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) metadata.expire(), std::this_thread::sleep_for(milliseconds(50));
  });
  std::vector<std::string> nodes;
  std::vector<std::unique_ptr<testing::Process>> agents;
  for (const auto& instance : state["instances"].items()) {
    if (static_cast<int>(nodes.size()) == notices) break;
    nodes.push_back(instance["node"].string());
    agents.push_back(must(testing::Process::start(
        {{e2e::program("qm-agent"), "--kube", fleet.suite().endpoints()["kube"].string(), "--clock",
          "scaled:" + fleet.suite().endpoints()["clock"].string(), "--set", "nodes=" + nodes.back(), "--set",
          "telemetry=" + fleet.suite().grpc("telemetry"), "--set", "cloud=gcp", "--set",
          "imds=" + metadata.url(nodes.size() - 1), "--set", "sample-period=600s"},
         {},
         fleet.suite().dir() + "/logs/gcp-" + nodes.back()})));
  }
  std::this_thread::sleep_for(seconds(10));
  std::mt19937 random(1);
  std::vector<double> times;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::this_thread::sleep_for(milliseconds(200 + random() % 1000));
    const Instant begun = fleet.clock().now();
    metadata.preempt(i);
    if (const auto at = fleet.orders().of_node(nodes[i], seconds(20))) times.push_back(ms(*at - begun));
  }
  print("gcp: metadata change to committed order", times, nodes.size());
  for (auto& agent : agents) agent->signal(SIGTERM);
}

void gangs(int nodes) {
  constexpr int kRanks = 4;
  Fleet fleet(nodes, kRanks, 0);
  must(fleet.suite().fault(Json::object({{"kind", "spot_reclaim"}, {"count", nodes}, {"notice_s", 120}})));
  std::map<std::string, std::map<std::string, Instant>> first;  // gang -> pod -> its first order
  const auto complete = [&] {
    first.clear();
    for (const Json& line : fleet.history()) {
      if (line["kind"].string() != "checkpoint") continue;
      first[line["owner"].string()].emplace(line["pod"].string(), from_micros(line["t"].integer()));
    }
    std::size_t whole = 0;
    for (const auto& [gang, pods] : first) whole += pods.size() == kRanks ? 1 : 0;
    const auto expected = static_cast<std::size_t>(nodes / kRanks);
    return whole == expected && fleet.orders().of_gangs().size() == expected;
  };
  (void)e2e::eventually(complete, seconds(60));
  Instant notice{};
  for (const Json& line : fleet.history()) {
    if (line["kind"].string() == "spot_notice") notice = std::max(notice, from_micros(line["t"].integer()));
  }
  const auto ordered = fleet.orders().of_gangs();
  std::vector<double> from_order, from_notice;
  for (const auto& [gang, pods] : first) {
    const auto order = ordered.find(gang);
    if (order == ordered.end() || pods.size() != kRanks) continue;
    Instant last{};
    for (const auto& [pod, at] : pods) last = std::max(last, at);
    from_order.push_back(ms(last - order->second));
    from_notice.push_back(ms(last - notice));
  }
  const auto expected = static_cast<std::size_t>(nodes / kRanks);
  print("gangs: order to the whole gang", from_order, expected);
  print("gangs: metadata change to the whole gang", from_notice, expected);
}

}  // namespace
}  // namespace qm::bench

// interruptions_path_bench [aws|gcp|gangs [N]]
int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  const int n = argc > 2 ? std::atoi(argv[2]) : 0;
  if (only.empty() || only == "aws") qm::bench::aws(n > 0 ? n : 100);
  if (only.empty() || only == "gcp") qm::bench::gcp(n > 0 ? n : 60);
  if (only.empty() || only == "gangs") qm::bench::gangs(n > 0 ? n : 1000);
  return 0;
}
