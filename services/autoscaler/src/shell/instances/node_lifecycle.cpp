#include "qm/autoscaler/nodes/node_lifecycle.hpp"

#include "instances/node_patch.hpp"
#include "observed.hpp"
#include "qm/autoscaler/nodes/node_watch.hpp"
#include "qm/autoscaler/requirements/keys.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"
#include "qm/model/launched_for.hpp"
#include "qm/model/pod_owner.hpp"

#include <algorithm>

namespace qm::autoscaler {
namespace {

constexpr std::string_view kRegisteredLabel = "karpenter.sh/registered", kInitializedLabel = "karpenter.sh/initialized";
constexpr double kConsistentShare = 0.9;  // of the expected amount

const NodeRow* node_of(const Tables& t, const Claim& c) {
  const NodeRow* node = c.node.empty() ? nullptr : t.nodes.find(c.node);
  return node != nullptr && node->known && (node->instance.empty() || node->instance == c.instance) ? node : nullptr;
}

const NodeDetails* details_of(const Tables& t, const Claim& c) {
  const NodeDetails* details = c.node.empty() ? nullptr : t.node_details.find(c.node);
  return details != nullptr && (details->instance.empty() || details->instance == c.instance) ? details : nullptr;
}

bool has_taint(const NodeDetails& details, std::string_view key) {
  return std::ranges::any_of(details.taints, [&](const Taint& taint) { return taint.key == key; });
}

/// The labels of its NodePool and those that were chosen at the launch, as far as its kubelet may not set them.
Labels labels_of(const Tables& t, const Claim& c) {
  Labels out = c.labels;
  if (const Pool* pool = t.pools.find(c.pool); pool != nullptr) out.insert(pool->labels.begin(), pool->labels.end());
  std::erase_if(out, [](const auto& label) { return !is_kubernetes_label(label.first); });
  return out;
}

/// The workloads whose pods are planned on these instances, as the text of the annotation.
std::map<ClaimName, std::string> launched_for(const Tables& t, const std::set<ClaimName>& claims) {
  std::map<ClaimName, std::string> out;
  for (const auto& [uid, plan] : t.plans) {
    std::set<ClaimName> here;
    for (const Plan::Place& place : plan.places) {
      if (plan.promised_attempt == 0 || !claims.contains(place.claim) || !here.insert(place.claim).second) continue;
      std::string& text = out[place.claim];
      text += (text.empty() ? "" : ",") + uid.value();
    }
  }
  return out;
}

/// How the node is smaller than its type; empty = it is not.
std::string inconsistency(const NodeDetails& details, const InstanceType& type) {
  const auto compare = [&](const std::string& name, std::int64_t expected, std::int64_t found) {
    if (expected <= 0 || static_cast<double>(found) >= kConsistentShare * static_cast<double>(expected))
      return std::string();
    return fmt::format("expected {} of resource {}, but found {} ({:.1f}% of expected)", expected, name, found,
                       100.0 * static_cast<double>(found) / static_cast<double>(expected));
  };
  const auto amount = [](const std::map<std::string, std::int64_t>& amounts, const std::string& name) {
    const auto at = amounts.find(name);
    return at == amounts.end() ? std::int64_t{0} : at->second;
  };
  if (details.capacity.empty()) return {};
  auto text = compare("cpu", type.cpu_milli + type.reserved_cpu_milli, amount(details.capacity, "cpu"));
  if (text.empty())
    text = compare("memory", type.memory_bytes + type.reserved_memory_bytes, amount(details.capacity, "memory"));
  const std::string gpu(words::kGpuResource);
  // A GPU that the device plugin has not registered yet is not a difference.
  if (text.empty() && amount(details.allocatable, gpu) > 0)
    text = compare(gpu, type.gpus, amount(details.allocatable, gpu));
  return text;
}

/// For other clients: the engine nominates pods before the last taint is gone.
bool is_initialized(const Claim& c, const NodeDetails* details) {
  return c.life.initialized && (details == nullptr || !has_taint(*details, kNominatingTaint));
}

bool serves(const Claim& c) {
  return c.state == ClaimState::kReady || c.state == ClaimState::kDraining || c.state == ClaimState::kTerminating;
}

}  // namespace

DrainPod drain_pod_of(const Json& pod) {
  DrainPod out;
  out.ns = kube::namespace_of(pod);
  out.name = kube::name_of(pod);
  out.uid = kube::uid_of(pod);
  const auto started = from_rfc3339(pod["status"]["startTime"].string());
  out.holding = {out.ns + "/" + out.name, do_not_disrupt_of(pod), started ? *started : Instant{}, ""};
  const Json& grace = pod["spec"]["terminationGracePeriodSeconds"];
  out.grace = std::chrono::seconds(grace.is_null() ? 30 : grace.integer());
  const std::string& priority = pod["spec"]["priorityClassName"].string();
  out.critical = priority == "system-cluster-critical" || priority == "system-node-critical";
  out.stays = stays_on_drained_node(pod);
  const std::string& deletion = pod["metadata"]["deletionTimestamp"].string();
  out.terminating = !deletion.empty();
  if (const auto at = from_rfc3339(deletion); at) out.deleted_by = *at;
  return out;
}

std::vector<Condition> claim_conditions(const Engine& engine, const Claim& c) {
  const Tables& t = engine.tables();
  const Pool* pool = t.pools.find(c.pool);
  const NodeRow* node = node_of(t, c);
  const NodeDetails* details = details_of(t, c);
  ConditionInputs in;
  in.launched = !c.instance.empty();
  in.node.exists = node != nullptr;
  in.node.ready = node != nullptr && node->ready;
  if (details != nullptr) in.node.taints = details->taints, in.node.allocatable = details->allocatable;
  if (pool != nullptr) in.expected.startup_taints = pool->lifecycle.startup_taints;
  in.expected.startup_taints.push_back({std::string(kNominatingTaint), "", "NoSchedule"});
  in.expected.resources = c.life.resources;
  in.initialized = is_initialized(c, details);
  in.drift = c.life.drift;
  in.drift_message = c.life.drift_message;
  if (pool != nullptr && node != nullptr && pool->consolidate_empty) {
    const NodePods* pods = t.node_pods.find(c.node);
    const bool in_use = !node->empty_since && pool->consolidate_underutilized && pods != nullptr;
    const Instant since = node->empty_since ? *node->empty_since : in_use ? pods->changed : engine.now();
    in.consolidatable = (node->empty_since || in_use) && since + pool->consolidate_after <= engine.now();
  }
  in.disruption = c.life.disruption;
  const InstanceType* type = engine.type(c.type);
  if (details != nullptr && type != nullptr && c.life.initialized) in.inconsistent = inconsistency(*details, *type);
  in.draining = c.state == ClaimState::kDraining;
  in.pods = node == nullptr ? 0 : node->pods;
  in.terminating = c.state == ClaimState::kTerminating;
  return node_claim_conditions(in);
}

NodeLifecycle::NodeLifecycle(kube::Client& client, ReadEngine read, const DomainClock& clock, Options options)
    : client_(client),
      read_(std::move(read)),
      clock_(clock),
      options_(options),
      status_(
          client, [] { return Result<kube::Resource>(kube::resources::kNodeClaims); }, clock) {}

NodeLifecycle::~NodeLifecycle() { stop(); }

void NodeLifecycle::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pass();
      sleep_unless_stopped(options_.period, stop);
    }
  });
}

void NodeLifecycle::stop() { thread_ = {}; }

// Only what may differ from the API server leaves the lock.
std::vector<NodeLifecycle::Wanted> NodeLifecycle::wanted() const {
  std::vector<Wanted> out;
  read_([&](const Engine& engine) {
    const Tables& t = engine.tables();
    std::set<ClaimName> starting;
    for (const auto& [name, c] : t.claims) {
      if (c.pool.empty() || c.state == ClaimState::kGone || c.state == ClaimState::kFailed) continue;
      Wanted want;
      want.claim = name;
      want.image = c.life.image;
      const NodeDetails* details = details_of(t, c);
      if (details != nullptr && node_of(t, c) != nullptr) {
        want.node = c.node.value();
        want.registers = has_taint(*details, kUnregisteredTaint);
        want.starts = !c.life.initialized;
        if (want.starts) starting.insert(name);
        want.initialized = is_initialized(c, details);
        if (want.registers || (want.initialized && !labeled_.contains(name))) want.labels = labels_of(t, c);
        const bool ends =
            c.state == ClaimState::kDraining || c.state == ClaimState::kTerminating || !c.life.disruption.empty();
        if (serves(c) && ends != has_taint(*details, kDisruptedTaint)) want.disrupted_taint = ends;
      }
      if (c.group.empty()) want.conditions = claim_conditions(engine, c);
      out.push_back(std::move(want));
    }
    if (starting.empty()) return;
    auto uids = launched_for(t, starting);
    for (Wanted& want : out) want.launched_for = std::move(uids[want.claim]);
  });
  return out;
}

std::vector<NodeLifecycle::Leaving> NodeLifecycle::leaving() const {
  std::map<NodeName, Leaving> nodes;
  read_([&](const Engine& engine) {
    const Tables& t = engine.tables();
    for (const auto& [name, row] : t.nodes) {
      const auto by = row.known ? engine.pods_leave_by(row) : std::nullopt;
      if (by) nodes.emplace(name, Leaving{name.value(), by, true, false, {}});
    }
    for (const auto& [name, c] : t.claims) {
      if (!c.evicts_pods() || details_of(t, c) == nullptr || node_of(t, c) == nullptr) continue;
      const bool scaled_down = c.life.disruption == kScaleDown;
      nodes.emplace(c.node, Leaving{c.node.value(), c.life.deadline, false, scaled_down, {}});
    }
    for (const auto& [id, attempt] : t.attempts) {
      for (const NodeName& node : attempt.nodes) {
        if (const auto at = nodes.find(node); at != nodes.end()) at->second.gangs.insert(id.uid.value());
      }
    }
  });
  std::vector<Leaving> out;
  for (auto& [name, node] : nodes) out.push_back(std::move(node));
  return out;
}

void NodeLifecycle::pass() {
  const auto all = wanted();
  std::set<ConditionWriter::Key> claims;
  for (const Wanted& want : all) {
    const ConditionWriter::Key key{"", want.claim.value()};
    claims.insert(key);
    if (options_.writes_status) {
      Json others = Json::object();
      if (!want.image.empty()) others.set("imageID", want.image);
      if (!want.conditions.empty()) status_.write(key, want.conditions, others);
      if (!want.node.empty()) write_node(want);
    }
  }
  for (const Leaving& node : leaving()) drain(node);
  status_.forget_others(claims);
  std::erase_if(labeled_, [&](const ClaimName& claim) { return !claims.contains({"", claim.value()}); });
  std::erase_if(launched_for_, [&](const auto& one) { return !claims.contains({"", one.first.value()}); });
  if (drained_.size() > all.size()) drained_.clear();
}

void NodeLifecycle::write_node(const Wanted& want) {
  const bool labels = want.initialized && !labeled_.contains(want.claim);
  const auto named = launched_for_.find(want.claim);
  const bool plans = want.starts && (named == launched_for_.end() ? "" : named->second) != want.launched_for;
  if (!want.registers && !want.disrupted_taint && !labels && !plans) return;
  const auto node = client_.get(kube::resources::kNodes, "", want.node);
  if (!node) {
    if (node.error().code != Code::kNotFound)
      log::warn("a node cannot be read", {{"node", want.node}, {"error", node.error().to_string()}});
    return;
  }
  const std::vector<Taint> before = details_of_node(*node).taints;
  std::vector<Taint> after = before;
  const Taint disrupted{std::string(kDisruptedTaint), "", "NoSchedule"};
  std::erase_if(after, [&](const Taint& taint) {
    return taint.key == kUnregisteredTaint || (taint.key == kDisruptedTaint && want.disrupted_taint == false);
  });
  const bool tainted = std::ranges::any_of(after, [](const Taint& taint) { return taint.key == kDisruptedTaint; });
  if (want.disrupted_taint == true && !tainted) after.push_back(disrupted);
  Json set = Json::object();
  for (const auto label : {kRegisteredLabel, kInitializedLabel}) {
    const bool wanted = label == kRegisteredLabel || want.initialized;
    if (wanted && kube::label(*node, label) != "true") set.set(std::string(label), "true");
  }
  const bool registered = kube::label(*node, kRegisteredLabel) == "true";
  for (const auto& [key, value] : want.labels) {
    if (!registered && kube::label(*node, key) != value) set.set(key, value);
  }
  Json annotations = Json::object();
  if (want.starts && kube::annotation(*node, words::kLaunchedFor) != want.launched_for)
    annotations.set(std::string(words::kLaunchedFor), want.launched_for.empty() ? Json() : Json(want.launched_for));
  const bool differs = after != before || set.size() > 0 || annotations.size() > 0;
  if (differs && !patch_node(client_, *node, after, std::move(set), std::move(annotations))) return;
  if (want.initialized) labeled_.insert(want.claim);
  if (want.starts) launched_for_[want.claim] = want.launched_for;
}

void NodeLifecycle::drain(const Leaving& from) {
  const auto steady = std::chrono::steady_clock::now();
  SteadyInstant& last = drained_[from.node];
  if (last != SteadyInstant{} && steady - last < options_.drain_period) return;
  last = steady;
  kube::ListOptions ask;
  ask.field_selector = "spec.nodeName=" + from.node;
  std::vector<DrainPod> pods;
  do {
    const auto list = client_.list(kube::resources::kPods, "", ask);
    if (!list) return;  // the next pass reads again
    for (const Json& pod : list->items) {
      const bool saves = from.taken && from.gangs.contains(kube::annotation(pod, words::kWorkload));
      if (!saves) pods.push_back(drain_pod_of(pod));
    }
    ask.continue_token = list->continue_token;
  } while (!ask.continue_token.empty());
  for (const DrainStep& step : next_steps(pods, from.deadline, clock_.now()).steps) {
    const DrainPod& pod = pods[step.pod];
    const bool evicts = step.kind == DrainStep::Kind::kEvict;
    if (evicts && !from.taken && !from.gangs.empty()) continue;
    const bool shortened = evicts && from.scaled_down && pod.grace > options_.most_grace;
    const int grace = shortened ? static_cast<int>(seconds(options_.most_grace)) : -1;
    const Status done = evicts ? client_.evict(pod.ns, pod.name, grace, pod.uid)
                               : client_.remove(kube::resources::kPods, pod.ns, pod.name,
                                                {pod.uid, static_cast<int>(step.grace_seconds), "Background"});
    if (done) {
      log::info(evicts ? "a pod is evicted" : "a pod is deleted, because its node ends",
                {{"node", from.node}, {"namespace", pod.ns}, {"pod", pod.name}});
    } else if (done.error().code != Code::kExhausted && done.error().code != Code::kNotFound) {
      log::warn("a pod is not evicted",
                {{"namespace", pod.ns}, {"pod", pod.name}, {"error", done.error().to_string()}});
    }
  }
}

}  // namespace qm::autoscaler
