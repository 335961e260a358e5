#include "qm/cost/observer.hpp"

#include "qm/base/log.hpp"
#include "qm/config/needs.hpp"
#include "qm/cost/shell.hpp"
#include "qm/model/quantity.hpp"

#include <algorithm>
#include <charconv>
#include <thread>

namespace qm::cost {
namespace {

constexpr std::int32_t kWhole = 1000;
constexpr Duration kRemembered = std::chrono::hours(48);

std::int64_t instant_of(const Json& text) {
  const auto at = from_rfc3339(text.string());
  return at ? micros(*at) : 0;
}

std::string id_of_node(const Json& node) {
  const auto& provider = node["spec"]["providerID"].string();
  return provider.empty() ? "node-" + kube::uid_of(node) : provider.substr(provider.rfind('/') + 1);
}

bool ended(const Json& pod) {
  const auto& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}

/// When the last container ended; 0 if none has an end time.
std::int64_t end_of(const Json& pod) {
  std::int64_t end = 0;
  for (const auto& container : pod["status"]["containerStatuses"].items()) {
    end = std::max(end, instant_of(container["state"]["terminated"]["finishedAt"]));
  }
  return end;
}

std::string owner_of(const Json& pod) {
  for (const auto& owner : pod["metadata"]["ownerReferences"].items()) {
    if (owner["controller"].boolean()) return owner["name"].string();
  }
  const auto group = kube::label(pod, "kueue.x-k8s.io/pod-group-name");
  return group.empty() ? kube::name_of(pod) : group;
}

}  // namespace

Result<std::vector<Engine::Command>> from_observed(const std::string& name, const Json& input) {
  std::vector<Engine::Command> out;
  const auto version = static_cast<std::uint64_t>(input["version"].integer());
  if (name == "observed.node") {
    const InstanceId id(input["id"].string());
    const NodeName node(input["node"].string());
    if (id.empty() || node.empty()) return fail({Code::kInvalid, "an observed node has no name", "id", {}});
    const auto gpus = static_cast<std::int32_t>(input["gpus"].integer());
    out.push_back(InstanceUpdated{id, ClaimName(id.value()), version, input["type"].string(), input["zone"].string(),
                                  input["market"].string(), node, gpus, from_micros(input["launched_us"].integer()),
                                  from_micros(input["stopped_us"].integer())});
    if (const auto since = input["since_us"].integer(); since > 0) {
      const auto state = input["ready"].boolean()      ? NodeState::kReady
                         : input["cordoned"].boolean() ? NodeState::kDraining
                                                       : NodeState::kNotReady;
      out.push_back(NodeUpdated{node, id, state, from_micros(since), gpus, version});
    }
    return out;
  }
  AssignmentUpdated update;
  update.id = AttemptId{WorkloadUid(input["uid"].string()), 1};
  update.version = version;
  const auto& ns = input["namespace"].string();
  const auto& team = input["team"].string();
  update.owner = Owner{team.empty() ? ns : team, ns, input["workload"].string(), input["uid"].string()};
  Member member{NodeName(input["node"].string()),
                {},
                from_micros(input["bound_us"].integer()),
                from_micros(input["released_us"].integer())};
  if (update.id.uid.empty() || member.node.empty()) {
    return fail({Code::kInvalid, "an observed pod has no uid or no node", "uid", {}});
  }
  for (const auto& device : input["devices"].items()) {
    member.devices.push_back({static_cast<std::int32_t>(device.at(0).integer()),
                              static_cast<std::int32_t>(std::clamp<std::int64_t>(device.at(1).integer(), 0, kWhole))});
  }
  update.members.push_back(std::move(member));
  out.emplace_back(std::move(update));
  return out;
}

Observer::Observer(kube::Client& client, service::Host& host, const DomainClock& clock)
    : host_(host),
      clock_(clock),
      nodes_(client, kube::resources::kNodes, "",
             {[this](const Json& node, bool deleted) { on_node(node, deleted); }, [this] { nodes_listed(); }, {}}),
      pods_(client, kube::resources::kPods, "",
            {[this](const Json& pod, bool deleted) { on_pod(pod, deleted); }, [this] { pods_listed(); }, {}}) {}

Observer::~Observer() { stop(); }

void Observer::start() {
  restore();
  nodes_.start();
  pods_.start();
}

void Observer::stop() {
  stopping_ = true;
  nodes_.stop();
  pods_.stop();
}

void Observer::restore() {
  host_.read([this](const service::Shell& shell) {
    const auto& state = engine_of(shell).state();
    for (const auto& [id, row] : state.instances) {
      if (row.stopped != Instant{}) continue;
      open_nodes_[id.value()] = Json::object({{"id", id.value()},
                                              {"node", row.node.value()},
                                              {"type", row.type},
                                              {"zone", row.zone},
                                              {"market", row.capacity_type},
                                              {"gpus", row.gpus},
                                              {"launched_us", micros(row.launched)}})
                                    .dump();
    }
    for (const auto& [id, row] : state.assignments) {
      for (const auto& member : row.members) {
        if (member.released != Instant{}) continue;
        Held held{{}, micros(member.bound), 0};
        for (const auto& device : member.devices) held.devices.emplace_back(device.index, device.milli);
        open_pods_[id.uid.value()] = Json::object({{"namespace", row.owner.ns},
                                                   {"team", row.owner.team},
                                                   {"workload", row.owner.workload},
                                                   {"node", member.node.value()},
                                                   {"bound_us", micros(member.bound)},
                                                   {"version", static_cast<std::int64_t>(row.version)}})
                                         .dump();
        held_[member.node.value()][id.uid.value()] = std::move(held);
      }
    }
  });
}

void Observer::send(const char* name, const Json& input) {
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = name;
  in.bytes = input.dump();
  while (!stopping_ && !host_.submit(in)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void Observer::on_node(const Json& node, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const auto id = id_of_node(node);
  const auto launched = instant_of(node["metadata"]["creationTimestamp"]);
  if (launched == 0) return;
  if (deleted) {
    present_nodes_.erase(id);
  } else {
    present_nodes_.insert(id);
  }
  const auto& allocatable = node["status"]["allocatable"];
  const auto gpus = Quantity::parse(allocatable[words::kGpuResource].string());
  Json out = Json::object({{"id", id},
                           {"node", kube::name_of(node)},
                           {"type", kube::label(node, words::kInstanceType)},
                           {"zone", kube::label(node, words::kZone)},
                           {"market", kube::label(node, words::kCapacityType)},
                           {"gpus", gpus ? gpus->units() : 0},
                           {"launched_us", launched},
                           {"stopped_us", deleted ? micros(clock_.now()) : 0}});
  for (const auto& condition : node["status"]["conditions"].items()) {
    if (condition["type"].string() != "Ready") continue;
    const bool cordoned = node["spec"]["unschedulable"].boolean();
    out.set("ready", condition["status"].string() == "True" && !cordoned);
    out.set("cordoned", cordoned);
    // A cordon and its end have no time of their own: it is the time when they were first observed.
    const auto since = std::max(instant_of(condition["lastTransitionTime"]), launched);
    auto& known = cordons_[id];
    if (known.first != cordoned) known = {cordoned, micros(clock_.now())};
    out.set("since_us", std::max(since, known.second));
  }
  // A kubelet updates its node every few seconds, mostly as a heartbeat.
  auto print = out.dump();
  auto& published = published_[id];
  if (published == print) return;
  published = std::move(print);
  out.set("version", micros(clock_.now()));
  send("observed.node", out);
  if (!deleted) return;
  published_.erase(id);
  cordons_.erase(id);
}

Observer::Held* Observer::hold(const Json& pod, std::int64_t begin, std::int64_t end) {
  const auto uid = kube::uid_of(pod);
  auto& on_node = held_[pod["spec"]["nodeName"].string()];
  if (const auto known = on_node.find(uid); known != on_node.end()) return &known->second;
  const auto shape = config::shape_held_by(pod);
  if (!shape || shape->gpu.none()) return nullptr;
  const std::int64_t old = micros(clock_.now() - kRemembered);
  std::erase_if(on_node, [&](const auto& entry) { return entry.second.end != 0 && entry.second.end < old; });
  Held held{{}, begin, end};
  const std::string planned = kube::annotation(pod, words::kDevices);
  const std::int32_t milli = shape->gpu.milli > 0 ? static_cast<std::int32_t>(shape->gpu.milli) : kWhole;
  const std::int64_t count = shape->gpu.milli > 0 ? 1 : std::max(shape->gpu.whole, shape->gpu.mig_count);
  // The devices that other pods held at any moment of that time.
  std::map<std::int32_t, std::int32_t> used;
  for (const auto& [other, theirs] : on_node) {
    if ((theirs.end != 0 && theirs.end <= begin) || (end != 0 && end <= theirs.begin)) continue;
    for (const auto& [index, share] : theirs.devices) used[index] += share;
  }
  const auto take = [&](std::int32_t index) {
    const bool more = static_cast<std::int64_t>(held.devices.size()) < count;
    if (!more || index < 0 || index >= kMostDevices || used[index] + milli > kWhole) return;
    used[index] += milli;
    held.devices.emplace_back(index, milli);
  };
  // The annotation is input of the pod's author too: it selects among free devices, but neither their number nor
  // devices of others.
  for (std::string_view rest = planned; !rest.empty();) {
    const auto comma = rest.find(',');
    std::int32_t index = -1;
    const auto part = rest.substr(0, comma);
    std::from_chars(part.data(), part.data() + part.size(), index);
    take(index);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  for (std::int32_t index = 0; index < kMostDevices; ++index) take(index);
  return &(on_node[uid] = std::move(held));
}

void Observer::on_pod(const Json& pod, bool deleted) {
  const std::scoped_lock lock(mutex_);
  const auto uid = kube::uid_of(pod);
  if (deleted) {
    present_pods_.erase(uid);
  } else {
    present_pods_.insert(uid);
  }
  open_pods_.erase(uid);
  if (pod["spec"]["nodeName"].string().empty()) return;
  const bool over = deleted || ended(pod);
  auto begin = instant_of(pod["status"]["startTime"]);
  if (begin == 0 && !over) return;  // bound, and the kubelet has not started it yet
  if (begin == 0) begin = instant_of(pod["metadata"]["creationTimestamp"]);
  std::int64_t end = 0;
  if (over) {
    end = end_of(pod);
    if (end == 0) end = micros(clock_.now());
    end = std::max(end, begin);
  }
  // Usage that ended before it was observed counts too, if it has a start and an end.
  auto* held = hold(pod, begin, end);
  if (held == nullptr) return;
  if (over && held->end == 0) held->end = end;
  Json devices = Json::array();
  for (const auto& [index, milli] : held->devices) devices.push_back(Json::array({index, milli}));
  send("observed.pod", Json::object({{"uid", uid},
                                     {"namespace", kube::namespace_of(pod)},
                                     {"team", kube::label(pod, words::kTeamLabel)},
                                     {"workload", owner_of(pod)},
                                     {"node", pod["spec"]["nodeName"].string()},
                                     {"bound_us", begin},
                                     {"released_us", end},
                                     {"devices", std::move(devices)},
                                     {"version", over ? std::int64_t{2} : std::int64_t{1}}}));
}

void Observer::nodes_listed() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, text] : std::exchange(open_nodes_, {})) {
    if (present_nodes_.contains(id)) continue;
    log::warn("an instance ended between two observations", {{"instance", id}});
    Json out = Json::parse(text).value_or(Json());
    out.set("stopped_us", micros(clock_.now()));
    out.set("version", micros(clock_.now()));
    send("observed.node", out);
  }
}

void Observer::pods_listed() {
  const std::scoped_lock lock(mutex_);
  for (const auto& [uid, text] : std::exchange(open_pods_, {})) {
    if (present_pods_.contains(uid)) continue;
    Json out = Json::parse(text).value_or(Json());
    auto& held = held_[out["node"].string()][uid];
    held.end = micros(clock_.now());
    Json devices = Json::array();
    for (const auto& [index, milli] : held.devices) devices.push_back(Json::array({index, milli}));
    out.set("uid", uid);
    out.set("released_us", held.end);
    out.set("devices", std::move(devices));
    out.set("version", 2);
    send("observed.pod", out);
  }
}

}  // namespace qm::cost
