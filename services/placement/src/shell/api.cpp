#include "qm/placement/api.hpp"

#include "qm/kube_objects/rules.hpp"
#include "qm/placement/shell.hpp"
#include "qm/rpc/worker.hpp"
#include "qm/wire/words.hpp"
#include "quartermaster/v1/placement_service.grpc.pb.h"
#include "shell/wire.hpp"

#include <algorithm>
#include <cmath>

namespace qm::placement {
namespace {

constexpr std::int32_t kMostPods = 100'000;

Result<int> page_size(std::int32_t asked) {
  return rpc::page_size(asked, kDefaultPage, kLargestPage).map([](std::size_t n) { return static_cast<int>(n); });
}

/// Parses "uid/attempt", the form of page tokens.
Result<AttemptId> parse_token(const std::string& token) {
  const auto slash = token.rfind('/');
  if (slash != std::string::npos && slash + 1 < token.size() && token.size() - slash <= 10 &&
      std::all_of(token.begin() + static_cast<std::ptrdiff_t>(slash) + 1, token.end(),
                  [](char c) { return c >= '0' && c <= '9'; })) {
    return AttemptId{WorkloadUid(token.substr(0, slash)), std::stoi(token.substr(slash + 1))};
  }
  return fail(Error{Code::kInvalid, fmt::format("page token \"{}\" is not valid", token), "page_token",
                    "use next_page_token of the previous page"});
}

pb::Unschedulable unschedulable_of(const Diagnosis& found) {
  pb::Unschedulable out;
  out.set_pod_set(found.pod_set);
  for (const auto& demand : found.conflict) out.add_conflict(demand);
  for (const auto& way : found.remedies) out.add_remedies(way.words);
  return out;
}

/// The members that an elastic gang lacks, by pod set: "runs with 6 of 8, needs 4". Empty if none is missing.
std::string missing_members_of(const Assignment& row) {
  std::string out;
  for (std::size_t set = 0; set < row.pod_sets.size(); ++set) {
    const PodSet& asked = row.pod_sets[set];
    const auto there = std::ranges::count_if(
        row.members, [&](const Member& m) { return !m.lost && static_cast<std::size_t>(m.set) == set; });
    if (minimum_of(asked) == asked.count || there >= asked.count) continue;
    const auto which = row.pod_sets.size() > 1 ? fmt::format("pod set {} ", asked.name) : std::string();
    out += fmt::format("{}{}runs with {} of {}, needs {}", out.empty() ? "" : "; ", which, there, asked.count,
                       minimum_of(asked));
  }
  return out;
}

pb::Assignment view_of(const Engine& engine, const AttemptId& id, const Assignment& row) {
  pb::Assignment out;
  *out.mutable_state() = to_pb(id, row);
  out.set_version(row.revision);
  // The cause may have changed since the decision: the reason is computed again.
  if (row.state == AssignmentState::kShort) {
    const auto placed = engine.dry_run(row.pod_sets, id.uid);
    if (!placed.plan) out.mutable_state()->set_short_reason(placed.shortfall.reason);
  }
  if (row.holds()) out.mutable_state()->set_short_reason(missing_members_of(row));
  return out;
}

/// Pods by GPU. If a GPU is advertised as several time-sliced shares, its pods get equal parts of it.
std::vector<std::int32_t> sharers_of(const std::vector<DeviceUse>& devices, std::int32_t shares) {
  std::vector<std::int32_t> out(devices.size() / static_cast<std::size_t>(shares) + 1);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    out[i / static_cast<std::size_t>(shares)] += static_cast<std::int32_t>(devices[i].pods.size());
  }
  return out;
}

class Api final : public pb::Placement::CallbackService {
 public:
  Api(service::Host& host, const GapMeter* meter) : host_(host), meter_(meter) {}

  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const pb::GetAssignmentRequest* request,
                                pb::Assignment* response) override {
    return answer(context, *request, response, [request, caller = rpc::caller_of(*context)](const Engine& engine) {
      return get_assignment(engine, *request, caller);
    });
  }
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const pb::ListAssignmentsRequest* request,
                                 pb::ListAssignmentsResponse* response) override {
    return answer(context, *request, response, [request, caller = rpc::caller_of(*context)](const Engine& engine) {
      return list_assignments(engine, *request, caller);
    });
  }
  grpc::ServerUnaryReactor* DryRun(grpc::CallbackServerContext* context, const pb::DryRunRequest* request,
                                   pb::DryRunResponse* response) override {
    return answer(context, *request, response, [request, caller = rpc::caller_of(*context)](const Engine& engine) {
      return dry_run(engine, *request, caller);
    });
  }
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context, const pb::ListNodesRequest* request,
                                      pb::ListNodesResponse* response) override {
    return answer(context, *request, response, [request, caller = rpc::caller_of(*context)](const Engine& engine) {
      return list_nodes(engine, *request, caller);
    });
  }
  grpc::ServerUnaryReactor* GetGap(grpc::CallbackServerContext* context, const pb::GetGapRequest* request,
                                   pb::Gap* response) override {
    return answer(context, *request, response, [meter = meter_](const Engine&) {
      return get_gap(meter == nullptr ? nullptr : meter->latest().get());
    });
  }
  grpc::ServerUnaryReactor* OrderLayouts(grpc::CallbackServerContext* context, const pb::OrderLayoutsRequest* request,
                                         pb::OrderLayoutsResponse* response) override {
    return rpc::mutate(host_, context, "OrderLayouts", *request, request->request_id(), response, request->source());
  }
  grpc::ServerUnaryReactor* ListLayouts(grpc::CallbackServerContext* context, const pb::ListLayoutsRequest* request,
                                        pb::ListLayoutsResponse* response) override {
    return answer(context, *request, response,
                  [request](const Engine& engine) { return list_layouts(engine, *request); });
  }
  grpc::ServerUnaryReactor* PlanDefragmentation(grpc::CallbackServerContext* context,
                                                const pb::PlanDefragmentationRequest* request,
                                                pb::DefragmentationPlan* response) override {
    // The engine's thread copies the fleet; a worker thread computes the plan.
    return worker_.answer(context, *request, [this, request, response]() -> qm::Status {
      QM_TRY(host_.can_answer());
      QM_ASSIGN(const auto budget, defrag_budget(*request));
      std::optional<DefragInput> problem;
      pb::DefragmentationPlan under_way;
      host_.read([&](const service::Shell& shell) {
        problem = engine_of(shell).defrag_input();
        add_under_way(engine_of(shell), under_way);
      });
      *response = defrag_plan(*problem, defrag_nodes(*problem, budget));
      response->MergeFrom(under_way);
      return {};
    });
  }
  grpc::ServerUnaryReactor* Snapshot(grpc::CallbackServerContext* context, const pb::SnapshotRequest* request,
                                     pb::SnapshotResponse* response) override {
    return worker_.answer_snapshot(host_, context, request, response);
  }

 private:
  template <class Response, class Fn>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const google::protobuf::Message& request,
                                   Response* response, Fn fn) {
    return rpc::answer(host_, context, request, [response, fn](const service::Shell& shell) -> qm::Status {
      auto made = fn(engine_of(shell));
      if (!made) return fail(made.error());
      *response = std::move(*made);
      return {};
    });
  }

  service::Host& host_;
  const GapMeter* meter_;
  rpc::Worker worker_;
};

}  // namespace

Result<pb::Assignment> get_assignment(const Engine& engine, const pb::GetAssignmentRequest& request,
                                      const rpc::Caller& caller) {
  if (request.uid().empty()) {
    return fail(Error{Code::kInvalid, "the request has no uid", "uid", "use the uid of the workload's object"});
  }
  const auto& rows = engine.tables().assignments.rows();
  const WorkloadUid uid(request.uid());
  const auto seen = [&](const Assignment& row) { return caller.sees(row.ns.value(), row.team.value()); };
  const auto with_links = [&](const AttemptId& id, const Assignment& row) {
    auto out = view_of(engine, id, row);
    if (row.state == AssignmentState::kShort) out.set_layout(engine.repartition_status(id.uid));
    if (!row.holds()) return out;
    for (auto& line : engine.compared(row.pod_sets, row.members)) out.add_links(std::move(line));
    return out;
  };
  if (request.attempt() != 0) {
    const AttemptId id{uid, request.attempt()};
    const Assignment* row = engine.tables().assignments.find(id);
    if (row != nullptr && seen(*row)) return with_links(id, *row);
  } else if (auto it = rows.upper_bound({uid, std::numeric_limits<std::int32_t>::max()}); it != rows.begin()) {
    --it;
    if (it->first.uid == uid && seen(it->second)) return with_links(it->first, it->second);
  }
  return fail(Error{Code::kNotFound, fmt::format("placement has no assignment of workload {}", request.uid()), "uid",
                    "it is pending for quota or ended long ago; query admission"});
}

Result<pb::ListAssignmentsResponse> list_assignments(const Engine& engine, const pb::ListAssignmentsRequest& request,
                                                     const rpc::Caller& caller) {
  QM_ASSIGN(const auto size, page_size(request.page_size()));
  AttemptId after;
  if (!request.page_token().empty()) {
    QM_ASSIGN(after, parse_token(request.page_token()));
  }
  pb::ListAssignmentsResponse out;
  std::int64_t total = 0;
  AttemptId last;
  for (const auto& [id, row] : engine.tables().assignments) {
    if (!caller.sees(row.ns.value(), row.team.value())) continue;
    if (request.state() != pb::ASSIGNMENT_STATE_UNSPECIFIED && to_pb(row.state) != request.state()) continue;
    const bool there = request.node().empty() || std::ranges::any_of(row.members, [&](const Member& member) {
                         return member.live() && member.node.value() == request.node();
                       });
    if (!there) continue;
    ++total;
    if (!request.page_token().empty() && !(after < id)) continue;
    if (out.assignments_size() < size) {
      *out.add_assignments() = view_of(engine, id, row);
      last = id;
    } else if (out.next_page_token().empty()) {
      out.set_next_page_token(last.to_string());
    }
  }
  out.set_total(total);
  return out;
}

Result<pb::DryRunResponse> dry_run(const Engine& engine, const pb::DryRunRequest& request, const rpc::Caller& caller) {
  // The workload's uid determines its claims and the pods near it. A caller that may not see the
  // workload gets the result for an unknown workload.
  const WorkloadUid asked_for(request.uid());
  const Workload* workload = engine.tables().workloads.find(asked_for);
  const bool known = workload != nullptr && caller.sees(workload->spec.ns.value(), workload->spec.team.value());
  const WorkloadUid uid = known ? asked_for : WorkloadUid();
  const Namespace ns = known ? workload->spec.ns : Namespace();
  std::vector<PodSet> sets;
  std::int64_t pods = 0;
  for (const auto& set : request.pod_sets()) {
    pods += set.count();
    if (set.count() < 1) {
      return fail(Error{Code::kInvalid, fmt::format("pod set \"{}\" has no pods", set.name()),
                        fmt::format("pod_sets[{}].count", sets.size()), "request at least one"});
    }
    const auto& gpu = set.shape().gpu();
    if (gpu.whole() < 0 || gpu.milli() < 0 || gpu.milli() > 999 || gpu.mig_count() < 0 || set.shape().cpu_milli() < 0 ||
        set.shape().memory_bytes() < 0) {
      return fail(Error{Code::kInvalid, fmt::format("pod set \"{}\" requests an invalid amount", set.name()),
                        fmt::format("pod_sets[{}].shape", sets.size()),
                        "use amounts of 0 or more and a share of at most 999 milli"});
    }
    sets.push_back(from_pb(set));
    sets.back().rules = kube_objects::rules_text(ns, set.rules());
  }
  if (sets.empty() || pods > kMostPods) {
    return fail(Error{Code::kInvalid, fmt::format("the request has {} pods", pods), "pod_sets",
                      fmt::format("request 1 to {} pods", kMostPods)});
  }
  pb::DryRunResponse out;
  if (request.without_pods()) {
    *out.mutable_shortfall() = unschedulable_of(engine.diagnose_without_pods(sets));
    out.set_fits(out.shortfall().conflict().empty());
    return out;
  }
  const PlacementResult placed = engine.dry_run(sets, uid);
  out.set_fits(placed.plan.has_value());
  out.set_reason(placed.shortfall.reason);
  if (placed.plan) {
    for (const Member& member : placed.plan->members) *out.add_members() = to_pb(member, sets);
    for (auto& line : engine.compared(sets, placed.plan->members)) out.add_links(std::move(line));
  } else {
    *out.mutable_shortfall() = unschedulable_of(engine.diagnose(sets, uid));
  }
  return out;
}

Result<pb::ListNodesResponse> list_nodes(const Engine& engine, const pb::ListNodesRequest& request,
                                         const rpc::Caller& caller) {
  QM_ASSIGN(const auto size, page_size(request.page_size()));
  const auto& words = *pb::NodeState_descriptor();
  const auto asked = wire::number_of(words, request.state());
  const auto is_asked = [&](NodeState state) { return wire::number_of(words, name_of(state)) == asked; };
  const auto states = {NodeState::kReady, NodeState::kNotReady, NodeState::kCordoned};
  if (!request.state().empty() && std::ranges::none_of(states, is_asked)) {
    return fail(Error{Code::kInvalid, fmt::format("\"{}\" is not a node state", request.state()), "state",
                      "use Ready, NotReady or Cordoned"});
  }
  pb::ListNodesResponse out;
  std::int64_t total = 0;
  for (const auto& [name, node] : engine.tables().nodes) {
    if (!request.state().empty() && !is_asked(node.state)) continue;
    ++total;
    if (name.value() <= request.page_token()) continue;
    if (out.nodes_size() == size) {
      if (out.next_page_token().empty()) out.set_next_page_token(out.nodes(size - 1).node().node());
      continue;
    }
    auto* view = out.add_nodes();
    *view->mutable_node() = to_pb(name, node);
    std::int32_t index = 0;
    const auto devices = engine.devices_of(name);
    const auto sharers = sharers_of(devices, shares_of(node.facts));
    for (const auto& use : devices) {
      auto* device = view->add_devices();
      const auto busy = sharers[static_cast<std::size_t>(index / shares_of(node.facts))];
      device->set_share_milli(busy == 0 ? 0 : 1000 / busy);
      device->set_index(index++);
      device->set_used_milli(use.used_milli);
      device->set_healthy(use.healthy);
      // Every caller may see nodes, but not pods. A pod that is not known yet is listed by its
      // attempt, which names no namespace.
      for (const auto& pod : use.pods) {
        if (caller.everything || caller.namespaces.contains(pod.substr(0, pod.find('/')))) device->add_pods(pod);
      }
    }
  }
  out.set_total(total);
  return out;
}

Result<pb::Gap> get_gap(const Gap* gap) {
  if (gap == nullptr) {
    return fail(Error{Code::kUnavailable, "the gap is not computed yet", {}, "retry in a minute"});
  }
  pb::Gap out;
  out.set_at_us(micros(gap->at));
  out.set_capacity_milli(gap->capacity);
  out.set_requested_milli(gap->asked);
  out.set_allocated_milli(gap->allocated);
  out.set_bound_milli(gap->bound);
  out.set_keeping_milli(gap->keeping);
  out.set_close(gap->close);
  for (const auto& price : gap->prices) {
    auto* p = out.add_prices();
    p->set_gpu_model(price.model);
    p->set_gpus(price.gpus);
    p->set_nodes(price.nodes);
    p->set_price_milli(std::llround(price.milli));
  }
  return out;
}

Result<plan::Budget> defrag_budget(const pb::PlanDefragmentationRequest& request) {
  plan::Budget out;
  const auto read = [](std::int64_t asked, const char* field, std::int64_t& into) -> qm::Status {
    if (asked < 0) return fail(Error{Code::kInvalid, fmt::format("{} is negative", field), field, "give 0 or more"});
    if (asked > 0) into = asked;
    return {};
  };
  QM_TRY(read(request.max_pods(), "most_pods", out.pods));
  QM_TRY(read(request.max_gpu_seconds(), "most_gpu_seconds", out.gpu_seconds));
  QM_TRY(read(request.max_micro_usd(), "most_micro_usd", out.cost));
  return out;
}

void add_under_way(const Engine& engine, pb::DefragmentationPlan& plan) {
  const Tables& tables = engine.tables();
  const DefragRun* run = tables.defrag_run.find(0);
  if (run == nullptr) return;
  plan.set_last(run->last);
  if (!run->is_active()) return;
  auto& out = *plan.mutable_run();
  out.set_made_us(micros(run->made));
  out.set_nodes(run->nodes);
  out.set_reclaimed(run->reclaimed);
  out.set_moves(run->moves);
  for (const DefragStep& step : run->steps) {
    auto* s = out.add_steps();
    for (const NodeName& node : step.nodes) s->add_nodes(node.value());
    std::int64_t gpu_ms = 0, micro_usd = 0;
    for (const auto& move : step.moves) {
      gpu_ms += move.gpu_ms;
      micro_usd += move.lost_micro_usd;
      s->set_pods(s->pods() + std::ssize(move.places));
      auto* m = s->add_moves();
      m->set_uid(move.id.uid.value());
      if (const Workload* workload = tables.workloads.find(move.id.uid)) {
        m->set_namespace_(workload->spec.ns.value());
        m->set_workload(workload->spec.name);
      }
      std::set<std::string> from, to;
      for (const HeldCapacity& place : move.places) to.insert(place.node.value());
      if (const Assignment* row = tables.assignments.find(move.id)) {
        for (const Member& member : row->members) {
          if (!to.contains(member.node.value())) from.insert(member.node.value());
        }
      }
      m->mutable_from()->Add(from.begin(), from.end());
      m->mutable_to()->Add(to.begin(), to.end());
      const Proposal* asked = tables.proposals.find(move.id.uid);
      if (asked != nullptr && asked->move && asked->is_active()) out.set_migrating_uid(move.id.uid.value());
    }
    s->set_gpu_seconds(gpu_ms / 1000);
    s->set_micro_usd(micro_usd);
  }
}

pb::DefragmentationPlan defrag_plan(const DefragInput& problem, const plan::DefragPlan& found) {
  pb::DefragmentationPlan out;
  out.set_at_us(micros(problem.terms.now));
  out.set_free_before(found.free_before);
  out.set_free_after(found.free_after);
  for (const auto& step : found.steps) {
    auto* s = out.add_steps();
    for (const auto node : step.nodes) s->add_nodes(problem.nodes[node].value());
    s->set_pods(step.pods);
    s->set_gpu_seconds(step.gpu_seconds);
    s->set_micro_usd(step.cost.lost_work);
    for (const auto& move : step.moves) {
      const auto& gang = problem.gangs[move.gang];
      auto* m = s->add_moves();
      m->set_uid(gang.id.uid.value());
      m->set_namespace_(gang.ns.value());
      m->set_workload(gang.name);
      std::set<std::string> from, to;
      for (std::size_t i = 0; i < move.from.size() && i < move.placements.size(); ++i) {
        if (move.from[i].node == move.placements[i].node) continue;
        from.insert(problem.nodes[move.from[i].node].value());
        to.insert(problem.nodes[move.placements[i].node].value());
      }
      m->mutable_from()->Add(from.begin(), from.end());
      m->mutable_to()->Add(to.begin(), to.end());
    }
  }
  return out;
}

std::unique_ptr<grpc::Service> make_api(service::Host& host, const GapMeter* meter) {
  return std::make_unique<Api>(host, meter);
}

}  // namespace qm::placement
