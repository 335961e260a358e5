#include "fake_suite.hpp"

#include "qm/base/assert.hpp"
#include "qm/config/manifest.hpp"

#include <fstream>
#include <map>
#include <sstream>

namespace qm::cli {
namespace {

/// The page after the token, which is the index of its first item.
template <class Item, class Add, class Response>
void page_of(FakeState& state, const std::vector<Item>& items, const std::string& token, int asked, Add add,
             Response& response) {
  ++state.pages;
  std::size_t i = token.empty() ? 0 : std::stoul(token);
  const auto end = std::min(items.size(), i + static_cast<std::size_t>(std::min(asked, state.page)));
  for (; i < end; ++i) *add() = items[i];
  if (i < items.size()) response.set_next_page_token(std::to_string(i));
}

/// Runs under the state's lock unless the suite is set to fail.
template <class Fn>
grpc::Status with(FakeState& state, Fn fn) {
  const std::lock_guard lock(state.mutex);
  if (!state.fails) return rpc::to_grpc(state.fails.error());
  const Status done = fn();
  return done ? grpc::Status::OK : rpc::to_grpc(done.error());
}

/// A mutation: applied once for each request id, as the real service does; its answer may be lost.
template <class Fn>
grpc::Status mutate(FakeState& state, Fn fn) {
  return with(state, [&]() -> Status {
    QM_TRY(fn());
    if (state.away > 0) {
      --state.away;
      return fail(Code::kUnavailable, "the answer is lost");
    }
    return {};
  });
}

class FakeAdmission final : public pb::Admission::Service {
 public:
  explicit FakeAdmission(FakeState& state) : state_(state) {}
  grpc::Status Submit(grpc::ServerContext*, const pb::SubmitRequest* q, pb::SubmitResponse* a) override {
    return mutate(state_, [&]() -> Status {
      state_.submitted.push_back(*q);
      a->set_kind("Job");
      a->set_namespace_(q->has_spec() ? q->spec().namespace_() : "vision");
      a->set_name(q->has_spec() ? q->spec().name() : "finetune");
      return {};
    });
  }
  grpc::Status Apply(grpc::ServerContext*, const pb::ApplyRequest* q, pb::ApplyResponse* a) override {
    return mutate(state_, [&]() -> Status {
      state_.applied.push_back(*q);
      // Parsed as admission parses it, so that an invalid file is refused with the real message.
      const auto loaded = config::load_text(q->manifest(), q->source());
      QM_TRY(config::accept(loaded));
      for (const auto& d : loaded.diagnostics) a->add_warnings(d.to_string());
      for (const auto& o : loaded.objects) {
        const auto name = o.document.kind + "/" + o.document.name;
        if (o.document.kind == "ConfigMap") {
          a->add_warnings(name + " is not applied; create it with kubectl apply -f " + q->source());
        } else {
          a->add_applied(name);
        }
      }
      return {};
    });
  }
  grpc::Status Cancel(grpc::ServerContext*, const pb::CancelRequest* q, pb::CancelResponse* a) override {
    return mutate(state_, [&]() -> Status {
      state_.cancelled.push_back(*q);
      QM_ASSIGN(const auto* found, find(q->namespace_(), q->name()));
      a->set_phase(found->state().phase() == pb::PENDING ? pb::CANCELLED : pb::EVICTING);
      return {};
    });
  }
  grpc::Status SetActive(grpc::ServerContext*, const pb::SetActiveRequest* q, pb::ChangeResponse* a) override {
    return mutate(state_, [&]() -> Status {
      state_.activated.push_back(*q);
      QM_ASSIGN(const auto* found, find(q->namespace_(), q->name()));
      a->set_phase(found->state().phase());
      return {};
    });
  }
  grpc::Status AnswerCheck(grpc::ServerContext*, const pb::AnswerCheckRequest* q, pb::ChangeResponse* a) override {
    return mutate(state_, [&]() -> Status {
      state_.answered.push_back(*q);
      QM_ASSIGN(const auto* found, find(q->namespace_(), q->name()));
      a->set_phase(found->state().phase());
      return {};
    });
  }
  grpc::Status ListObjects(grpc::ServerContext*, const pb::ListObjectsRequest* q, pb::ListObjectsResponse* a) override {
    return with(state_, [&]() -> Status {
      std::vector<pb::AppliedObject> found;
      for (const auto& object : state_.objects) {
        if ((q->kind().empty() || object.kind() == q->kind()) && (q->name().empty() || object.name() == q->name())) {
          found.push_back(object);
        }
      }
      page_of(
          state_, found, q->page_token(), q->page_size(), [&] { return a->add_objects(); }, *a);
      return {};
    });
  }
  grpc::Status Get(grpc::ServerContext*, const pb::GetWorkloadRequest* q, pb::Workload* a) override {
    return with(state_, [&]() -> Status {
      QM_ASSIGN(const auto* found, find(q->namespace_(), q->name()));
      *a = *found;
      return {};
    });
  }
  grpc::Status List(grpc::ServerContext*, const pb::ListWorkloadsRequest* q, pb::ListWorkloadsResponse* a) override {
    return with(state_, [&]() -> Status {
      state_.listed = *q;
      a->set_total(static_cast<std::int64_t>(state_.workloads.size()));
      page_of(
          state_, state_.workloads, q->page_token(), q->page_size(), [&] { return a->add_workloads(); }, *a);
      return {};
    });
  }
  grpc::Status Explain(grpc::ServerContext*, const pb::ExplainRequest* q, pb::Explanation* a) override {
    return with(state_, [&]() -> Status {
      QM_TRY(find(q->namespace_(), q->name()));
      if (q->namespace_() == "nlp") {
        a->set_uid("u-1");
        a->set_summary("nlp/pretrain runs");
        return {};
      }
      *a = state_.explanation;
      return {};
    });
  }
  grpc::Status When(grpc::ServerContext*, const pb::WhenRequest* q, pb::WhenResponse* a) override {
    return with(state_, [&]() -> Status {
      QM_TRY(find(q->namespace_(), q->name()));
      const std::string who = q->namespace_() + "/" + q->name();
      a->set_now_us(1'763'716'469'000'000);
      if (q->namespace_() == "nlp") {
        a->mutable_unknown()->set_code("AlreadyAdmitted");
        a->mutable_unknown()->set_message("it has started");
        a->set_summary(who + ": no forecast: it has started");
        return {};
      }
      a->set_summary(who + " starts between 2025-11-21T09:44:29Z and 2025-11-21T13:14:30Z with 80 %");
      a->set_p10_us(a->now_us() + 1'800'000'000);
      a->set_p50_us(a->now_us() + 7'200'000'000);
      a->set_p90_us(a->now_us() + 14'400'500'000);
      a->set_futures(32);
      a->set_started(31);
      auto& end = *a->add_waits_for();
      end.set_workload("vision/before");
      end.set_futures(20);
      a->set_hidden(2);
      a->set_run_times(117.6);
      a->set_run_times_of("team vision, 8 gpu, finetune");
      a->set_declared_us(3'600'000'000);
      return {};
    });
  }
  grpc::Status WhatIf(grpc::ServerContext*, const pb::WhatIfRequest* q, pb::WhatIfResponse* a) override {
    return with(state_, [&]() -> Status {
      if (q->deleted_size() == 0) return {};
      auto& one = *a->add_consequences();
      one.set_what("displaced");
      one.set_namespace_("vision");
      one.set_name("finetune");
      one.set_queue("vision");
      one.set_after(2);
      one.set_why(q->deleted(0) + " would be gone");
      a->set_hidden(3);
      return {};
    });
  }
  grpc::Status ListQueues(grpc::ServerContext*, const pb::ListQueuesRequest* q, pb::ListQueuesResponse* a) override {
    return with(state_, [&]() -> Status {
      page_of(
          state_, state_.queues, q->page_token(), q->page_size(), [&] { return a->add_queues(); }, *a);
      return {};
    });
  }
  grpc::Status ListBudgets(grpc::ServerContext*, const pb::ListBudgetsRequest* q, pb::ListBudgetsResponse* a) override {
    return with(state_, [&]() -> Status {
      page_of(
          state_, state_.budgets, q->page_token(), q->page_size(), [&] { return a->add_budgets(); }, *a);
      return {};
    });
  }

 private:
  Result<const pb::Workload*> find(const std::string& ns, const std::string& name) {
    for (const auto& w : state_.workloads) {
      if (w.state().spec().namespace_() == ns && w.state().spec().name() == name) return &w;
    }
    return fail({Code::kNotFound, fmt::format("workload {}/{} is not known", ns, name), "name",
                 "list the workloads of the namespace"});
  }
  FakeState& state_;
};

class FakePlacement final : public pb::Placement::Service {
 public:
  explicit FakePlacement(FakeState& state) : state_(state) {}
  grpc::Status Get(grpc::ServerContext*, const pb::GetAssignmentRequest* q, pb::Assignment* a) override {
    return with(state_, [&]() -> Status {
      if (q->uid() != state_.assignment.state().uid()) return fail(Code::kNotFound, "placement has no answer");
      *a = state_.assignment;
      return {};
    });
  }
  grpc::Status DryRun(grpc::ServerContext*, const pb::DryRunRequest* q, pb::DryRunResponse* a) override {
    return with(state_, [&]() -> Status {
      state_.tried = *q;
      *a->mutable_shortfall() = state_.shortfall;
      a->set_fits(a->shortfall().conflict().empty());
      return {};
    });
  }
  grpc::Status GetGap(grpc::ServerContext*, const pb::GetGapRequest*, pb::Gap* a) override {
    return with(state_, [&]() -> Status {
      *a = state_.gap;
      return {};
    });
  }
  grpc::Status OrderLayouts(grpc::ServerContext*, const pb::OrderLayoutsRequest* q,
                            pb::OrderLayoutsResponse* a) override {
    return with(state_, [&]() -> Status {
      state_.ordered = *q;
      *a = state_.layouts_ordered;
      return {};
    });
  }
  grpc::Status ListLayouts(grpc::ServerContext*, const pb::ListLayoutsRequest* q, pb::ListLayoutsResponse* a) override {
    return with(state_, [&]() -> Status {
      page_of(
          state_, state_.layouts, q->page_token(), q->page_size(), [&] { return a->add_nodes(); }, *a);
      return {};
    });
  }
  grpc::Status PlanDefragmentation(grpc::ServerContext*, const pb::PlanDefragmentationRequest* q,
                                   pb::DefragmentationPlan* a) override {
    return with(state_, [&]() -> Status {
      state_.defrag_request = *q;
      *a = state_.defrag;
      return {};
    });
  }
  grpc::Status ListNodes(grpc::ServerContext*, const pb::ListNodesRequest* q, pb::ListNodesResponse* a) override {
    return with(state_, [&]() -> Status {
      page_of(
          state_, state_.nodes, q->page_token(), q->page_size(), [&] { return a->add_nodes(); }, *a);
      return {};
    });
  }

 private:
  FakeState& state_;
};

class FakeCapacity final : public pb::Capacity::Service {
 public:
  explicit FakeCapacity(FakeState& state) : state_(state) {}
  grpc::Status GetPlan(grpc::ServerContext*, const pb::GetPlanRequest*, pb::CapacityPlan* a) override {
    return with(state_, [&]() -> Status {
      *a = state_.plan;
      return {};
    });
  }
  grpc::Status EvaluateScale(grpc::ServerContext*, const pb::EvaluateScaleRequest* q,
                             pb::EvaluateScaleResponse* a) override {
    return with(state_, [&]() -> Status {
      state_.scale_request = *q;
      *a = state_.scale;
      return {};
    });
  }
  grpc::Status ExplainCapacity(grpc::ServerContext*, const pb::ExplainCapacityRequest* q,
                               pb::ExplainCapacityResponse* a) override {
    return with(state_, [&]() -> Status {
      state_.capacity_request = *q;
      *a = state_.capacity;
      return {};
    });
  }
  grpc::Status SimulateCapacity(grpc::ServerContext*, const pb::SimulateCapacityRequest* q,
                                pb::SimulateCapacityResponse* a) override {
    return with(state_, [&]() -> Status {
      state_.simulation_request = *q;
      *a = state_.simulation;
      return {};
    });
  }
  grpc::Status ListClaims(grpc::ServerContext*, const pb::ListClaimsRequest* q, pb::ListClaimsResponse* a) override {
    return with(state_, [&]() -> Status {
      std::vector<pb::InstanceEvent> some;
      for (const auto& c : state_.claims) {
        if (q->state() == pb::INSTANCE_STATE_UNSPECIFIED || c.state() == q->state()) some.push_back(c);
      }
      page_of(
          state_, some, q->page_token(), q->page_size(), [&] { return a->add_claims(); }, *a);
      return {};
    });
  }

 private:
  FakeState& state_;
};

class FakeTelemetry final : public pb::Telemetry::Service {
 public:
  explicit FakeTelemetry(FakeState& state) : state_(state) {}
  grpc::Status Query(grpc::ServerContext*, const pb::QueryRequest* q, pb::QueryResponse* a) override {
    return with(state_, [&]() -> Status {
      std::vector<pb::GpuReading> some;
      for (const auto& r : state_.readings) {
        if (q->node().empty() || r.node() == q->node()) some.push_back(r);
      }
      a->set_as_of_us(kNow);
      a->set_source("redis");
      page_of(
          state_, some, q->page_token(), q->page_size(), [&] { return a->add_readings(); }, *a);
      return {};
    });
  }
  grpc::Status FollowEvents(grpc::ServerContext* context, const pb::FollowEventsRequest* q,
                            grpc::ServerWriter<pb::EventLine>* out) override {
    std::vector<pb::EventLine> events;
    {
      const std::lock_guard lock(state_.mutex);
      state_.followed = *q;
      events = state_.events;
    }
    ++state_.streams;
    for (const auto& event : events) out->Write(event);
    if (state_.break_streams > 0) {
      --state_.break_streams;
      return {grpc::StatusCode::UNAVAILABLE, "the server goes"};
    }
    testing::wait_until([&] { return context->IsCancelled(); });
    return grpc::Status::CANCELLED;
  }

 private:
  FakeState& state_;
};

class FakeCost final : public pb::Cost::Service {
 public:
  explicit FakeCost(FakeState& state) : state_(state) {}
  grpc::Status GetStatement(grpc::ServerContext*, const pb::GetStatementRequest* q, pb::Statement* a) override {
    return with(state_, [&]() -> Status {
      *a = state_.statement;
      a->set_period(q->period());
      return {};
    });
  }
  grpc::Status ListPrices(grpc::ServerContext*, const pb::ListPricesRequest* q, pb::ListPricesResponse* a) override {
    return with(state_, [&]() -> Status {
      for (const auto& p : state_.prices) {
        if (q->instance_type().empty() || p.instance_type() == q->instance_type()) *a->add_prices() = p;
      }
      return {};
    });
  }

 private:
  FakeState& state_;
};

}  // namespace

FakeSuite::FakeSuite() {
  auto clock = ScaledClockWriter::create(dir_.path() + "/clock", from_micros(kNow), 0);
  QM_ASSERT(clock, "{}", clock.error().message);
  clock_ = std::move(*clock);
  services_.push_back(std::make_unique<FakeAdmission>(state));
  services_.push_back(std::make_unique<FakePlacement>(state));
  services_.push_back(std::make_unique<FakeCapacity>(state));
  services_.push_back(std::make_unique<FakeTelemetry>(state));
  services_.push_back(std::make_unique<FakeCost>(state));
  start();
  Json json = Json::object({{"clock", dir_.path() + "/clock"}});
  for (const char* service : {"admission", "placement", "autoscaler", "telemetry", "cost"}) json.set(service, address_);
  std::ofstream(endpoints()) << json.pretty();
}

FakeSuite::~FakeSuite() { stop(); }

std::string FakeSuite::file(const std::string& name, const std::string& text) const {
  std::ofstream(dir_.path() + "/" + name) << text;
  return dir_.path() + "/" + name;
}

void FakeSuite::stop() {
  if (server_) server_->stop();
  server_.reset();
}

void FakeSuite::start() {
  std::vector<grpc::Service*> services;
  for (const auto& service : services_) services.push_back(service.get());
  rpc::ServerOptions options;
  options.address = address_;
  server_ = std::make_unique<rpc::Server>(options, services);
  const auto started = server_->start();
  QM_ASSERT(started, "{}", started.error().message);
  address_ = "127.0.0.1:" + std::to_string(server_->port());
}

Ran qmctl(const std::vector<std::string>& args, const std::string& in) {
  std::istringstream input(in);
  std::ostringstream out, err;
  const int code = run(args, {input, out, err});
  return {code, out.str(), err.str()};
}

Ran qmctl(const FakeSuite& suite, std::vector<std::string> args, const std::string& in) {
  args.insert(args.begin(), {"--endpoints", suite.endpoints()});
  return qmctl(args, in);
}

}  // namespace qm::cli
