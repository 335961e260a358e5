// Verbs that show workloads and queues.
#include "commands.hpp"
#include "print.hpp"
#include "qm/wire/model.hpp"
#include "qm/wire/words.hpp"
#include "table.hpp"
#include "words.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <ostream>

namespace qm::cli {
namespace {

std::string position_of(const pb::Workload& w) {
  return w.position() == 0 ? std::string() : std::to_string(w.position());
}

std::string table_of(const Context& context, const std::vector<const pb::Workload*>& workloads) {
  Table table({{"NAMESPACE"},
               {"NAME"},
               {"QUEUE"},
               {"TEAM"},
               {"PHASE"},
               {"POSITION", true},
               {"PODS", true},
               {"GPUS", true},
               {"PRIORITY", true},
               {"ATTEMPT", true},
               {"AGE", true},
               {"REASON"}});
  for (const auto* w : workloads) {
    const auto& state = w->state();
    const auto spec = wire::from_pb(state.spec());
    table.row({spec.ns.value(), spec.name, spec.queue, spec.team.value(), wire::word_of(state.phase()), position_of(*w),
               std::to_string(spec.total_pods()), thousandths(spec.total_gpu_milli()), std::to_string(spec.priority),
               std::to_string(state.attempt()), age(state.spec().submitted_us(), context.clock.now()), state.reason()});
  }
  return table.text();
}

std::string shape_text(const pb::PodSet& set) {
  const auto shape = wire::from_pb(set.shape());
  std::string text = fmt::format("{}: {} pod(s)", set.name(), set.count());
  if (set.completions() > set.count()) text += fmt::format(" at once of {} that have to succeed", set.completions());
  if (shape.gpu.whole > 0) text += fmt::format(", {} GPU", shape.gpu.whole);
  if (shape.gpu.milli > 0) text += fmt::format(", {} of a GPU", thousandths(shape.gpu.milli));
  if (shape.gpu.mig_count > 0) text += fmt::format(", {} x MIG {}", shape.gpu.mig_count, shape.gpu.mig_profile);
  if (!shape.gpu.models.empty()) text += fmt::format(" of {}", fmt::join(shape.gpu.models, " or "));
  if (shape.cpu_milli > 0) text += fmt::format(", {} CPU", thousandths(shape.cpu_milli));
  if (shape.memory_bytes > 0) text += fmt::format(", {} memory", bytes(shape.memory_bytes));
  return text + " each";
}

std::string moment(const Context& context, std::int64_t at_us) {
  return at_us == 0 ? std::string() : fmt::format("{} ({} ago)", instant(at_us), age(at_us, context.clock.now()));
}

/// With the end of the grace period while it is in the future.
std::string eviction_text(const Context& context, const pb::EvictionOrder& eviction) {
  const auto text = fmt::format("{}: {}", eviction.reason(), eviction.message());
  if (eviction.deadline_us() <= micros(context.clock.now())) return text;
  return fmt::format("{}; its pods have until {} to terminate", text, instant(eviction.deadline_us()));
}

/// Prints why no nodes have the capacity now. If no node can ever hold the pods, the service's explanation already
/// contains that (Unschedulable) with its remedies, and nothing is printed.
void print_nodes(const Context& context, const pb::Explanation& explanation, const pb::Unschedulable& shortfall) {
  const bool named =
      std::ranges::any_of(explanation.causes(), [](const auto& c) { return c.code() == "Unschedulable"; });
  if (shortfall.conflict().empty() || named) return;
  std::string demands;
  for (const auto& demand : shortfall.conflict()) demands += (demands.empty() ? "" : "; ") + printable(demand);
  if (shortfall.pod_set().empty()) {
    context.out << "  " << demands << '\n';
    return;
  }
  context.out << "  no nodes meet " << (shortfall.conflict_size() == 1 ? "" : "together ") << demands << '\n';
  if (shortfall.remedies().empty()) return;
  context.out << "  any one of these makes it schedulable now:\n";
  for (const auto& remedy : shortfall.remedies()) context.out << "    " << printable(remedy) << '\n';
}

/// `nodes`: placement's diagnosis for the current nodes; empty if they have the capacity, or if placement was not
/// called or is unavailable.
void print_explanation(const Context& context, const pb::Explanation& explanation, const pb::Unschedulable& nodes) {
  for (const auto& cause : explanation.causes()) {
    context.out << fmt::format("  {}: {}\n", printable(cause.code()), printable(cause.message()));
    if (!cause.remedy().empty()) context.out << "    remedy: " << printable(cause.remedy()) << '\n';
  }
  if (!explanation.remedies().empty()) {
    context.out << (nodes.conflict().empty() ? "  any one of these admits it now:\n"
                                             : "  any one of these gives it quota now; it then waits for nodes:\n");
    for (const auto& remedy : explanation.remedies()) {
      context.out << fmt::format("    {}: {}", printable(remedy.code()), printable(remedy.message()));
      std::string names;
      for (const auto& name : remedy.workloads())
        names += fmt::format("{}{}", names.empty() ? "" : ", ", printable(name));
      if (remedy.hidden() > 0) names += fmt::format("{}{} hidden", names.empty() ? "" : " and ", remedy.hidden());
      context.out << (names.empty() ? "\n" : fmt::format(" ({})\n", names));
    }
  }
  print_nodes(context, explanation, nodes);
}

/// How it saves: "every 1000 steps, ordered every 600 s on spot capacity, by 1 rank"; empty if nothing is declared.
std::string checkpoint_text(const pb::WorkloadSpec& spec) {
  const auto& terms = spec.checkpoint();
  std::vector<std::string> parts;
  if (terms.steps() > 0) parts.push_back(fmt::format("every {} steps", terms.steps()));
  if (terms.interval_us() > 0)
    parts.push_back(fmt::format("ordered every {:.0f} s on spot capacity", seconds(Duration(terms.interval_us()))));
  if (terms.quorum() > 0)
    parts.push_back(fmt::format("valid with {} rank{}", terms.quorum(), terms.quorum() == 1 ? "" : "s"));
  if (!terms.uri().empty()) parts.push_back("to " + terms.uri());
  if (parts.empty() && spec.checkpoints()) parts.emplace_back("by order");
  return fmt::format("{}", fmt::join(parts, ", "));
}

void describe(const Context& context, const pb::Workload& workload) {
  const auto& state = workload.state();
  const auto& spec = state.spec();
  line(context, "workload", spec.namespace_() + "/" + spec.name());
  line(context, "kind", spec.kind());
  line(context, "queue",
       state.cluster_queue().empty() || state.cluster_queue() == spec.queue()
           ? spec.queue()
           : fmt::format("{} (ClusterQueue {})", spec.queue(), state.cluster_queue()));
  line(context, "team", spec.team());
  line(context, "priority",
       spec.priority_class().empty() ? std::to_string(spec.priority())
                                     : fmt::format("{} ({})", spec.priority(), spec.priority_class()));
  for (const auto& set : spec.pod_sets()) line(context, "pods", shape_text(set));
  for (const auto& [set, flavor] : std::map<std::string, std::string>(state.flavors().begin(), state.flavors().end()))
    line(context, "flavor", set + ": " + flavor);
  line(context, "phase",
       workload.position() == 0
           ? wire::word_of(state.phase())
           : fmt::format("{}, number {} in its queue", wire::word_of(state.phase()), workload.position()));
  if (state.attempt() > 0) line(context, "attempt", std::to_string(state.attempt()));
  line(context, "submitted", moment(context, spec.submitted_us()));
  line(context, "quota", moment(context, state.quota_reserved_us()));
  line(context, "admitted", moment(context, state.admitted_us()));
  line(context, "finished", moment(context, state.finished_us()));
  if (state.phase() == pb::FINISHED) line(context, "outcome", state.succeeded() ? "succeeded" : "failed");
  if (state.has_eviction()) line(context, "eviction", eviction_text(context, state.eviction()));
  line(context, "checkpoint", checkpoint_text(spec));
  line(context, "resume", state.resume_uri());
  line(context, "reason", state.reason());
}

void describe(const Context& context, const pb::AssignmentEvent& assignment) {
  line(context, "placement",
       assignment.short_reason().empty()
           ? wire::word_of(assignment.state())
           : fmt::format("{}: {}", wire::word_of(assignment.state()), assignment.short_reason()));
  Table table({{"INDEX", true}, {"NODE"}, {"DEVICES"}, {"POD"}, {"BOUND", true}});
  for (const auto& m : assignment.members()) {
    std::vector<std::string> devices;
    for (const auto& d : m.devices()) {
      devices.push_back(!d.mig_profile().empty() ? fmt::format("{}:{}", d.index(), d.mig_profile())
                        : d.milli() == 1000      ? std::to_string(d.index())
                                                 : fmt::format("{}:{}", d.index(), thousandths(d.milli())));
    }
    table.row({std::to_string(m.index()), m.node(), fmt::format("{}", fmt::join(devices, ",")), m.pod(),
               age(m.bound_us(), context.clock.now())});
  }
  if (!table.empty()) context.out << '\n' << table.text();
}

void print_links(const Context& context, const pb::Assignment& placed) {
  for (const auto& link : placed.links()) context.out << "  " << printable(link) << '\n';
}

template <class Request>
Request request_for(const WorkloadName& name) {
  Request request;
  request.set_namespace_(name.ns);
  request.set_name(name.name);
  return request;
}

bool waits(pb::WorkloadPhase phase) {
  return phase == pb::PENDING || phase == pb::QUOTA_RESERVED || phase == pb::EVICTING || phase == pb::REJECTED;
}

}  // namespace

Status run_verb(Context& context, const ListVerb& verb) {
  pb::ListWorkloadsRequest request;
  request.set_namespace_(verb.ns);
  request.set_queue(verb.queue);
  request.set_team(verb.team);
  request.set_phase(verb.phase);
  QM_ASSIGN(const auto answer, context.client.workloads(request));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.workloads().empty()) {
    context.err << "no workloads\n";
    return {};
  }
  std::vector<const pb::Workload*> rows;
  for (const auto& w : answer.workloads()) rows.push_back(&w);
  // The service sorts by uid, which is meaningless to a user.
  std::ranges::stable_sort(rows, [](const pb::Workload* a, const pb::Workload* b) {
    const auto &x = a->state().spec(), &y = b->state().spec();
    return std::tie(x.namespace_(), x.name()) < std::tie(y.namespace_(), y.name());
  });
  context.out << table_of(context, rows);
  return {};
}

Status run_verb(Context& context, const GetVerb& verb) {
  QM_ASSIGN(const auto workload, context.client.workload(request_for<pb::GetWorkloadRequest>(verb.workload)));
  if (context.structured()) {
    print(context, workload);
  } else {
    context.out << table_of(context, {&workload});
  }
  return {};
}

/// For a workload with quota but without nodes, or without quota: what the nodes lack for it now.
pb::Unschedulable nodes_for(const Context& context, const pb::Explanation& why, const WorkloadName& name) {
  const bool asks = !why.remedies().empty() || std::ranges::any_of(why.causes(), [](const auto& cause) {
    return cause.code() == "InsufficientCapacity" || !cause.resource().empty();
  });
  if (!asks) return {};
  const auto workload = context.client.workload(request_for<pb::GetWorkloadRequest>(name));
  if (!workload) return {};
  pb::DryRunRequest request;
  *request.mutable_pod_sets() = workload->state().spec().pod_sets();
  request.set_uid(workload->state().spec().uid());
  const auto now = context.client.dry_run(request);
  return now ? now->shortfall() : pb::Unschedulable();
}

/// A Job that is not in the cluster yet has no uid, and placement knows only workloads that have quota.
Result<pb::Assignment> assignment_of(const Context& context, const pb::Workload& workload) {
  pb::GetAssignmentRequest request;
  request.set_uid(workload.state().spec().uid());
  if (request.uid().empty()) return fail(Code::kNotFound, "it has no uid yet");
  return context.client.assignment(request);
}

void print_layout(const Context& context, const pb::Assignment& assignment) {
  if (!assignment.layout().empty()) context.out << "  MIG: " << printable(assignment.layout()) << '\n';
}

Status run_verb(Context& context, const DescribeVerb& verb) {
  QM_ASSIGN(const auto workload, context.client.workload(request_for<pb::GetWorkloadRequest>(verb.workload)));
  Result<pb::Explanation> why = fail(Code::kNotFound, "it is not pending");
  const auto phase = workload.state().phase();
  if (waits(phase) || phase == pb::ADMITTED)
    why = context.client.explain(request_for<pb::ExplainRequest>(verb.workload));
  // An admitted workload has an explanation only if there is a cause: its pods are not bound, or not by Quartermaster.
  if (why && !waits(phase) && why->causes().empty()) why = fail(Code::kNotFound, "it is not pending");
  const auto placed = assignment_of(context, workload);
  if (context.structured()) {
    Json all = Json::object({{"workload", to_json(workload)}});
    if (why) all.set("explanation", to_json(*why));
    if (placed) all.set("assignment", to_json(*placed));
    print(context, all);
  } else {
    describe(context, workload);
    if (why) {
      line(context, "why", why->summary());
      print_explanation(context, *why, nodes_for(context, *why, verb.workload));
    }
    if (placed) {
      describe(context, placed->state());
      print_layout(context, *placed);
      print_links(context, *placed);
    }
  }
  // The state of admission is useful without placement; a note reports that it is missing.
  if (!placed && placed.error().code != Code::kNotFound)
    context.err << "qmctl: no placement shown: " << placed.error().to_string() << '\n';
  if (!why && why.error().code != Code::kNotFound)
    context.err << "qmctl: no explanation shown: " << why.error().to_string() << '\n';
  return {};
}

Status run_verb(Context& context, const WhyVerb& verb) {
  QM_ASSIGN(const auto why, context.client.explain(request_for<pb::ExplainRequest>(verb.workload)));
  const auto nodes = nodes_for(context, why, verb.workload);
  // Its topology if it has a placement, and the MIG repartition for it if it is pending.
  pb::Assignment known;
  if (why.causes().empty() || !nodes.conflict().empty()) {
    const auto workload = context.client.workload(request_for<pb::GetWorkloadRequest>(verb.workload));
    if (auto placed = workload ? assignment_of(context, *workload) : fail(workload.error())) known = std::move(*placed);
  }
  if (context.structured()) {
    Json all = to_json(why);
    if (!nodes.conflict().empty()) all.set("shortfall", to_json(nodes));
    if (!known.layout().empty()) all.set("layout", known.layout());
    print(context, all);
    return {};
  }
  context.out << printable(why.summary()) << '\n';
  if (why.waiting_us() > 0)
    context.out << (why.causes().empty() ? "  was pending " : "  pending for ") << age(Duration(why.waiting_us()))
                << '\n';
  print_explanation(context, why, nodes);
  print_layout(context, known);
  if (!why.causes().empty()) return {};
  // Not pending: prints whether all of its pods run, and its topology if it has a placement.
  if (const auto& lacks = known.state().short_reason(); !lacks.empty()) context.out << "  " << printable(lacks) << '\n';
  print_links(context, known);
  return {};
}

Status run_verb(Context& context, const WhenVerb& verb) {
  QM_ASSIGN(const auto when, context.client.when(request_for<pb::WhenRequest>(verb.workload)));
  if (context.structured()) {
    print(context, when);
    return {};
  }
  context.out << printable(when.summary()) << '\n';
  const auto moment_in = [&](std::int64_t at_us) {
    return at_us == 0 ? std::string("not known")
                      : fmt::format("{} (in {})", instant(at_us / 1'000'000 * 1'000'000),
                                    age(Duration(std::max<std::int64_t>(0, at_us - when.now_us()))));
  };
  if (!when.has_unknown()) {
    line(context, "p10", moment_in(when.p10_us()));
    line(context, "p50", moment_in(when.p50_us()));
    line(context, "p90", moment_in(when.p90_us()));
  } else if (!when.unknown().remedy().empty()) {
    line(context, "remedy", when.unknown().remedy());
  }
  if (when.futures() > 0) line(context, "starts", fmt::format("in {} of {} futures", when.started(), when.futures()));
  std::string ends;
  for (const auto& end : when.waits_for())
    ends += fmt::format("{}{} ({} of {})", ends.empty() ? "" : ", ", end.workload(), end.futures(), when.futures());
  if (when.hidden() > 0) ends += fmt::format("{}{} hidden", ends.empty() ? "" : " and ", when.hidden());
  line(context, "waits for", ends);
  if (when.has_unknown() && when.futures() == 0) return {};
  line(context, "basis",
       when.run_times_of().empty() ? std::string("no run times learned yet")
                                   : fmt::format("{:.0f} run time(s) of {}", when.run_times(), when.run_times_of()));
  if (when.declared_us() > 0) line(context, "declared", "runs for " + age(Duration(when.declared_us())));
  if (when.limit_us() > 0) line(context, "limit", "stops after " + age(Duration(when.limit_us())));
  return {};
}

Status run_verb(Context& context, const WhatIfVerb& verb) {
  QM_TRY(check_manifests(context, verb.allow_unknown, Workloads::kRead));
  pb::WhatIfRequest request;
  for (const auto& manifest : context.manifests) {
    request.set_manifest(request.manifest() + (request.manifest().empty() ? "" : "\n---\n") + manifest.text);
  }
  // With several files the lines of an error count over all of them, one file after the other.
  if (!context.manifests.empty()) {
    request.set_source(context.manifests.size() == 1 ? context.manifests.front().source
                                                     : fmt::format("{} files", context.manifests.size()));
  }
  for (const auto& object : verb.deleted) request.add_deleted(object);
  QM_ASSIGN(const auto answer, context.client.what_if(request));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  for (const auto& warning : answer.warnings()) context.err << "warning: " << printable(warning) << '\n';
  if (answer.consequences().empty()) {
    context.out << (answer.hidden() == 0 ? "no workload would change\n" : "none of your workloads would change\n");
  } else {
    const auto place = [](int n) { return n == 0 ? std::string("-") : std::to_string(n); };
    Table table({{"WORKLOAD"}, {"QUEUE"}, {"WHAT"}, {"BEFORE", true}, {"AFTER", true}, {"WHY"}});
    for (const auto& c : answer.consequences()) {
      table.row({printable(c.namespace_() + "/" + c.name()), printable(c.queue()), c.what(), place(c.before()),
                 place(c.after()), printable(c.why())});
    }
    context.out << table.text();
  }
  if (answer.hidden() > 0) context.out << fmt::format("and {} hidden workload(s)\n", answer.hidden());
  return {};
}

Status run_verb(Context& context, const QueuesVerb&) {
  QM_ASSIGN(const auto answer, context.client.queues({}));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.queues().empty()) {
    context.err << "no queues; create some with qmctl apply -f FILE\n";
    return {};
  }
  Table table({{"NAME"},
               {"COHORT"},
               {"STATE"},
               {"PENDING", true},
               {"ADMITTED", true},
               {"RESOURCE"},
               {"USED", true},
               {"NOMINAL", true},
               {"BORROWED", true}});
  for (const auto& q : answer.queues()) {
    const auto part = [](const auto& map, const std::string& resource) {
      const auto found = map.find(resource);
      return found == map.end() ? std::int64_t{0} : found->second;
    };
    std::map<std::string, std::int64_t> resources(q.nominal().begin(), q.nominal().end());
    resources.insert(q.used().begin(), q.used().end());
    bool first = true;
    // The queue's own columns are printed once; further resources follow below.
    for (const auto& [resource, ignored] : resources) {
      table.row({first ? q.name() : " ", first ? q.cohort() : " ", first ? q.state() : " ",
                 first ? std::to_string(q.pending()) : " ", first ? std::to_string(q.admitted()) : " ", resource,
                 amount(resource, part(q.used(), resource)), amount(resource, part(q.nominal(), resource)),
                 amount(resource, part(q.borrowed(), resource))});
      first = false;
    }
    if (first)
      table.row(
          {q.name(), q.cohort(), q.state(), std::to_string(q.pending()), std::to_string(q.admitted()), "", "", "", ""});
  }
  context.out << table.text();
  for (const auto& q : answer.queues()) {
    if (!q.reason().empty()) context.out << fmt::format("{}: {}\n", printable(q.name()), printable(q.reason()));
  }
  return {};
}

}  // namespace qm::cli
