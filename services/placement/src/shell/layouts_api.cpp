// Answers requests about MIG layouts of nodes and about layout orders.
#include "qm/placement/api.hpp"
#include "shell/wire.hpp"

namespace qm::placement {
namespace {

std::string label_of(const NodeFacts& facts, std::string_view key) {
  const auto at = facts.labels.find(std::string(key));
  return at == facts.labels.end() ? std::string() : at->second;
}

bool tells(const Engine& engine, const NodeName& name, const NodeFacts& facts) {
  return mig::model_of(facts.model) != nullptr || facts.labels.contains(std::string(kMigConfig)) ||
         engine.tables().repartitions.contains(name);
}

void add_gpus(const Engine& engine, const NodeName& name, pb::NodeLayout& out) {
  const auto layout = engine.layout_of(name);
  if (!layout) return;
  const auto idle = engine.idle_instances(name);
  for (std::size_t gpu = 0; gpu < layout->gpus.size(); ++gpu) {
    auto* g = out.add_gpus();
    g->set_index(static_cast<std::int32_t>(gpu));
    g->set_mig_enabled(layout->gpus[gpu] != mig::kNoState);
    for (const auto& [profile, count] : mig::instances_of(*layout->model, layout->gpus[gpu])) {
      const mig::ModelProfile& known = layout->model->profiles[profile];
      auto* i = g->add_instances();
      i->set_profile(std::string(known.name));
      i->set_count(count);
      const auto free = idle[gpu].find(mig::resource_of(*layout->model, profile));
      i->set_idle(free == idle[gpu].end() ? 0 : free->second);
      i->set_memory_gb(known.memory_gb);
      i->set_sms(known.sms);
    }
  }
}

}  // namespace

Result<pb::ListLayoutsResponse> list_layouts(const Engine& engine, const pb::ListLayoutsRequest& request) {
  QM_ASSIGN(const auto size, rpc::page_size(request.page_size(), kDefaultPage, kLargestPage));
  pb::ListLayoutsResponse out;
  std::int64_t total = 0;
  for (const auto& [name, node] : engine.tables().nodes) {
    if (!request.node().empty() ? name.value() != request.node() : !tells(engine, name, node.facts)) continue;
    ++total;
    if (name.value() <= request.page_token()) continue;
    if (static_cast<std::size_t>(out.nodes_size()) == size) {
      if (out.next_page_token().empty()) out.set_next_page_token(out.nodes(out.nodes_size() - 1).node());
      continue;
    }
    auto* view = out.add_nodes();
    view->set_node(name.value());
    view->set_gpu_model(node.facts.model);
    view->set_label(label_of(node.facts, kMigConfig));
    view->set_state(label_of(node.facts, kMigState));
    if (const auto planned = engine.planned_of(name)) {
      view->mutable_planned()->insert(planned->capacity.begin(), planned->capacity.end());
      if (!planned->unknown.empty()) view->set_finding(planned->unknown);
    }
    const auto shown = advertised(node.facts);
    view->mutable_advertised()->insert(shown.begin(), shown.end());
    if (const auto finding = engine.layout_finding(name); !finding.empty()) view->set_finding(finding);
    if (const Repartition* repartition = engine.tables().repartitions.find(name);
        repartition != nullptr && repartition->order) {
      *view->mutable_order() = to_pb(*repartition->order);
      if (repartition->reserved_for) view->mutable_order()->set_request_uid(repartition->reserved_for->uid.value());
    }
    add_gpus(engine, name, *view);
  }
  out.set_total(total);
  if (!request.node().empty() && total == 0) {
    return fail(
        Error{Code::kNotFound, fmt::format("there is no node {}", request.node()), "node", "qmctl nodes lists them"});
  }
  return out;
}

}  // namespace qm::placement
