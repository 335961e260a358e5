#include "qm/autoscaler/api.hpp"

#include "qm/autoscaler/what_if.hpp"
#include "qm/rpc/feed_stream.hpp"
#include "qm/rpc/server.hpp"
#include "qm/rpc/worker.hpp"
#include "quartermaster/v1/capacity_service.grpc.pb.h"
#include "rows.hpp"

#include <optional>

namespace qm::autoscaler {
namespace {

namespace pb = quartermaster::v1;

constexpr int kDefaultPage = 100, kLargestPage = 1000;
constexpr std::size_t kMostBehind = 4096;  // a reader with a larger backlog resumes by version

/// The intent in a capacity event: the launch of a claim until its termination is requested, then its termination.
std::optional<pb::IntentUpdate> intent_update(const service::FeedEvent& e) {
  pb::CapacityEvent event;
  if (e.topic != "qm.capacity" || e.tombstone || !event.ParseFromString(e.payload) || !event.has_instance())
    return std::nullopt;
  const auto& i = event.instance();
  const bool ends = is_terminating(i) || i.stopped_us() > 0;
  pb::IntentUpdate update;
  update.set_resume_version(e.sequence);
  update.set_intent_id(i.claim());
  update.set_kind(ends ? "terminate" : "launch");
  update.set_target(i.instance_id().empty() ? i.instance_type() : i.instance_id());
  const bool open = ends ? i.stopped_us() == 0 : i.state() == pb::INSTANCE_REQUESTED;
  update.set_outcome(open ? "" : i.state() == pb::INSTANCE_FAILED ? i.reason() : "ok");
  update.set_at_us(micros(e.occurred));
  return update;
}

class Api final : public pb::Capacity::CallbackService {
 public:
  Api(service::Host& host, const DomainClock& clock) : host_(host), clock_(clock) {}

  grpc::ServerUnaryReactor* GetPlan(grpc::CallbackServerContext* context, const pb::GetPlanRequest* request,
                                    pb::CapacityPlan* out) override {
    const auto caller = rpc::caller_of(*context);
    return rpc::answer(host_, context, *request, [this, out, caller](const service::Shell& shell) -> qm::Status {
      *out = plan_for(engine_of(shell), clock_.now(), caller);
      return {};
    });
  }

  grpc::ServerUnaryReactor* EvaluateScale(grpc::CallbackServerContext* context, const pb::EvaluateScaleRequest* request,
                                          pb::EvaluateScaleResponse* out) override {
    const auto caller = rpc::caller_of(*context);
    return rpc::answer(host_, context, *request,
                       [this, request, out, caller](const service::Shell& shell) -> qm::Status {
                         *out = scale_for(engine_of(shell), clock_.now(), *request, caller);
                         if (out->targets().empty() && !request->name().empty()) {
                           return fail(Code::kNotFound,
                                       "no HorizontalPodAutoscaler or ScaledObject has the name {} or "
                                       "this target; qmctl scale eval lists all",
                                       request->name());
                         }
                         return {};
                       });
  }

  // Both search on the worker, over a copy of the rows.
  grpc::ServerUnaryReactor* ExplainCapacity(grpc::CallbackServerContext* context,
                                            const pb::ExplainCapacityRequest* request,
                                            pb::ExplainCapacityResponse* out) override {
    return on_copy(context, request, out, explanation_for);
  }

  grpc::ServerUnaryReactor* SimulateCapacity(grpc::CallbackServerContext* context,
                                             const pb::SimulateCapacityRequest* request,
                                             pb::SimulateCapacityResponse* out) override {
    return on_copy(context, request, out, simulation_for);
  }

  grpc::ServerUnaryReactor* ListClaims(grpc::CallbackServerContext* context, const pb::ListClaimsRequest* request,
                                       pb::ListClaimsResponse* out) override {
    const auto caller = rpc::caller_of(*context);
    return rpc::answer(host_, context, *request, [request, out, caller](const service::Shell& shell) -> qm::Status {
      const Engine& engine = engine_of(shell);
      QM_ASSIGN(const auto size, rpc::page_size(request->page_size(), kDefaultPage, kLargestPage));
      std::int64_t total = 0;
      for (const auto& [name, c] : engine.tables().claims) {
        auto row = claim_for(name, c, engine, caller);
        if (request->state() != pb::INSTANCE_STATE_UNSPECIFIED && row.state() != request->state()) continue;
        ++total;
        if (name.value() <= request->page_token()) continue;
        if (static_cast<std::size_t>(out->claims_size()) < size) {
          *out->add_claims() = std::move(row);
        } else if (out->next_page_token().empty()) {
          out->set_next_page_token(out->claims(out->claims_size() - 1).claim());
        }
      }
      out->set_total(total);
      return {};
    });
  }

  grpc::ServerWriteReactor<pb::IntentUpdate>* WatchIntents(grpc::CallbackServerContext*,
                                                           const pb::WatchIntentsRequest* request) override {
    return new rpc::FeedStream<pb::IntentUpdate>(host_, request->resume_version(), kMostBehind, intent_update);
  }

  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const pb::SnapshotRequest* request,
                                     pb::SnapshotResponse* out) override {
    return worker_.answer_snapshot(host_, context, request, out);
  }

 private:
  template <class Request, class Response, class Fn>
  grpc::ServerUnaryReactor* on_copy(grpc::CallbackServerContext* context, const Request* request, Response* out,
                                    Fn answer) {
    const auto caller = rpc::caller_of(*context);
    return worker_.answer(context, *request, [this, request, out, caller, answer]() -> qm::Status {
      QM_TRY(host_.can_answer());
      std::unique_ptr<Engine> copy;
      host_.read([&](const service::Shell& shell) { copy = copy_of(engine_of(shell)); });
      QM_ASSIGN(*out, answer(*copy, clock_.now(), *request, caller));
      return {};
    });
  }

  service::Host& host_;
  const DomainClock& clock_;
  rpc::Worker worker_;
};

}  // namespace

pb::InstanceEvent claim_for(const ClaimName& name, const Claim& claim, const Engine& engine,
                            const rpc::Caller& caller) {
  auto out = instance_event(name, claim, engine);
  const bool named = claim.for_uid.empty() || caller.sees(engine.namespace_of(claim.for_uid));
  // With the engine's name of the state.
  out.set_reason(
      fmt::format("{}: {}", name_of(claim.state), named ? claim.reason : "for a workload of another tenant"));
  return out;
}

pb::CapacityPlan plan_for(const Engine& engine, Instant now, const rpc::Caller& caller) {
  pb::CapacityPlan out;
  out.set_as_of_us(micros(now));
  for (const auto& [uid, item] : engine.tables().demand) {
    if (!caller.sees(engine.namespace_of(uid))) continue;
    auto* d = out.mutable_demand()->add_items();
    d->set_uid(uid.value());
    d->set_attempt(item.id.attempt);
    d->set_priority(item.priority);
    d->set_since_us(micros(item.since));
    d->set_runs(item.runs);
  }
  for (const auto& [name, claim] : engine.tables().claims) {
    const bool launching = claim.state == ClaimState::kRequested || claim.state == ClaimState::kLaunched;
    const bool own = !claim.for_uid.empty() && caller.sees(engine.namespace_of(claim.for_uid));
    if (launching && (caller.everything || own)) *out.add_requested() = claim_for(name, claim, engine, caller);
  }
  const Sees sees = [&](const std::string& ns) { return caller.sees(ns); };
  for (auto& line : engine.explain(now, SIZE_MAX, caller.everything ? Sees() : sees))
    out.add_explanations(std::move(line));
  return out;
}

std::unique_ptr<grpc::Service> make_api(service::Host& host, const DomainClock& clock) {
  return std::make_unique<Api>(host, clock);
}

}  // namespace qm::autoscaler
