// Notices of the cloud under load.
//
// queue   15,000 interruption warnings, the size of Karpenter's benchmark, in a queue of the simulated fleet behind HTTP
//         and signatures; consumed by the autoscaler's host with a store in PostgreSQL. Ends when all are committed.
// latency one message at a time, from its send until its notice is committed.
// orders  1,000 nodes of 250 gangs get a notice in one batch: the time until their orders are decided.
#include "aws.hpp"
#include "qm/autoscaler/interruption_queue.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/bus/bus.hpp"
#include "qm/store/store.hpp"
#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace qm::autoscaler {
namespace {

using bench::Clock;
using bench::must;
using bench::since;

constexpr int kMessages = 15'000;
constexpr int kSenders = 4;

std::string warning(int number) {
  return fmt::format(
      R"({{"version":"0","id":"event-{0}","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2",)"
      R"("time":"2026-11-27T09:00:00Z","detail":{{"instance-id":"i-{0:017x}","instance-action":"terminate"}}}})",
      number);
}

/// SQS of a simulated fleet on a port of this host.
class Queue {
 public:
  Queue()
      : world_({}, fleet::PriceTable::built_in(), fleet::manual_clock(from_micros(1'000'000'000'000'000))),
        api_(world_),
        server_({.threads = 4}, [this](const http::Request& r) { return api_.handle(r); }) {
    must(server_.start());
  }
  ~Queue() { server_.stop(); }
  [[nodiscard]] cloud::AwsOptions options() const {
    cloud::AwsOptions o;
    o.endpoint = "http://127.0.0.1:" + std::to_string(server_.port());
    o.access_key = o.secret_key = "test";
    return o;
  }

 private:
  fleet::World world_;
  fleet::AwsApi api_;
  http::Server server_;
};

/// The host of the autoscaler on a store in PostgreSQL, with a reader of the queue.
class Consumer {
 public:
  Consumer(const std::string& conninfo, const std::string& name, Queue& queue, const std::string& url, int consumers)
      : aws_(queue.options()) {
    service::HostOptions options = host_options("default");
    options.consumes.clear();
    host_ = std::make_unique<service::Host>(options,
                                            std::make_unique<Shell>(std::make_unique<Engine>(catalog_types()), Codec()),
                                            must(store::open_postgres({.conninfo = conninfo, .service = name})),
                                            must(bus::make_bus("memory:" + name)), clock_, nullptr);
    must(host_->open([] { return true; }));
    host_->start();
    reader_ = std::make_unique<InterruptionQueue>(
        aws_, [this](service::Input in, auto done) { return host_->submit(std::move(in), std::move(done)); }, [] {},
        InterruptionQueue::Options{.url = url, .consumers = consumers, .wait_seconds = 1});
    reader_->start();
  }
  ~Consumer() {
    reader_->stop();
    host_->stop();
  }
  [[nodiscard]] InterruptionQueue::Counters counters() const { return reader_->counters(); }
  /// Until this number of notices is committed, at most `limit` seconds.
  void wait_for(std::uint64_t notices, double limit) const {
    const auto begun = Clock::now();
    while (counters().notices < notices && since(begun) < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  SystemClock clock_;
  cloud::Aws aws_;
  std::unique_ptr<service::Host> host_;
  std::unique_ptr<InterruptionQueue> reader_;
};

bool drain_queue(const std::string& conninfo, int consumers) {
  Queue queue;
  cloud::Aws aws(queue.options());
  const std::string url = must(aws.create_queue("interruptions"));
  std::vector<std::jthread> senders;
  for (int s = 0; s < kSenders; ++s) {
    senders.emplace_back([&, s] {
      cloud::Aws sender(queue.options());
      for (int i = s; i < kMessages; i += kSenders) {
        must(sender.send_message(url, warning(i)));
      }
    });
  }
  senders.clear();
  const auto begun = Clock::now();
  const Consumer consumer(conninfo, fmt::format("queue_{}", consumers), queue, url, consumers);
  consumer.wait_for(kMessages, 120);
  const double took = since(begun);
  const auto counted = consumer.counters();
  fmt::print("queue    consumers {:>2}  messages {}  committed {}  undeleted {}  {:.2f} s  {:.0f} messages/s\n",
             consumers, counted.messages, counted.notices, counted.undeleted, took,
             static_cast<double>(counted.notices) / took);
  return counted.notices == kMessages;
}

void queue_latency(const std::string& conninfo) {
  constexpr int kSingle = 200;
  Queue queue;
  cloud::Aws aws(queue.options());
  const std::string url = must(aws.create_queue("interruptions"));
  const Consumer consumer(conninfo, "latency", queue, url, 4);
  std::vector<double> times;
  for (int i = 0; i < kSingle; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + i * 37 % 100));
    const auto sent = Clock::now();
    must(aws.send_message(url, warning(i)));
    consumer.wait_for(static_cast<std::uint64_t>(i) + 1, 20);
    times.push_back(1000 * since(sent));
  }
  fmt::print("latency  message sent to notice committed: n {}  median {:.1f} ms  p99 {:.1f} ms  largest {:.1f} ms\n",
             times.size(), bench::at_share(times, 0.5), bench::at_share(times, 0.99), bench::at_share(times, 1));
}

constexpr int kNodes = 1000, kGangNodes = 4;

void order_saves() {
  std::vector<double> times;
  std::size_t orders = 0;
  for (int run = 0; run < 20; ++run) {
    Engine engine(catalog_types());
    std::vector<Command> batch;
    InstancesListed listed;
    for (int i = 0; i < kNodes; ++i) {
      const NodeName node(fmt::format("node-{}", i));
      InstanceFact fact;
      fact.id = InstanceId(fmt::format("i-{}", i));
      fact.type = "p5.48xlarge", fact.zone = "us-east-1a", fact.market = Market::kSpot;
      fact.node = node;
      listed.instances.push_back(fact);
      batch.emplace_back(NodeUpdated{node, true, false, false, 8, {}, fact.id});
    }
    batch.emplace_back(std::move(listed));
    for (int gang = 0; gang < kNodes / kGangNodes; ++gang) {
      const WorkloadUid uid(fmt::format("gang-{}", gang));
      batch.emplace_back(WorkloadUpdated{uid, 1, true, false, "team", "Job", uid.value()});
      AssignmentUpdated placed{{uid, 1}, true, {}};
      for (int i = 0; i < kGangNodes; ++i) placed.nodes.emplace_back(fmt::format("node-{}", gang * kGangNodes + i));
      std::ranges::sort(placed.nodes);
      batch.emplace_back(std::move(placed));
    }
    const Instant now = from_micros(1'000'000'000'000'000);
    (void)engine.step(batch, now);
    engine.commit();
    batch.clear();
    for (int i = 0; i < kNodes; ++i)
      batch.emplace_back(SpotNoticeUpdated{NodeName(fmt::format("node-{}", i)), now + std::chrono::seconds(120)});
    const auto begun = Clock::now();
    const Output out = engine.step(batch, now);
    times.push_back(1000 * since(begun));
    engine.commit();
    orders = out.orders.size();
  }
  std::ranges::sort(times);
  fmt::print("orders   notices {}  gangs {}  orders {}  median {:.2f} ms  slowest of {} {:.2f} ms\n", kNodes,
             kNodes / kGangNodes, orders, times[times.size() / 2], times.size(), times.back());
}

}  // namespace
}  // namespace qm::autoscaler

// interruptions_bench CONNINFO
int main(int argc, char** argv) {
  const std::string conninfo = argc > 1 ? argv[1] : "";
  qm::autoscaler::order_saves();
  qm::autoscaler::queue_latency(conninfo);
  bool complete = true;
  for (const int consumers : {1, 4, 16}) complete = qm::autoscaler::drain_queue(conninfo, consumers) && complete;
  return complete ? 0 : 1;
}
