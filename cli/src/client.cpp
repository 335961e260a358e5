#include "client.hpp"

#include "qm/rpc/security.hpp"
#include "qm/rpc/server.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "quartermaster/v1/placement_service.grpc.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <ostream>

namespace qm::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::seconds(1);
constexpr int kPage = 1000;  // the largest page that every service accepts

/// gRPC requires deadlines on the system clock.
std::chrono::system_clock::time_point wall(Clock::time_point at) {
  return std::chrono::system_clock::now() + std::max(Clock::duration::zero(), at - Clock::now());
}

Error stopped(const std::string& call) { return {Code::kCancelled, call + ": interrupted", {}, {}}; }

}  // namespace

struct Client::Impl {
  explicit Impl(ClientOptions o) : options(std::move(o)), deadline(Clock::now() + options.timeout) {
    const auto& given = options.security;
    security.tls = {given.certificate, given.key, given.ca};
    security.server_name = given.server_name;
    security.token = given.token;
    security.token_file = given.token_file;
    security.insecure = given.insecure;
  }

  ClientOptions options;
  Clock::time_point deadline;
  rpc::ClientSecurity security;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  bool noted = false;

  Result<std::shared_ptr<grpc::Channel>> channel(const std::string& service) {
    auto& known = channels[service];
    if (known) return known;
    QM_ASSIGN(const auto address, options.endpoints.address(service));
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    // The timeout of one connection attempt: TCP, TLS and HTTP/2 take several round trips.
    args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);
    args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
    args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // only this client retries, because its retries respect --timeout
    QM_ASSIGN(known, rpc::open_channel(address, security, args));
    return known;
  }

  void note(const std::string& service, const std::string& what) {
    if (options.notes == nullptr || noted) return;
    noted = true;
    *options.notes << fmt::format("qmctl: {} at {} {}\n", service, options.endpoints.services[service], what);
  }

  /// False if the time is used up or a stop was requested meanwhile.
  bool pause(Clock::duration how_long, Clock::time_point until) const {
    const auto end = std::min(Clock::now() + how_long, until);
    std::mutex mutex;
    std::condition_variable_any woken;
    std::unique_lock lock(mutex);
    woken.wait_until(lock, options.stop, end, [] { return false; });
    return !options.stop.stop_requested() && Clock::now() < until;
  }

  /// The note contains the address; gRPC's text repeats it, and reports twice that the connection failed.
  Error away(Error error, const std::string& service, const std::string& name) const {
    constexpr std::string_view kNoConnection = "failed to connect to all addresses";
    if (!error.remedy.empty()) return error;  // the service's own remedy
    const auto message = error.message.starts_with(name + ": ") ? error.message.substr(name.size() + 2) : error.message;
    if (message.find(kNoConnection) != std::string::npos) {
      error.message =
          fmt::format("{}: no connection to {}: {}", name, service, message.substr(message.rfind(": ") + 2));
    } else if (message.find(service) == std::string::npos) {
      error.message = fmt::format("{}: {} at {}: {}", name, service, options.endpoints.services.at(service),
                                  error.code == Code::kDeadlineExceeded ? "no answer in time" : message);
    }
    error.remedy =
        fmt::format("start the service, correct its address in {}, or increase --timeout", options.endpoints.file);
    return error;
  }

  template <class Service, class Request, class Response>
  Result<Response> call(const std::string& service, const std::string& name,
                        grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                        const Request& request) {
    QM_ASSIGN(const auto open, channel(service));
    const auto stub = Service::NewStub(open);
    std::optional<Error> refusal;  // the last refusal; a deadline error is less specific
    for (Clock::duration wait = kFirstPause;; wait = std::min<Clock::duration>(2 * wait, kLongestPause)) {
      grpc::ClientContext context;
      QM_TRY(rpc::add_token(context, security));
      context.set_deadline(wall(deadline));
      Response response;
      grpc::Status status;
      {
        const std::stop_callback on_stop(options.stop, [&context] { context.TryCancel(); });
        status = (stub.get()->*method)(&context, request, &response);
      }
      if (status.ok()) return response;
      if (options.stop.stop_requested()) return fail(stopped(name));
      auto error = rpc::from_grpc(status, name);
      if (error.code == Code::kDeadlineExceeded)
        return fail(away(refusal ? *std::move(refusal) : std::move(error), service, name));
      if (error.code != Code::kUnavailable) return fail(std::move(error));
      note(service, "is not available; retrying until --timeout");
      if (!pause(wait, deadline)) {
        if (options.stop.stop_requested()) return fail(stopped(name));
        return fail(away(std::move(error), service, name));
      }
      refusal = std::move(error);
      // gRPC does not drive a connection while no call is active, and gives up an incomplete one after a second.
      (void)open->WaitForConnected(wall(std::min(deadline, Clock::now() + kLongestPause)));
    }
  }

  template <class Service, class Request, class Response>
  Result<Response> call_pages(const std::string& service, const std::string& name,
                              grpc::Status (Service::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              Request request) {
    request.set_page_size(kPage);
    Response all;
    for (;;) {
      QM_ASSIGN(const Response page, (call<Service, Request, Response>(service, name, method, request)));
      all.MergeFrom(page);
      if (page.next_page_token().empty()) break;
      if (page.next_page_token() == request.page_token())
        return fail(Code::kInternal, "{}: {} returns the page after \"{}\" repeatedly", name, service,
                    request.page_token());
      request.set_page_token(page.next_page_token());
    }
    all.clear_next_page_token();
    return all;
  }
};

Client::Client(ClientOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Client::~Client() = default;

Result<pb::SubmitResponse> Client::submit(const pb::SubmitRequest& r) {
  return impl_->call<pb::Admission>("admission", "submit", &pb::Admission::Stub::Submit, r);
}
Result<pb::ApplyResponse> Client::apply(const pb::ApplyRequest& r) {
  return impl_->call<pb::Admission>("admission", "apply", &pb::Admission::Stub::Apply, r);
}
Result<pb::CancelResponse> Client::cancel(const pb::CancelRequest& r) {
  return impl_->call<pb::Admission>("admission", "cancel", &pb::Admission::Stub::Cancel, r);
}
Result<pb::ChangeResponse> Client::set_active(const pb::SetActiveRequest& r) {
  return impl_->call<pb::Admission>("admission", r.active() ? "resume" : "stop", &pb::Admission::Stub::SetActive, r);
}
Result<pb::ChangeResponse> Client::answer_check(const pb::AnswerCheckRequest& r) {
  return impl_->call<pb::Admission>("admission", "check answer", &pb::Admission::Stub::AnswerCheck, r);
}
Result<pb::ListObjectsResponse> Client::objects(const pb::ListObjectsRequest& r) {
  return impl_->call_pages<pb::Admission>("admission", "show", &pb::Admission::Stub::ListObjects, r);
}
Result<pb::Workload> Client::workload(const pb::GetWorkloadRequest& r) {
  return impl_->call<pb::Admission>("admission", "get", &pb::Admission::Stub::Get, r);
}
Result<pb::Explanation> Client::explain(const pb::ExplainRequest& r) {
  return impl_->call<pb::Admission>("admission", "why", &pb::Admission::Stub::Explain, r);
}
Result<pb::WhenResponse> Client::when(const pb::WhenRequest& r) {
  return impl_->call<pb::Admission>("admission", "when", &pb::Admission::Stub::When, r);
}
Result<pb::WhatIfResponse> Client::what_if(const pb::WhatIfRequest& r) {
  return impl_->call<pb::Admission>("admission", "what-if", &pb::Admission::Stub::WhatIf, r);
}
Result<pb::ListWorkloadsResponse> Client::workloads(const pb::ListWorkloadsRequest& r) {
  return impl_->call_pages<pb::Admission>("admission", "list", &pb::Admission::Stub::List, r);
}
Result<pb::ListQueuesResponse> Client::queues(const pb::ListQueuesRequest& r) {
  return impl_->call_pages<pb::Admission>("admission", "queues", &pb::Admission::Stub::ListQueues, r);
}
Result<pb::ListBudgetsResponse> Client::budgets(const pb::ListBudgetsRequest& r) {
  return impl_->call_pages<pb::Admission>("admission", "budget", &pb::Admission::Stub::ListBudgets, r);
}
Result<pb::DryRunResponse> Client::dry_run(const pb::DryRunRequest& r) {
  return impl_->call<pb::Placement>("placement", "placement", &pb::Placement::Stub::DryRun, r);
}
Result<pb::Assignment> Client::assignment(const pb::GetAssignmentRequest& r) {
  return impl_->call<pb::Placement>("placement", "placement", &pb::Placement::Stub::Get, r);
}
Result<pb::Gap> Client::gap() {
  return impl_->call<pb::Placement>("placement", "cluster gap", &pb::Placement::Stub::GetGap, pb::GetGapRequest());
}
Result<pb::OrderLayoutsResponse> Client::order_layouts(const pb::OrderLayoutsRequest& r) {
  return impl_->call<pb::Placement>("placement", "layouts", &pb::Placement::Stub::OrderLayouts, r);
}
Result<pb::ListLayoutsResponse> Client::layouts() {
  return impl_->call_pages<pb::Placement>("placement", "layouts", &pb::Placement::Stub::ListLayouts,
                                          pb::ListLayoutsRequest());
}
Result<pb::DefragmentationPlan> Client::plan_defragmentation(const pb::PlanDefragmentationRequest& r) {
  return impl_->call<pb::Placement>("placement", "defrag plan", &pb::Placement::Stub::PlanDefragmentation, r);
}
Result<pb::ListNodesResponse> Client::nodes(const pb::ListNodesRequest& r) {
  return impl_->call_pages<pb::Placement>("placement", "nodes", &pb::Placement::Stub::ListNodes, r);
}
Result<pb::ListClaimsResponse> Client::claims(const pb::ListClaimsRequest& r) {
  return impl_->call_pages<pb::Capacity>("autoscaler", "claims", &pb::Capacity::Stub::ListClaims, r);
}
Result<pb::CapacityPlan> Client::plan(const pb::GetPlanRequest& r) {
  return impl_->call<pb::Capacity>("autoscaler", "plan", &pb::Capacity::Stub::GetPlan, r);
}
Result<pb::ExplainCapacityResponse> Client::explain_capacity(const pb::ExplainCapacityRequest& r) {
  return impl_->call<pb::Capacity>("autoscaler", "capacity why", &pb::Capacity::Stub::ExplainCapacity, r);
}
Result<pb::SimulateCapacityResponse> Client::simulate_capacity(const pb::SimulateCapacityRequest& r) {
  return impl_->call<pb::Capacity>("autoscaler", "capacity plan", &pb::Capacity::Stub::SimulateCapacity, r);
}
Result<pb::EvaluateScaleResponse> Client::scale(const pb::EvaluateScaleRequest& r) {
  return impl_->call<pb::Capacity>("autoscaler", "scale eval", &pb::Capacity::Stub::EvaluateScale, r);
}
Result<pb::QueryResponse> Client::readings(const pb::QueryRequest& r) {
  return impl_->call_pages<pb::Telemetry>("telemetry", "top", &pb::Telemetry::Stub::Query, r);
}
Result<pb::Statement> Client::statement(const pb::GetStatementRequest& r) {
  return impl_->call<pb::Cost>("cost", "report", &pb::Cost::Stub::GetStatement, r);
}
Result<pb::ListPricesResponse> Client::prices(const pb::ListPricesRequest& r) {
  return impl_->call<pb::Cost>("cost", "prices", &pb::Cost::Stub::ListPrices, r);
}

Status Client::follow(const pb::FollowEventsRequest& request, const std::function<bool(const pb::EventLine&)>& line) {
  const std::string service = "telemetry", name = "events";
  QM_ASSIGN(const auto channel, impl_->channel(service));
  const auto stub = pb::Telemetry::NewStub(channel);
  auto& stop = impl_->options.stop;
  Clock::time_point until = impl_->deadline;
  for (Clock::duration wait = kFirstPause;; wait = std::min<Clock::duration>(2 * wait, kLongestPause)) {
    // A stream without events does not show that it is open, so the time limit applies to the connection.
    while (!channel->WaitForConnected(wall(std::min(until, Clock::now() + kFirstPause)))) {
      if (stop.stop_requested()) return {};
      if (Clock::now() < until) {
        impl_->note(service, "is not available; retrying until --timeout");
        continue;
      }
      return fail(impl_->away({Code::kUnavailable, fmt::format("{}: no connection to {}", name, service), {}, {}},
                              service, name));
    }
    const auto opened = Clock::now();
    grpc::ClientContext context;
    QM_TRY(rpc::add_token(context, impl_->security));
    const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
    const auto stream = stub->FollowEvents(&context, request);
    pb::EventLine event;
    bool any = false;
    while (stream->Read(&event)) {
      any = true;
      if (line(event)) continue;
      context.TryCancel();
      (void)stream->Finish();
      return {};
    }
    const auto status = stream->Finish();
    if (stop.stop_requested()) return {};
    auto error = rpc::from_grpc(status, name);
    const bool again = status.ok() || error.code == Code::kUnavailable || error.code == Code::kExhausted;
    if (!again) return fail(std::move(error));
    if (any || Clock::now() - opened > kLongestPause) {
      // The stream worked: the time limit starts again. A stream that ends right after it is opened keeps the first
      // limit.
      until = Clock::now() + impl_->options.timeout;
      wait = kFirstPause;
      impl_->noted = false;
    }
    impl_->note(service, "closed the stream; reopening it, events may be missing");
    if (!impl_->pause(wait, until)) {
      if (stop.stop_requested()) return {};
      return fail(impl_->away(
          {Code::kUnavailable, name + ": " + (status.ok() ? "the stream ended" : status.error_message()), {}, {}},
          service, name));
    }
  }
}

}  // namespace qm::cli
