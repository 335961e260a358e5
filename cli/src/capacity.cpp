// Verbs that show nodes and cloud capacity.
#include "commands.hpp"
#include "print.hpp"
#include "qm/wire/words.hpp"
#include "table.hpp"
#include "words.hpp"

#include <fmt/format.h>

#include <ostream>

namespace qm::cli {
namespace {

std::string claims_text(const Context& context, const google::protobuf::RepeatedPtrField<pb::InstanceEvent>& claims) {
  Table table({{"CLAIM"},
               {"STATE"},
               {"INSTANCE-TYPE"},
               {"CAPACITY-TYPE"},
               {"ZONE"},
               {"NODE-POOL"},
               {"GPUS", true},
               {"NODE"},
               {"AGE", true},
               {"REASON"}});
  for (const auto& c : claims) {
    const auto since = c.launched_us() != 0 ? c.launched_us() : c.requested_us();
    table.row({c.claim(), wire::word_of(c.state()), c.instance_type(), c.capacity_type(), c.zone(), c.node_pool(),
               std::to_string(c.gpus()), c.node(), age(since, context.clock.now()), c.reason()});
  }
  return table.text();
}

}  // namespace

Status run_verb(Context& context, const NodesVerb& verb) {
  pb::ListNodesRequest request;
  request.set_state(verb.state);
  QM_ASSIGN(const auto answer, context.client.nodes(request));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  if (answer.nodes().empty()) {
    context.err << "no nodes\n";
    return {};
  }
  Table table({{"NODE"},
               {"STATE"},
               {"INSTANCE-TYPE"},
               {"CAPACITY-TYPE"},
               {"ZONE"},
               {"GPU-MODEL"},
               {"GPUS", true},
               {"USED", true},
               {"UNHEALTHY", true},
               {"PODS", true},
               {"SINCE", true},
               {"REASON"}});
  std::int64_t gpus = 0, used = 0;
  for (const auto& view : answer.nodes()) {
    const auto& node = view.node();
    std::int64_t used_milli = 0, unhealthy = 0;
    for (const auto& device : view.devices()) {
      used_milli += device.used_milli();
      unhealthy += device.healthy() ? 0 : 1;
    }
    gpus += node.gpus();
    used += used_milli;
    table.row({node.node(), wire::word_of(node.state()), node.instance_type(), node.capacity_type(), node.zone(),
               node.gpu_model(), std::to_string(node.gpus()), thousandths(used_milli),
               unhealthy == 0 ? "" : std::to_string(unhealthy), std::to_string(node.pods()),
               age(node.since_us(), context.clock.now()), node.reason()});
  }
  context.out << table.text()
              << fmt::format("{} nodes, {} of {} GPUs in use\n", answer.nodes_size(), thousandths(used), gpus);
  return {};
}

namespace {

void show_run(Context& context, const pb::DefragmentationPlan::Run& run) {
  context.out << fmt::format("in progress: {} of {} nodes reclaimed\n", run.reclaimed(), run.nodes());
  for (const auto& step : run.steps()) {
    for (const auto& move : step.moves()) {
      context.out << fmt::format("  {}/{} {} from {} to {}\n", move.namespace_(), move.workload(),
                                 move.uid() == run.migrating_uid() ? "migrates" : "will migrate",
                                 fmt::join(move.from(), ","), fmt::join(move.to(), ","));
    }
  }
}

}  // namespace

Status run_verb(Context& context, const DefragVerb& verb) {
  constexpr double kHour = 3600, kMicro = 1e6;
  pb::PlanDefragmentationRequest request;
  request.set_max_pods(verb.max_pods);
  request.set_max_gpu_seconds(static_cast<std::int64_t>(verb.max_gpu_hours * kHour));
  request.set_max_micro_usd(static_cast<std::int64_t>(verb.max_usd * kMicro));
  QM_ASSIGN(const auto plan, context.client.plan_defragmentation(request));
  if (context.structured()) {
    print(context, plan);
    return {};
  }
  Table table({{"NODES"}, {"WORKLOAD"}, {"FROM"}, {"TO"}, {"PODS", true}, {"GPU-HOURS", true}, {"USD", true}});
  std::int64_t seconds = 0, cost = 0, moves = 0;
  for (const auto& step : plan.steps()) {
    seconds += step.gpu_seconds();
    cost += step.micro_usd();
    moves += step.moves_size();
    for (int i = 0; i < step.moves_size(); ++i) {
      const auto& move = step.moves(i);
      const bool first = i == 0;
      table.row({first ? fmt::format("{}", fmt::join(step.nodes(), ",")) : "",
                 fmt::format("{}/{}", move.namespace_(), move.workload()),
                 fmt::format("{}", fmt::join(move.from(), ",")), fmt::format("{}", fmt::join(move.to(), ",")),
                 first ? std::to_string(step.pods()) : "",
                 first ? fmt::format("{:.2f}", static_cast<double>(step.gpu_seconds()) / kHour) : "",
                 first ? fmt::format("{:.2f}", static_cast<double>(step.micro_usd()) / kMicro) : ""});
    }
  }
  if (plan.steps_size() > 0) context.out << table.text();
  context.out << fmt::format(
      "{} nodes are free, {} after the plan: {} migrations, {:.2f} GPU-hours of lost work, {:.2f} USD; nothing was changed\n",
      plan.free_before(), plan.free_after(), moves, static_cast<double>(seconds) / kHour,
      static_cast<double>(cost) / kMicro);
  if (plan.has_run()) show_run(context, plan.run());
  if (!plan.last().empty()) context.out << fmt::format("the last plan: {}\n", plan.last());
  return {};
}

Status run_verb(Context& context, const ClusterVerb& /*verb*/) {
  QM_ASSIGN(const auto gap, context.client.gap());
  if (context.structured()) {
    print(context, gap);
    return {};
  }
  const auto share = [&](std::int64_t milli) {
    return gap.capacity_milli() == 0 ? std::string()
                                     : percent(static_cast<double>(milli) / static_cast<double>(gap.capacity_milli()));
  };
  Table table({{"AMOUNT"}, {"GPUS", true}, {"SHARE", true}, {"GAP", true}, {"MEANING"}});
  const auto row = [&](const char* field, std::int64_t milli, std::string above, const char* meaning) {
    table.row({field, thousandths(milli), share(milli), std::move(above), meaning});
  };
  row("capacity", gap.capacity_milli(), "", "of usable nodes");
  row("requested", gap.requested_milli(), "", "requested by all pods");
  row("allocated", gap.allocated_milli(), "", "of bound pods");
  row("keeping", gap.keeping_milli(), thousandths(gap.keeping_milli() - gap.allocated_milli()),
      "upper bound of any schedule that keeps the running pods");
  row("bound", gap.bound_milli(), thousandths(gap.bound_milli() - gap.allocated_milli()),
      "upper bound of any schedule");
  context.out << table.text();
  if (!gap.prices().empty()) {
    // The amount by which one more such node would raise the bound.
    Table prices({{"GPU-MODEL"}, {"GPUS", true}, {"NODES", true}, {"PRICE", true}});
    for (const auto& p : gap.prices()) {
      prices.row({p.gpu_model(), std::to_string(p.gpus()), std::to_string(p.nodes()), thousandths(p.price_milli())});
    }
    context.out << '\n' << prices.text();
  }
  context.out << fmt::format("as of {} ago{}\n", age(gap.at_us(), context.clock.now()),
                             gap.close() ? "" : "; the search ended at its time limit, the exact bounds may be lower");
  return {};
}

Status run_verb(Context& context, const ClaimsVerb& verb) {
  pb::ListClaimsRequest request;
  request.set_state(verb.state);
  QM_ASSIGN(const auto answer, context.client.claims(request));
  if (context.structured()) {
    print(context, answer);
  } else if (answer.claims().empty()) {
    context.err << "no claims\n";
  } else {
    context.out << claims_text(context, answer.claims());
  }
  return {};
}

Status run_verb(Context& context, const PlanVerb&) {
  QM_ASSIGN(const auto answer, context.client.plan({}));
  if (context.structured()) {
    print(context, answer);
    return {};
  }
  context.out << fmt::format(
      "{} workload(s) are pending for lack of nodes, {} instance(s) are being launched, as of {}\n",
      answer.demand().items_size(), answer.requested_size(), instant(answer.as_of_us()));
  for (const auto& text : answer.explanations()) context.out << "  " << printable(text) << '\n';
  if (!answer.requested().empty()) context.out << '\n' << claims_text(context, answer.requested());
  return {};
}

}  // namespace qm::cli
