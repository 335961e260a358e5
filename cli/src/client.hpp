#pragma once
#include "endpoints.hpp"
#include "quartermaster/v1/admission_service.pb.h"
#include "quartermaster/v1/capacity_service.pb.h"
#include "quartermaster/v1/cost_service.pb.h"
#include "quartermaster/v1/placement_service.pb.h"
#include "quartermaster/v1/telemetry_service.pb.h"

#include <functional>
#include <iosfwd>
#include <memory>
#include <stop_token>

namespace qm::cli {

namespace pb = quartermaster::v1;

struct ClientOptions {
  Endpoints endpoints;
  SteadyDuration timeout = std::chrono::seconds(10);  ///< of all calls together
  std::stop_token stop;
  std::ostream* notes = nullptr;  ///< receives one line when a service is unavailable and is retried
  Security security = {};
};

/// The calls that qmctl makes, on channels opened when first needed.
///
/// Retries  while the service is unavailable (kUnavailable), with the same request and therefore the same request id,
///          until the timeout is used up. A refusal is returned at once.
/// Lists    are read to their last page and returned as one message without a page token.
/// Threads  one.
/// Fails    kInvalid: the endpoints file names no such service. kUnavailable, kDeadlineExceeded: no answer arrived
///          within the timeout; a mutation may have been applied. Any other error is the service's own refusal.
class Client {
 public:
  explicit Client(ClientOptions options);
  ~Client();

  Result<pb::SubmitResponse> submit(const pb::SubmitRequest& request);
  Result<pb::ApplyResponse> apply(const pb::ApplyRequest& request);
  Result<pb::CancelResponse> cancel(const pb::CancelRequest& request);
  Result<pb::ChangeResponse> set_active(const pb::SetActiveRequest& request);
  Result<pb::ChangeResponse> answer_check(const pb::AnswerCheckRequest& request);
  Result<pb::ListObjectsResponse> objects(const pb::ListObjectsRequest& request);
  Result<pb::Workload> workload(const pb::GetWorkloadRequest& request);
  Result<pb::WhatIfResponse> what_if(const pb::WhatIfRequest& request);
  Result<pb::WhenResponse> when(const pb::WhenRequest& request);
  Result<pb::Explanation> explain(const pb::ExplainRequest& request);
  Result<pb::ListWorkloadsResponse> workloads(const pb::ListWorkloadsRequest& request);
  Result<pb::ListQueuesResponse> queues(const pb::ListQueuesRequest& request);
  Result<pb::ListBudgetsResponse> budgets(const pb::ListBudgetsRequest& request);
  Result<pb::Assignment> assignment(const pb::GetAssignmentRequest& request);
  Result<pb::DryRunResponse> dry_run(const pb::DryRunRequest& request);
  Result<pb::Gap> gap();
  Result<pb::DefragmentationPlan> plan_defragmentation(const pb::PlanDefragmentationRequest& request);
  Result<pb::OrderLayoutsResponse> order_layouts(const pb::OrderLayoutsRequest& request);
  Result<pb::ListLayoutsResponse> layouts();
  Result<pb::ListNodesResponse> nodes(const pb::ListNodesRequest& request);
  Result<pb::ListClaimsResponse> claims(const pb::ListClaimsRequest& request);
  Result<pb::CapacityPlan> plan(const pb::GetPlanRequest& request);
  Result<pb::ExplainCapacityResponse> explain_capacity(const pb::ExplainCapacityRequest& request);
  Result<pb::SimulateCapacityResponse> simulate_capacity(const pb::SimulateCapacityRequest& request);
  Result<pb::EvaluateScaleResponse> scale(const pb::EvaluateScaleRequest& request);
  Result<pb::QueryResponse> readings(const pb::QueryRequest& request);
  Result<pb::Statement> statement(const pb::GetStatementRequest& request);
  Result<pb::ListPricesResponse> prices(const pb::ListPricesRequest& request);

  /// Passes events to `line` until it returns false or a stop is requested. A broken stream is opened again, with a
  /// note that events may be missing; kUnavailable if that failed within the timeout.
  Status follow(const pb::FollowEventsRequest& request, const std::function<bool(const pb::EventLine&)>& line);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::cli
