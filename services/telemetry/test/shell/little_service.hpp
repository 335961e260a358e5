#pragma once
#include "qm/rpc/server.hpp"
#include "qm/telemetry/api.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace qm::telemetry::testing {

pb::GpuSample sample(std::int32_t index, double utilization, const std::string& pod = {}, std::int64_t energy_mj = 0);
pb::SampleFrame frame(const std::string& node, std::int64_t at_s, std::uint64_t sequence,
                      std::vector<pb::GpuSample> gpus);
pb::AgentFact xid_fact(const std::string& id, const std::string& node, std::int32_t xid, std::int32_t gpu = 0);

/// The whole service over a store and a bus in memory, behind a real gRPC server.
struct LittleService {
  struct Options {
    std::string redis;    ///< host:port
    bool threads = true;  ///< false: the test steps the host itself
    std::shared_ptr<store::MemoryDisk> disk = store::make_memory_disk();
    std::shared_ptr<rpc::Access> access = nullptr;
  };
  explicit LittleService(Options options);
  LittleService() : LittleService(Options{}) {}
  ~LittleService();

  /// Publishes like another service.
  void publish(const std::string& topic, const std::string& key, const std::string& payload, bool tombstone = false);
  void order(const std::string& id, const std::vector<std::string>& nodes, std::int64_t deadline_s = 110);
  /// One call, with a deadline.
  pb::QueryResponse query(const pb::QueryRequest& request = {}, grpc::Status* status = nullptr);
  [[nodiscard]] std::size_t verdicts();

  std::shared_ptr<store::MemoryDisk> disk;
  ManualClock clock{from_micros(1'000'000'000'000)};
  metrics::Registry registry;
  AgentHub hub;
  Samples samples{std::chrono::minutes(15), clock};
  std::shared_ptr<bus::Bus> bus;
  std::unique_ptr<service::Host> host;
  std::unique_ptr<RedisMirror> redis;
  std::unique_ptr<Observer> observer;
  std::unique_ptr<grpc::Service> api;
  std::unique_ptr<rpc::Server> server;
  std::unique_ptr<pb::Telemetry::Stub> stub;
  std::map<std::string, std::uint64_t> versions;
};

/// A call with a deadline, so that a test that waits in vain ends.
struct Call : grpc::ClientContext {
  Call() { set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30)); }
};

/// An agent's end of Push; received orders are collected.
class AgentStream {
 public:
  AgentStream(LittleService& service, const std::vector<std::string>& nodes);
  ~AgentStream();
  void send(const pb::AgentFact& fact);
  void send(const pb::SampleFrame& frame);
  [[nodiscard]] std::size_t confirmed(const std::string& fact) const;
  [[nodiscard]] std::size_t ordered(const std::string& order) const;
  grpc::Status end();

 private:
  void write(const pb::AgentMessage& message);
  Call call_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::AgentMessage, pb::AgentOrder>> stream_;
  mutable std::mutex mutex_;
  std::vector<pb::AgentOrder> got_;
  std::jthread reader_;
  bool ended_ = false;
};

}  // namespace qm::telemetry::testing
