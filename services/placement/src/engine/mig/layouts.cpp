// MIG layouts of nodes: the current state, orders, and their result. A layout is an observation like any
// other: only an order changes it, and an order evicts work only in a window. Orders come from users and from
// mig_repartition.cpp.
#include "engine/mig/node_layouts.hpp"
#include "qm/placement/engine.hpp"

#include <algorithm>
#include <charconv>

namespace qm::placement {
namespace {

using relayout::Phase;
using relayout::Row;

constexpr std::int64_t kMaxReplicas = 1024, kMostGpus = 1024;  ///< larger label values are not plausible
constexpr Duration kLastGrace = std::chrono::seconds(30);      ///< minimum grace period after the time to save
constexpr std::string_view kMigMark = "-MIG-";  ///< before the profile in the product, if instances count as GPUs

std::int64_t number_in(std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return std::clamp(number, least, most);
}

/// Instances that count as GPUs, per GPU; 0 = unknown.
std::int64_t instances_each(const NodeFacts& facts, const mig::Definitions& layouts) {
  const auto mark = facts.model.find(kMigMark);
  const auto layout = mig::layout_named(std::string(label_of(facts, kMigConfig)), layouts, facts.model, 1);
  if (layout && layout->gpus[0] != mig::kNoState) {
    const auto capacity = mig::capacity_of(*layout, true);
    if (const auto gpus = capacity.find(std::string(words::kGpuResource)); gpus != capacity.end()) return gpus->second;
  }
  const mig::Model* model = mig::model_of(facts.model);
  const auto profile =
      model == nullptr ? std::nullopt : mig::profile_of(*model, facts.model.substr(mark + kMigMark.size()));
  return profile ? mig::geometry_of(model->family).profiles[*profile].most : 0;
}

bool evicts_none(const Row& row) { return row.phase == Phase::kWaiting || row.over(); }

bool holds_gpus(const GpuShape& gpu) { return !gpu.none(); }

std::string words_of(const mig::Capacity& capacity) {
  std::string out;
  for (const auto& [resource, amount] : capacity) {
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", resource, amount);
  }
  return out.empty() ? "nothing" : out;
}

}  // namespace

std::string_view label_of(const NodeFacts& facts, std::string_view key) {
  thread_local std::string text;  // called for every node
  text.assign(key);
  const auto found = facts.labels.find(text);
  return found == facts.labels.end() ? std::string_view() : found->second;
}

bool is_single(const NodeFacts& facts) { return label_of(facts, "nvidia.com/mig.strategy") == "single"; }

bool counts_instances(const NodeFacts& facts) {
  return is_single(facts) && facts.model.find(kMigMark) != std::string::npos;
}

std::int64_t replicas_of(const NodeFacts& facts, const std::string& resource) {
  return number_in(label_of(facts, resource + ".replicas"), 1, kMaxReplicas);
}

std::int32_t installed(const NodeFacts& facts, const mig::Definitions& layouts) {
  const auto replicas = static_cast<std::int32_t>(replicas_of(facts, std::string(words::kGpuResource)));
  const auto counted = std::min(facts.gpus_installed, static_cast<std::int32_t>(kMostGpus)) / replicas;
  if (counts_instances(facts)) {
    const auto each = instances_each(facts, layouts);
    const auto shown = std::max<std::int64_t>(counted, std::min<std::int64_t>(facts.gpus, kMostGpus) / replicas);
    return each == 0 ? 0 : static_cast<std::int32_t>((shown + each - 1) / each);
  }
  if (facts.labels.contains(std::string(words::kGpuCount))) {
    return static_cast<std::int32_t>(number_in(label_of(facts, words::kGpuCount), 0, kMostGpus));
  }
  return counted;
}

// ---- current state ----

mig::Capacity advertised(const NodeFacts& facts) {
  constexpr std::string_view kShared = ".shared";
  mig::Capacity out;
  const auto add = [&](std::string resource, std::int64_t amount) {
    if (resource.ends_with(kShared)) resource.resize(resource.size() - kShared.size());
    const bool ours = resource == words::kGpuResource || resource.starts_with(words::kMigPrefix);
    if (ours && amount > 0) out[resource] += amount / replicas_of(facts, resource);
  };
  add(std::string(words::kGpuResource), facts.gpus);
  for (const auto& [resource, amount] : facts.extended) add(resource, amount);
  return out;
}

std::optional<mig::NodeLayout> Engine::layout_of(const NodeName& name) const {
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const auto shown = advertised(facts);
  if (std::ranges::none_of(shown, [](const auto& item) { return item.first.starts_with(words::kMigPrefix); })) {
    return std::nullopt;
  }
  if (const std::string label(label_of(facts, kMigConfig)); !label.empty()) {
    const auto named =
        mig::layout_named(label, tables_.layouts.rows(), facts.model, installed(facts, tables_.layouts.rows()));
    if (named && mig::capacity_of(*named) == shown) return *named;
  }
  return mig::layout_showing(shown, facts.model, installed(facts, tables_.layouts.rows()));
}

std::optional<Engine::Planned> Engine::planned_of(const NodeName& name) const {
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const std::string label(label_of(facts, kMigConfig));
  if (label.empty()) return std::nullopt;
  if (installed(facts, tables_.layouts.rows()) == 0) return Planned{{}, "its number of GPUs is not known"};
  const auto layout =
      mig::layout_named(label, tables_.layouts.rows(), facts.model, installed(facts, tables_.layouts.rows()));
  if (!layout) return Planned{{}, layout.error().message};
  return Planned{mig::capacity_of(*layout, is_single(facts)), {}};
}

NodeCapacity::Instances Engine::idle_instances(const NodeName& name, const std::set<AttemptId>& gone) const {
  const auto layout = layout_of(name);
  if (!layout) return {};
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  NodeCapacity::Instances idle(layout->gpus.size());
  for (std::size_t gpu = 0; gpu < idle.size(); ++gpu) {
    for (const auto& [profile, count] : mig::instances_of(*layout->model, layout->gpus[gpu])) {
      const std::string resource = mig::resource_of(*layout->model, profile);
      idle[gpu][resource] = count * static_cast<std::int32_t>(replicas_of(facts, resource));
    }
  }
  std::map<std::string, std::int64_t> somewhere;  // held on an unknown GPU
  const auto hold = [&](const PodShape& shape, std::vector<std::int32_t> gpus) {
    if (shape.gpu.mig_count == 0) return;
    const std::string resource = std::string(words::kMigPrefix) + shape.gpu.mig_profile;
    gpus.resize(static_cast<std::size_t>(shape.gpu.mig_count), -1);
    for (const auto gpu : gpus) {
      auto* at = gpu >= 0 && gpu < std::ssize(idle) ? &idle[static_cast<std::size_t>(gpu)] : nullptr;
      const auto has = at == nullptr ? std::map<std::string, std::int32_t>::iterator() : at->find(resource);
      if (at != nullptr && has != at->end() && has->second > 0) {
        --has->second;
      } else {
        ++somewhere[resource];
      }
    }
  };
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      if (gone.contains(id)) continue;
      const Assignment& row = *tables_.assignments.find(id);
      const Member& member = row.members[position];
      std::vector<std::int32_t> gpus;
      for (const DeviceRef& device : member.devices) gpus.push_back(device.index);
      hold(row.pod_sets[static_cast<std::size_t>(member.set)].shape, std::move(gpus));
    }
  }
  const Observation* seen = tables_.observations.find(name);
  for (const Pod* pod : non_member_pods(name)) {
    std::vector<std::int32_t> gpus = pod->planned_gpus();
    if (const auto given = seen == nullptr ? std::map<std::string, std::vector<DeviceRef>>::const_iterator()
                                           : seen->pods.find(pod->facts.key());
        seen != nullptr && given != seen->pods.end()) {
      gpus.clear();
      for (const DeviceRef& device : given->second) gpus.push_back(device.index);
    }
    hold(pod->facts.shape, std::move(gpus));
  }
  for (auto& [resource, count] : somewhere) {
    for (auto& gpu : idle) {
      const auto has = gpu.find(resource);
      if (has == gpu.end()) continue;
      const auto taken = std::min<std::int64_t>(has->second, count);
      has->second -= static_cast<std::int32_t>(taken);
      count -= taken;
    }
  }
  return idle;
}

void Engine::fill_instances(const NodeName& name, NodeCapacity& node_capacity, const std::set<AttemptId>& gone) const {
  node_capacity.instances = idle_instances(name, gone);
  if (node_capacity.instances.empty()) return;
  const mig::Model& model = *mig::model_of(node_capacity.facts->model);
  for (auto& [resource, amount] : node_capacity.extended) {
    if (!resource.starts_with(words::kMigPrefix) || !mig::profile_of(model, resource)) continue;
    std::int64_t idle = 0;
    for (const auto& gpu : node_capacity.instances) {
      if (const auto has = gpu.find(resource); has != gpu.end()) idle += has->second;
    }
    amount = std::min(amount, idle);
  }
}

bool Engine::is_repartitioning(const NodeName& name) const {
  const Repartition* repartition = tables_.repartitions.find(name);
  if (repartition == nullptr || !repartition->order) return false;
  return repartition->order->phase == Phase::kStuck || !evicts_none(*repartition->order);
}

std::string Engine::layout_finding(const NodeName& name) const {
  const Repartition* repartition = tables_.repartitions.find(name);
  if (repartition == nullptr || !repartition->mismatch) return {};
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  return fmt::format("MIG_CAPACITY_MISMATCH: layout {} has {}, and the node advertises {}", label_of(facts, kMigConfig),
                     words_of(planned_of(name)->capacity), words_of(advertised(facts)));
}

// ---- orders ----

Result<Row> Engine::order_for(const NodeName& name, const std::string& layout,
                              const mig::Definitions& definitions) const {
  const Node* node = tables_.nodes.find(name);
  if (node == nullptr) {
    return fail(Error{Code::kNotFound, fmt::format("there is no node {}", name), "metadata.name",
                      "name a node of the cluster; qmctl nodes lists them"});
  }
  const NodeFacts& facts = node->facts;
  const auto where = [&](Error error) {
    error.message = fmt::format("node {}: {}", name, error.message);
    return fail(std::move(error));
  };
  if (installed(facts, definitions) == 0) {
    return where(
        {Code::kFailedPrecondition, "its number of GPUs is not known", std::string(words::kGpuCount),
         "GPU feature discovery has to label it; with the strategy single, order a layout before it is partitioned"});
  }
  auto made = mig::layout_named(layout, definitions, facts.model, installed(facts, definitions));
  if (!made) return where(made.error());
  Row row;
  row.order = {name, layout, mig::capacity_of(*made, is_single(facts)), {}, {}};
  row.since = scratch_.now;
  return row;
}

std::optional<Row> Engine::default_order(const NodeName& name, const DefaultLayout& fallback,
                                         const mig::Definitions& definitions, std::string* why_not) const {
  const Node& node = *tables_.nodes.find(name);
  const Repartition* repartition = tables_.repartitions.find(name);
  const std::string label(label_of(node.facts, kMigConfig));
  // An order that has ended is not repeated, except for a new default layout in place of the former default.
  const bool ordered =
      repartition != nullptr && repartition->order &&
      !(repartition->by_default && repartition->order->over() && repartition->order->order.layout != fallback.layout);
  if (fallback.layout.empty() || ordered || mig::model_of(node.facts.model) == nullptr ||
      label_of(node.facts, "nvidia.com/mig.capable") == "false" || label == fallback.layout ||
      (!label.empty() && !fallback.override_label)) {
    return std::nullopt;
  }
  auto order = order_for(name, fallback.layout, definitions);
  if (order) return *order;
  if (why_not != nullptr) *why_not = order.error().message;
  return std::nullopt;
}

void Engine::apply(const OrderLayouts& asked) {
  LayoutsOrdered answer;
  answer.warnings = asked.warnings;
  for (const auto& [name, definition] : asked.definitions) answer.layouts.push_back(name);
  mig::Definitions definitions = tables_.layouts.rows();
  for (const auto& [name, definition] : asked.definitions) definitions[name] = definition;
  std::map<NodeName, Row> orders;
  std::optional<Error> refused;
  const auto refuse = [&](const Error& error) {
    if (!refused) refused = error;
  };
  for (const auto& [name, layout] : asked.nodes) {
    auto order = order_for(name, layout, definitions);
    if (!order) {
      refuse(order.error());
      continue;
    }
    if (const Repartition* repartition = tables_.repartitions.find(name);
        repartition != nullptr && repartition->order && !evicts_none(*repartition->order)) {
      refuse({Code::kFailedPrecondition,
              fmt::format("node {} is being repartitioned to layout {}", name, repartition->order->order.layout),
              "metadata.name", "wait until that order has ended"});
      continue;
    }
    orders.emplace(name, std::move(*order));
  }
  for (const NodeName& name : asked.withdraw) {
    const Repartition* repartition = tables_.repartitions.find(name);
    if (repartition == nullptr || !repartition->order || repartition->order->over()) {
      refuse({Code::kNotFound, fmt::format("node {} has no layout order in progress", name), "withdraw",
              "qmctl layouts lists the orders"});
      continue;
    }
    Row row = *repartition->order;
    row.withdrawn = true;
    orders.insert_or_assign(name, std::move(row));
  }
  if (asked.otherwise) {
    for (const auto& [name, node] : tables_.nodes) {
      std::string why_not;
      if (orders.contains(name)) continue;
      if (auto order = default_order(name, *asked.otherwise, definitions, &why_not))
        orders.emplace(name, std::move(*order));
      if (!why_not.empty()) answer.warnings.push_back(std::move(why_not));
    }
  }
  if (refused) {
    scratch_.out.replies.push_back({scratch_.command, fail(std::move(*refused))});
    return;
  }
  for (auto& [name, row] : orders) {
    Repartition next;
    if (const Repartition* repartition = tables_.repartitions.find(name)) next = *repartition;
    next.order = std::move(row);
    next.written_label.clear();
    next.asked.clear();
    next.by_default = !asked.nodes.contains(name) && !asked.withdraw.contains(name);
    if (!asked.withdraw.contains(name)) next.reserved_for.reset();
    Repartition look = next;  // preview of the next action; it is executed when the node is evaluated
    (void)continue_order(name, look);
    answer.orders.push_back(*look.order);
    if (asked.dry_run) continue;
    store_repartition(name, std::move(next));
    scratch_.nodes.insert(name);
  }
  if (!asked.dry_run) {
    for (const auto& [name, definition] : asked.definitions) {
      const auto* old = tables_.layouts.find(name);
      if (old != nullptr && *old == definition) continue;
      tables_.layouts.insert(name, definition);
      for (const auto& [node, row] : tables_.nodes) scratch_.nodes.insert(node);
    }
    if (asked.otherwise && *asked.otherwise != meta().layout) tables_.meta.edit(0).layout = *asked.otherwise;
  }
  scratch_.out.replies.push_back({scratch_.command, std::move(answer)});
}

// ---- progress of orders ----

relayout::Observed Engine::seen_for_layout(const NodeName& name, const Repartition& repartition) const {
  const Node& node = *tables_.nodes.find(name);
  relayout::Observed seen;
  seen.config = label_of(node.facts, kMigConfig);
  seen.state = label_of(node.facts, kMigState);
  seen.capacity = advertised(node.facts);
  seen.cordoned = node.facts.unschedulable;
  seen.ready = node.facts.ready;
  if (const auto members = index_.members.find(name); members != index_.members.end()) {
    for (const auto& [id, position] : members->second) {
      const Assignment& row = *tables_.assignments.find(id);
      if (!holds_gpus(row.pod_sets[static_cast<std::size_t>(row.members[position].set)].shape.gpu)) continue;
      const auto asked = repartition.asked.find(id.to_string());
      // The grace period of the order is the time for saving and leaving.
      seen.occupants.push_back({id.to_string(), asked == repartition.asked.end() ? Instant{} : asked->second, false});
    }
  }
  for (const Pod* pod : non_member_pods(name)) {
    if (!pod->facts.daemon && holds_gpus(pod->facts.shape.gpu)) seen.occupants.push_back({pod->facts.key(), {}, true});
  }
  return seen;
}

// A gang leaves as a whole, by an eviction order of admission, with time to save. A gang with checkpoints
// first gets a save order from the autoscaler, as before a spot interruption, which also evicts it. Pods
// without admission are deleted by us. Pods of other owners stay: the order waits for them, and fails at the
// end of its window.
void Engine::drain_for_layout(const NodeName& name, const std::string& occupant, Repartition& next) {
  const auto members = index_.members.find(name);
  if (members == index_.members.end()) return;
  for (const auto& [id, position] : std::set<MemberRef>(members->second)) {
    if (id.to_string() != occupant) continue;
    next.asked[occupant] = scratch_.now;
    const Workload* workload = tables_.workloads.find(id.uid);
    const Instant deadline = scratch_.now + options_.layout_limits.save;
    if (workload != nullptr && workload->spec.labels.contains(kUnadmitted)) {
      for (const Pod* pod : pods_of(id)) {
        if (pod->delete_sent || pod->facts.deleting || pod->facts.terminal()) continue;
        const auto grace = std::chrono::duration_cast<std::chrono::seconds>(options_.layout_limits.save).count();
        tables_.pods.edit(pod->facts.uid).delete_sent = true;
        send(DeletePod{pod->facts.ns, pod->facts.name, pod->facts.uid, grace, deadline});
      }
      return;
    }
    const bool saves = workload != nullptr && workload->attempt == id.attempt && workload->spec.checkpoints;
    request_layout_eviction(id, name, next, saves ? deadline : Instant{});
    return;
  }
}

void Engine::request_layout_eviction(const AttemptId& id, const NodeName& name, const Repartition& next,
                                     Instant save_until) {
  Assignment row = *tables_.assignments.find(id);
  request_eviction(
      id, row,
      {"MigLayout", fmt::format("the GPUs of node {} are repartitioned to {}", name, next.order->order.layout),
       std::max(next.asked.at(id.to_string()) + options_.layout_limits.save, scratch_.now + kLastGrace), name, false,
       save_until});
  store(id, std::move(row));
}

// The ranks were asked to save, and no eviction has followed: evict without saving.
void Engine::force_evict(const NodeName& name, const std::string& occupant, const Repartition& next) {
  const auto members = index_.members.find(name);
  if (members == index_.members.end()) return;
  for (const auto& [id, position] : std::set<MemberRef>(members->second)) {
    const Assignment& row = *tables_.assignments.find(id);
    if (id.to_string() != occupant || !row.eviction || row.eviction->save_until == Instant{}) continue;
    return request_layout_eviction(id, name, next, {});
  }
}

std::vector<relayout::Action> Engine::continue_order(const NodeName& name, Repartition& next) const {
  Row& order = *next.order;
  const relayout::Observed seen = seen_for_layout(name, next);
  // Work is evicted only in a window; idle GPUs need none. An order for a pending workload has no window.
  if (order.phase == Phase::kWaiting && (seen.occupants.empty() || next.reserved_for)) {
    order.order.from = order.order.until = {};
  } else if (order.phase == Phase::kWaiting && order.order.until <= scratch_.now) {
    std::tie(order.order.from, order.order.until) = relayout::next_window(options_.layout_windows, scratch_.now);
  }
  relayout::Step step = relayout::advance(order, seen, scratch_.now, options_.layout_limits);
  if (step.row.phase != order.phase) next.written_label.clear();
  next.wake = step.row.over() ? Instant{} : step.wake_at;
  order = std::move(step.row);
  if (order.over()) next.asked.clear();
  return std::move(step.actions);
}

void Engine::compare_capacity(const NodeName& name, Repartition& next) const {
  const NodeFacts& facts = tables_.nodes.find(name)->facts;
  const std::string state(label_of(facts, kMigState));
  const bool settled = (state.empty() || state == "success") && (!next.order || evicts_none(*next.order));
  const auto planned = settled ? planned_of(name) : std::nullopt;
  if (!planned || !planned->unknown.empty() || !facts.ready || planned->capacity == advertised(facts)) {
    next.differs_since = {};
    next.mismatch = false;
    return;
  }
  if (next.differs_since == Instant{}) next.differs_since = scratch_.now;
  const Instant due = next.differs_since + options_.layout_limits.verify;
  next.mismatch = due <= scratch_.now;
  if (!next.mismatch && (next.wake == Instant{} || due < next.wake)) next.wake = due;
}

void Engine::reconcile_layout(const NodeName& name) {
  Repartition next;
  if (const Repartition* repartition = tables_.repartitions.find(name)) next = *repartition;
  next.wake = {};
  if (auto order = default_order(name, meta().layout, tables_.layouts.rows(), nullptr)) {
    next = {};
    next.order = std::move(order);
    next.by_default = true;
  }
  const bool kept = next.reserved_for && next.reserved_for->waits;
  if (next.order) {
    review_hold(name, next);
    for (const relayout::Action& action : continue_order(name, next)) {
      if (const auto* label = std::get_if<relayout::Label>(&action);
          label != nullptr && next.written_label != label->layout) {
        next.written_label = label->layout;
        send(LabelNode{name, label->layout});
      }
      if (const auto* save = std::get_if<relayout::Save>(&action)) drain_for_layout(name, save->pod, next);
      if (const auto* evict = std::get_if<relayout::Evict>(&action)) force_evict(name, evict->pod, next);
    }
    review_hold(name, next);
  }
  scratch_.demand = scratch_.demand || (kept && !next.reserved_for->waits);
  compare_capacity(name, next);
  store_repartition(name, std::move(next));
}

void Engine::store_repartition(const NodeName& name, Repartition next) {
  const Repartition* old = tables_.repartitions.find(name);
  if (next.wake != Instant{}) {
    index_.with_layout_timer.insert(name);
  } else {
    index_.with_layout_timer.erase(name);
  }
  if (old != nullptr && old->reserved_for && old->reserved_for->waits)
    index_repartitioned_for(old->reserved_for->uid, name, false);
  if (next.reserved_for && next.reserved_for->waits) index_repartitioned_for(next.reserved_for->uid, name, true);
  if (next == Repartition{}) {
    if (old != nullptr) tables_.repartitions.erase(name);
  } else if (old == nullptr || *old != next) {
    tables_.repartitions.insert(name, std::move(next));
  }
}

}  // namespace qm::placement
