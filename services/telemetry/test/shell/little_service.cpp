#include "test/shell/little_service.hpp"

#include <gtest/gtest.h>

#include <atomic>

namespace qm::telemetry::testing {

pb::GpuSample sample(std::int32_t index, double utilization, const std::string& pod, std::int64_t energy_mj) {
  pb::GpuSample s;
  s.set_gpu_index(index);
  s.set_gpu_uuid(fmt::format("GPU-{}", index));
  s.set_utilization(utilization);
  s.set_energy_mj(energy_mj);
  s.set_model("NVIDIA H100 80GB HBM3");
  if (!pod.empty()) {
    s.set_namespace_("team");
    s.set_pod(pod);
    s.set_container("main");
  }
  return s;
}

pb::SampleFrame frame(const std::string& node, std::int64_t at_s, std::uint64_t sequence,
                      std::vector<pb::GpuSample> gpus) {
  pb::SampleFrame f;
  f.set_node(node);
  f.set_at_us(at_s * 1'000'000);
  f.set_sequence(sequence);
  for (auto& gpu : gpus) *f.add_gpus() = std::move(gpu);
  return f;
}

pb::AgentFact xid_fact(const std::string& id, const std::string& node, std::int32_t xid, std::int32_t gpu) {
  pb::AgentFact fact;
  fact.set_id(id);
  fact.mutable_xid()->set_node(node);
  fact.mutable_xid()->set_xid(xid);
  fact.mutable_xid()->set_gpu_index(gpu);
  return fact;
}

LittleService::LittleService(Options options) : disk(std::move(options.disk)) {
  static std::atomic<int> serial = 0;
  bus = *bus::make_bus(fmt::format("memory:telemetry-{}", ++serial));
  auto host_with = host_options("default");
  host_with.digest_each_batch = true;
  host_with.gather = {};  // tests send one input after the other's confirmation
  Codec codec([this](const NodeName& node) { samples.forget(node.value()); });
  host =
      std::make_unique<service::Host>(host_with, std::make_unique<Shell>(std::make_unique<Engine>(), std::move(codec)),
                                      store::open_memory(disk), bus, clock, &hub);
  EXPECT_TRUE(host->open());
  if (options.threads) host->start();
  samples.on_closed([this](const pb::UsageInterval& u) { (void)host->submit(usage_input(u)); });
  redis = std::make_unique<RedisMirror>(options.redis, samples);
  observer = std::make_unique<Observer>(bus, *redis, "default");
  redis->start();
  observer->start();
  export_metrics(registry, *host, samples, hub, *redis);
  api = make_api({*host, samples, hub, *redis, *observer, clock});
  rpc::ServerOptions server_options;
  server_options.drain = std::chrono::seconds(0);
  server_options.access = options.access;
  server = std::make_unique<rpc::Server>(server_options, std::vector<grpc::Service*>{api.get()});
  EXPECT_TRUE(server->start());
  stub = pb::Telemetry::NewStub(
      grpc::CreateChannel(fmt::format("127.0.0.1:{}", server->port()), grpc::InsecureChannelCredentials()));
}

LittleService::~LittleService() {
  server->stop();
  observer->stop();
  redis->stop();
  host->stop();
}

void LittleService::publish(const std::string& topic, const std::string& key, const std::string& payload,
                            bool tombstone) {
  pb::Envelope envelope;
  envelope.set_topic(topic);
  envelope.set_key(key);
  envelope.set_key_version(++versions[topic + key]);
  envelope.set_occurred_us(micros(clock.now()));
  envelope.set_tombstone(tombstone);
  envelope.set_payload(payload);
  auto producer = *bus->producer("test");
  ASSERT_TRUE(
      producer->publish(std::vector<bus::Record>{{topic, key, envelope.SerializeAsString()}}, std::chrono::seconds(5)));
}

void LittleService::order(const std::string& id, const std::vector<std::string>& nodes, std::int64_t deadline_s) {
  pb::CapacityEvent event;
  auto* order = event.mutable_checkpoint();
  order->set_id(id);
  order->set_uid("w");
  order->set_attempt(1);
  order->set_namespace_("team");
  for (const auto& node : nodes) order->add_nodes(node);
  order->set_reason("SpotInterruption");
  order->set_deadline_us(micros(clock.now()) + deadline_s * 1'000'000);
  publish("qm.capacity", "checkpoint/" + id, event.SerializeAsString());
}

pb::QueryResponse LittleService::query(const pb::QueryRequest& request, grpc::Status* status) {
  Call call;
  pb::QueryResponse response;
  const auto done = stub->Query(&call, request, &response);
  if (status != nullptr) {
    *status = done;
  } else {
    EXPECT_TRUE(done.ok()) << done.error_message();
  }
  return response;
}

std::size_t LittleService::verdicts() {
  std::size_t n = 0;
  host->read([&](const service::Shell& shell) { n = engine_of(shell).tables().health.size(); });
  return n;
}

AgentStream::AgentStream(LittleService& service, const std::vector<std::string>& nodes)
    : stream_(service.stub->Push(&call_)) {
  pb::AgentMessage hello;
  for (const auto& node : nodes) hello.mutable_hello()->add_nodes(node);
  write(hello);
  reader_ = std::jthread([this] {
    for (pb::AgentOrder order; stream_->Read(&order);) {
      const std::lock_guard lock(mutex_);
      got_.push_back(order);
    }
  });
}

AgentStream::~AgentStream() {
  if (ended_) return;
  call_.TryCancel();
  reader_ = {};
  (void)stream_->Finish();
}

void AgentStream::write(const pb::AgentMessage& message) { EXPECT_TRUE(stream_->Write(message)); }

void AgentStream::send(const pb::AgentFact& fact) {
  pb::AgentMessage message;
  *message.mutable_fact() = fact;
  write(message);
}

void AgentStream::send(const pb::SampleFrame& frame) {
  pb::AgentMessage message;
  *message.mutable_frame() = frame;
  write(message);
}

std::size_t AgentStream::confirmed(const std::string& fact) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(got_, [&](const auto& o) { return o.fact_committed() == fact; }));
}

std::size_t AgentStream::ordered(const std::string& order) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(got_, [&](const auto& o) { return o.checkpoint().id() == order; }));
}

grpc::Status AgentStream::end() {
  stream_->WritesDone();
  reader_.join();
  ended_ = true;
  return stream_->Finish();
}

}  // namespace qm::telemetry::testing
