#pragma once
#include "qm/cli/run.hpp"
#include "qm/clock/clock.hpp"
#include "qm/rpc/server.hpp"
#include "qm/testing/testing.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "quartermaster/v1/placement_service.grpc.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace qm::cli {

namespace pb = quartermaster::v1;

/// 2026-11-21T10:00:00Z: the time of the fake suite's clock.
inline constexpr std::int64_t kNow = 1'795'255'200'000'000;
inline constexpr std::int64_t kSecond = 1'000'000;

/// Answers of the five services, and the requests that they received. Lists are split into pages of `page`.
struct FakeState {
  std::mutex mutex;
  std::vector<pb::Workload> workloads;
  std::vector<pb::NodeView> nodes;
  std::vector<pb::QueueState> queues;
  std::vector<pb::BudgetState> budgets;
  std::vector<pb::AppliedObject> objects;
  std::vector<pb::InstanceEvent> claims;
  std::vector<pb::GpuReading> readings;
  std::vector<pb::EventLine> events;  ///< sent on each stream, which then stays open
  pb::Explanation explanation;
  pb::Assignment assignment;
  pb::Unschedulable shortfall;  ///< of a dry run
  pb::DryRunRequest tried;
  pb::Gap gap;
  pb::DefragmentationPlan defrag;
  pb::PlanDefragmentationRequest defrag_request;
  std::vector<pb::NodeLayout> layouts;
  pb::OrderLayoutsRequest ordered;  ///< as received
  pb::OrderLayoutsResponse layouts_ordered;
  pb::CapacityPlan plan;
  pb::EvaluateScaleResponse scale;
  pb::EvaluateScaleRequest scale_request;  ///< as received
  pb::ExplainCapacityResponse capacity;
  pb::ExplainCapacityRequest capacity_request;  ///< as received
  pb::SimulateCapacityResponse simulation;
  pb::SimulateCapacityRequest simulation_request;  ///< as received
  pb::Statement statement;
  std::vector<pb::Price> prices;
  int page = 2;
  Status fails;                        ///< the answer to each unary call instead, if it is an error
  std::atomic<int> away = 0;           ///< this number of mutations is applied and answered kUnavailable
  std::atomic<int> break_streams = 0;  ///< this number of streams ends after their events
  std::atomic<int> pages = 0, streams = 0;

  std::vector<pb::SubmitRequest> submitted;
  std::vector<pb::ApplyRequest> applied;
  std::vector<pb::CancelRequest> cancelled;
  std::vector<pb::SetActiveRequest> activated;
  std::vector<pb::AnswerCheckRequest> answered;
  pb::ListWorkloadsRequest listed;
  pb::FollowEventsRequest followed;
};

/// The five services on one port, with an endpoints file and a clock that is fixed at kNow.
class FakeSuite {
 public:
  FakeSuite();
  ~FakeSuite();

  FakeState state;
  [[nodiscard]] std::string endpoints() const { return dir_.path() + "/endpoints.json"; }
  [[nodiscard]] std::string file(const std::string& name,
                                 const std::string& text) const;  ///< its path
  void stop();
  void start();  ///< starts again, on the same port

 private:
  std::string address_ = "127.0.0.1:0";
  testing::TempDir dir_;
  std::unique_ptr<ScaledClockWriter> clock_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<rpc::Server> server_;
};

struct Ran {
  int code = 0;
  std::string out, err;
};
/// qmctl with the suite's endpoints in front of the arguments.
Ran qmctl(const FakeSuite& suite, std::vector<std::string> args, const std::string& in = {});
/// qmctl with exactly these arguments.
Ran qmctl(const std::vector<std::string>& args, const std::string& in = {});

/// Fills the state with a small fleet: one running gang, one pending, one finished.
void populate(FakeState& state);

}  // namespace qm::cli
