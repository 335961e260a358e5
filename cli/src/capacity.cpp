// Verbs that look at nodes and at what is asked of the cloud.
#include "commands.hpp"
#include "print.hpp"
#include "table.hpp"
#include "words.hpp"

#include <ostream>

namespace qm::cli {
namespace {

std::string claims_text(const Context& context, const google::protobuf::RepeatedPtrField<pb::InstanceEvent>& claims) {
  Table table({{"CLAIM"},
               {"STATE"},
               {"TYPE"},
               {"MARKET"},
               {"ZONE"},
               {"POOL"},
               {"GPUS", true},
               {"NODE"},
               {"AGE", true},
               {"REASON"}});
  for (const auto& c : claims) {
    const auto since = c.launched_us() != 0 ? c.launched_us() : c.requested_us();
    table.row({c.claim(), word_of(c.state(), "INSTANCE_"), c.instance_type(), c.capacity_type(), c.zone(),
               c.node_pool(), std::to_string(c.gpus()), c.node(), age(since, context.clock.now()), c.reason()});
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
               {"TYPE"},
               {"MARKET"},
               {"ZONE"},
               {"GPU"},
               {"GPUS", true},
               {"USED", true},
               {"SICK", true},
               {"PODS", true},
               {"SINCE", true},
               {"REASON"}});
  std::int64_t gpus = 0, used = 0;
  for (const auto& view : answer.nodes()) {
    const auto& node = view.node();
    std::int64_t used_milli = 0, sick = 0;
    for (const auto& device : view.devices()) {
      used_milli += device.used_milli();
      sick += device.healthy() ? 0 : 1;
    }
    gpus += node.gpus();
    used += used_milli;
    table.row({node.node(), word_of(node.state(), "NODE_"), node.instance_type(), node.capacity_type(), node.zone(),
               node.gpu_model(), std::to_string(node.gpus()), thousandths(used_milli),
               sick == 0 ? "" : std::to_string(sick), std::to_string(node.pods()),
               age(node.since_us(), context.clock.now()), node.reason()});
  }
  context.out << table.text()
              << fmt::format("{} nodes, {} of {} GPUs in use\n", answer.nodes_size(), thousandths(used), gpus);
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
  context.out << fmt::format("{} workload(s) wait for room, {} machine(s) on their way, as of {}\n",
                             answer.demand().items_size(), answer.requested_size(), instant(answer.as_of_us()));
  for (const auto& text : answer.explanations()) context.out << "  " << printable(text) << '\n';
  if (!answer.requested().empty()) context.out << '\n' << claims_text(context, answer.requested());
  return {};
}

}  // namespace qm::cli
