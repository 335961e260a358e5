// Pods on their nodes: devices, start, steps, and all reasons to end.
#include "cluster.hpp"
#include "job_controller.hpp"
#include "qm/base/digest.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr std::string_view kRunSeconds = "fleet.quartermaster.dev/run-seconds";
constexpr std::string_view kExitCode = "fleet.quartermaster.dev/exit-code";
constexpr std::string_view kUtilization = "fleet.quartermaster.dev/gpu-util";  // percent

std::int64_t number_of(const Json& value, std::int64_t fallback) {
  return value.is_int() ? value.integer() : whole_number(value.string()).value_or(fallback);
}

/// "fleet://ns/job?step=120" -> 120.
std::int64_t resume_step(const std::string& uri) {
  const auto at = uri.find("?step=");
  return at == std::string::npos ? 0 : whole_number(std::string_view(uri).substr(at + 6)).value_or(0);
}

/// The fields at the start of each history line about a pod.
Json::Object identity(const PodState& state) {
  return {{"uid", state.uid},     {"pod", state.ns + "/" + state.name},
          {"owner", state.owner}, {"attempt", state.attempt},
          {"index", state.index}, {"node", state.node}};
}

void set_container(Json& pod, std::string_view state, Json details) {
  const Json& container = pod["spec"]["containers"].at(0);
  Json status = Json::object({{"name", container["name"]},
                              {"image", container["image"]},
                              {"ready", state == "running"},
                              {"restartCount", 0},
                              {"state", Json::object({{std::string(state), std::move(details)}})}});
  pod.set("status").set("containerStatuses", Json::array({std::move(status)}));
}

}  // namespace

std::int64_t gpus_wanted(const Json& pod_spec, std::string_view resource) {
  std::int64_t total = 0;
  for (const Json& container : pod_spec["containers"].items()) {
    const Json& limit = container["resources"]["limits"][resource];
    total += number_of(limit.is_null() ? container["resources"]["requests"][resource] : limit, 0);
  }
  return total;
}

Cluster::Cluster(World& world, ObjectStore& store, Options options)
    : world_(world), store_(store), options_(options), pods_kind_(kind_of("pods")), nodes_kind_(kind_of("nodes")) {
  world_.listen([this](const Instance& instance, InstanceEvent event) { on_instance(instance, event); });
  store_.observe(
      [this](const Kind& kind, const ObjectPtr& before, const ObjectPtr& after) { on_change(kind, before, after); });
}

void Cluster::on_change(const Kind& kind, const ObjectPtr& before, const ObjectPtr& after) {
  if (&kind != &pods_kind_) {
    if (&kind == &nodes_kind_ && after) on_layout(before, after);
    if (kind.plural == "nodeclaims" && !before) world_.record("claim_create", {{"name", name_of(*after)}});
    return;
  }
  const Json& pod = after ? *after : *before;
  if (pod["spec"]["nodeName"].string().empty()) return;
  const bool bound = after && (!before || (*before)["spec"]["nodeName"].string().empty());
  const bool deleting = after && is_deleting(*after) && before && !is_deleting(*before);
  if (!bound && !deleting && after) return;
  world_.post([this, ns = namespace_of(pod), name = name_of(pod), uid = uid_of(pod)] { sync(ns, name, uid); });
}

void Cluster::sync(const std::string& ns, const std::string& name, const std::string& uid) {
  const auto object = store_.find(pods_kind_, ns, name);
  PodState* const state = find_in(pods_, uid);
  if (!object || uid_of(*object) != uid) {
    if (state == nullptr) return;
    leave_gang(*state, false);
    end(uid, "Deleted");
    return;
  }
  if (is_finished(*object)) return;
  const NodeState* home = node((*object)["spec"]["nodeName"].string());
  if (home == nullptr) {
    // Bound to a node that does not exist: deleted after a while, unless the node registers.
    world_.after(options_.loss_detected, [this, ns, name, uid] {
      const auto pod = store_.find(pods_kind_, ns, name);
      if (!pod || uid_of(*pod) != uid || is_finished(*pod)) return;
      if (node((*pod)["spec"]["nodeName"].string()) != nullptr) return sync(ns, name, uid);
      fail_lost(pod);
      (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
    });
    return;
  }
  if (!home->up) return;  // the loss of the node ends it
  if (!is_deleting(*object)) {
    if (state == nullptr) accept(*object);
    return;
  }
  if (state == nullptr) {
    (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
    return;
  }
  if (state->stopping) return;
  state->stopping = true;
  hold_drain(home->name);
  const std::int64_t grace = (*object)["metadata"]["deletionGracePeriodSeconds"].integer();
  world_.after(std::chrono::seconds(std::min(grace, world_.random_between(1, 2))), [this, uid] { stop(uid); });
}

std::vector<int> Cluster::pick_devices(std::vector<int> free, const Json& pod, std::size_t wanted) {
  std::vector<int> planned;
  for (const auto text : split(annotation_of(pod, words::kDevices).string(), ',')) {
    const auto minor = static_cast<int>(whole_number(text).value_or(-1));
    const bool is_free = std::ranges::find(free, minor) != free.end();
    if (is_free && std::ranges::find(planned, minor) == planned.end()) planned.push_back(minor);
  }
  const bool differs = world_.random_between(0, 999'999) < static_cast<std::int64_t>(options_.kubelet_differs * 1e6);
  if (planned.size() == wanted && !differs) return planned;
  if (differs) {
    // Unplanned devices first.
    std::ranges::stable_partition(free, [&](int minor) { return std::ranges::find(planned, minor) == planned.end(); });
  }
  free.resize(wanted);
  std::ranges::sort(free);
  return free;
}

void Cluster::describe_gang(PodState& state, const Json& pod) const {
  state.attempt = number_of(annotation_of(pod, words::kAttempt), 0);
  state.index = number_of(annotation_of(pod, words::kJobIndex), 0);
  state.gang = "pod/" + state.uid;
  for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
    if (owner["kind"].string() == "Job") state.owner = owner["uid"].string();
  }
  const auto job = store_.find_uid(state.owner);
  if (!job) return;
  const Json& spec = (*job)["spec"];
  state.job = name_of(*job);
  if (state.team.empty()) state.team = label_of(*job, words::kTeamLabel).string();
  // Ranks of one program have an index each and all run at once; the pods of other jobs are independent.
  const bool gang = spec["completionMode"].string() == "Indexed" && spec["parallelism"] == spec["completions"];
  if (!gang || spec["parallelism"].integer() <= 1) return;
  state.size = spec["parallelism"].integer();
  state.gang = fmt::format("{}/{}", state.owner, state.attempt);
  state.done_before = parse_indexes((*job)["status"]["completedIndexes"].string());
}

void Cluster::accept(const Json& pod) {
  NodeState& home = nodes_.at(pod["spec"]["nodeName"].string());
  const std::int64_t wanted = gpus_wanted(pod["spec"]);
  std::vector<int> free;
  for (const Device& device : home.devices) {
    if (device.pod.empty() && device.healthy && home.instances == 0) free.push_back(device.minor);
  }
  const auto available = static_cast<std::int64_t>(free.size());
  if (available < wanted) return refuse_pod(pod, std::string(words::kGpuResource), wanted, available);
  PodState state;
  if (home.instances > 0) {
    const std::string resource = std::string(words::kMigPrefix) + home.profile;
    std::int64_t left = home.instances * std::ssize(home.devices);
    for (const auto& uid : home.pods) left -= pods_.at(uid).instances;
    state.instances = gpus_wanted(pod["spec"], resource);
    if (left < state.instances) return refuse_pod(pod, resource, state.instances, left);
  }
  state.uid = uid_of(pod);
  state.ns = namespace_of(pod);
  state.name = name_of(pod);
  state.node = home.name;
  state.container = pod["spec"]["containers"].at(0)["name"].string();
  state.team = label_of(pod, words::kTeamLabel).string();
  state.devices = pick_devices(std::move(free), pod, static_cast<std::size_t>(wanted));
  state.run_s = number_of(annotation_of(pod, kRunSeconds), 60);
  state.exit_code = number_of(annotation_of(pod, kExitCode), 0);
  state.start_step = resume_step(annotation_of(pod, words::kResume).string());
  describe_gang(state, pod);
  // All ranks of a job have the same GPU load; small jobs have a lower load.
  const double spread = static_cast<double>(stable_hash(state.owner.empty() ? state.uid : state.owner) % 1000) / 1000;
  state.utilization = state.size > 1 ? 0.75 + 0.23 * spread : 0.25 + 0.70 * spread;
  if (const auto percent = number_of(annotation_of(pod, kUtilization), -1); percent >= 0) {
    state.utilization = static_cast<double>(std::min<std::int64_t>(percent, 100)) / 100;
  }
  Json device_list = Json::array();
  for (const int minor : state.devices) {
    home.devices[static_cast<std::size_t>(minor)].pod = state.uid;
    device_list.push_back(minor);
  }
  home.pods.insert(state.uid);
  ++gang_pods_[state.gang];
  Json::Object fields = identity(state);
  fields.insert(fields.end(), {{"devices", std::move(device_list)},
                               {"team", state.team},
                               {"gang", state.size},
                               {"run_s", state.run_s},
                               {"start_step", state.start_step}});
  world_.record("pod_start", fields);
  watch_partial(state);
  world_.after(options_.start_delay, [this, uid = state.uid] { run(uid); });
  pods_.emplace(state.uid, state);
}

void Cluster::refuse_pod(const Json& pod, const std::string& resource, std::int64_t wanted, std::int64_t available) {
  const std::string message = fmt::format(
      "Allocate failed due to requested number of devices unavailable for {}. Requested: {}, "
      "Available: {}, which is unexpected",
      resource, wanted, available);
  world_.signal(
      "admission_refused",
      {{"uid", uid_of(pod)}, {"node", pod["spec"]["nodeName"]}, {"wanted", wanted}, {"available", available}});
  store_.modify(pods_kind_, namespace_of(pod), name_of(pod), [&](Json& object) {
    Json& status = object.set("status");
    status.set("phase", "Failed").set("reason", "UnexpectedAdmissionError").set("message", message);
  });
}

void Cluster::run(const std::string& uid) {
  PodState* const state = find_in(pods_, uid);
  if (state == nullptr || state->stopping) return;
  state->phase = PodState::Phase::kRunning;
  const auto now = world_.now_floor();
  const std::uint32_t ip = next_pod_ip_++;
  const auto home = world_.instance(nodes_.at(state->node).instance);
  store_.modify(pods_kind_, state->ns, state->name, [&](Json& object) {
    Json& status = object.set("status");
    status.set("phase", "Running");
    status.set("podIP", fmt::format("10.{}.{}.{}", 64 + ip / 62500 % 64, ip / 250 % 250, ip % 250 + 2));
    status.set("hostIP", home ? home->private_ip : std::string());
    status.set("startTime", to_rfc3339(now));
    set_container(object, "running", Json::object({{"startedAt", to_rfc3339(now)}}));
    for (const char* type : {"Initialized", "ContainersReady", "Ready"})
      set_condition(object, type, "True", "", "", now);
  });
  // The XID of a device that failed meanwhile has already stopped the rank.
  if (state->hung) return;
  gangs_.join(*state, world_.now());
  if (gangs_.whole(state->gang)) schedule(state->gang);
}

void Cluster::schedule(const std::string& gang) {
  for (const auto& uid : gangs_.members(gang)) {
    PodState& state = pods_.at(uid);
    if (state.end) world_.cancel(*state.end);
    state.end.reset();
    if (const auto when = gangs_.reaches(uid, state.run_s, world_.now())) {
      state.end = world_.at(*when, [this, uid] {
        if (const PodState* done = pod(uid)) finish(uid, done->exit_code, done->exit_code == 0 ? "Completed" : "Error");
      });
    }
  }
}

void Cluster::leave_gang(PodState& state, bool succeeded) {
  if (state.end) world_.cancel(*state.end);
  state.end.reset();
  const bool was_whole = gangs_.whole(state.gang);
  gangs_.leave(state.uid, succeeded, world_.now());
  if (was_whole && !gangs_.whole(state.gang)) {
    schedule(state.gang);  // no pod makes progress now
    watch_partial(state);
  }
}

void Cluster::watch_partial(const PodState& state) {
  if (state.size <= 1 || !partial_.insert(state.gang).second) return;
  world_.after(options_.partial_gang,
               [this, gang = state.gang, owner = state.owner, attempt = state.attempt, size = state.size] {
                 partial_.erase(gang);
                 if (gangs_.whole(gang) || !gang_pods_.contains(gang)) return;
                 world_.signal("partial_gang", {{"owner", owner},
                                                {"attempt", attempt},
                                                {"pods", gang_pods_.at(gang)},
                                                {"running", static_cast<std::int64_t>(gangs_.running(gang))},
                                                {"size", size}});
               });
}

void Cluster::finish(const std::string& uid, std::int64_t exit_code, std::string_view reason) {
  PodState* const state = find_in(pods_, uid);
  if (state == nullptr) return;
  const bool ok = exit_code == 0;
  leave_gang(*state, ok);
  const bool stopping = state->stopping;
  const std::string ns = state->ns, name = state->name;
  end(uid, ok ? "Succeeded" : "Failed");
  const auto now = world_.now_floor();
  store_.modify(pods_kind_, ns, name, [&](Json& object) {
    object.set("status").set("phase", ok ? "Succeeded" : "Failed");
    set_container(object, "terminated",
                  Json::object({{"exitCode", exit_code}, {"reason", reason}, {"finishedAt", to_rfc3339(now)}}));
    for (const char* type : {"ContainersReady", "Ready"}) set_condition(object, type, "False", "PodCompleted", "", now);
  });
  if (stopping) (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
}

void Cluster::stop(const std::string& uid) {
  PodState* const state = find_in(pods_, uid);
  if (state == nullptr) return;
  const std::string ns = state->ns, name = state->name;
  leave_gang(*state, false);
  end(uid, "Deleted");
  (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
}

void Cluster::end(const std::string& uid, std::string_view reason) {
  const auto it = pods_.find(uid);
  const PodState& state = it->second;
  Json::Object fields = identity(state);
  fields.insert(fields.end(), {{"reason", reason}, {"step", step_of(state)}});
  world_.record("pod_stop", fields);
  NodeState& home = nodes_.at(state.node);
  for (const int minor : state.devices) home.devices[static_cast<std::size_t>(minor)].pod.clear();
  home.pods.erase(uid);
  const std::string gang = state.gang, host = state.node;
  pods_.erase(it);
  if (--gang_pods_[gang] == 0) {
    gang_pods_.erase(gang);
    gangs_.forget(gang);
    saves_.erase(gang);
  }
  const bool draining =
      std::ranges::any_of(home.pods, [&](const std::string& other) { return pods_.at(other).stopping; });
  if (!draining) world_.release("drain:" + host);
}

void Cluster::fail_lost(const ObjectPtr& pod) {
  if (is_finished(*pod)) return;
  const auto current = store_.modify(pods_kind_, namespace_of(*pod), name_of(*pod), [&](Json& object) {
    Json& status = object.set("status");
    status.set("phase", "Failed").set("reason", "NodeLost");
    status.set("message", "Node " + object["spec"]["nodeName"].string() + " which was running the pod is gone");
    set_condition(object, "Ready", "False", "NodeLost", "", world_.now_floor());
  });
  if (current && is_deleting(*current)) {
    (void)store_.remove(pods_kind_, namespace_of(*current), name_of(*current), {uid_of(*current), {}, 0, {}});
  }
}

void Cluster::hold_drain(const std::string& name) {
  const auto object = store_.find(nodes_kind_, "", name);
  if (!object) return;
  const Json& spec = (*object)["spec"];
  const bool drained =
      spec["unschedulable"].boolean() || std::ranges::any_of(spec["taints"].items(), [](const Json& taint) {
        return taint["key"].string() == "karpenter.sh/disrupted";
      });
  if (drained) world_.hold("drain:" + name);
}

std::int64_t Cluster::step_of(const PodState& state) const {
  return std::max(state.start_step, gangs_.step(state.uid, world_.now()));
}

std::int64_t Cluster::save_step(const PodState& state, const std::string& fence) {
  if (fence.empty()) return step_of(state);
  auto& [of, step] = saves_[state.gang];
  if (of != fence) of = fence, step = step_of(state);
  return step;
}

Answered<Json> Cluster::checkpoint(const std::string& ns, const std::string& name, const Json& order) {
  FLEET_ASSIGN(const auto object, store_.get(pods_kind_, ns, name));
  const PodState* state = pod(uid_of(*object));
  if (!(*object)["metadata"]["annotations"].contains(words::kCheckpoint)) {
    return refuse(404, "NotFound", "pod {} keeps no checkpoints", name);
  }
  if (state == nullptr || state->phase != PodState::Phase::kRunning || state->hung) {
    return conflict(pods_kind_, name, "the rank does not run");
  }
  const std::int64_t step = save_step(*state, order["fence"].string());
  const std::string uri = fmt::format("fleet://{}/{}?step={}", ns, state->job.empty() ? name : state->job, step);
  Json::Object fields = identity(*state);
  fields.insert(fields.end(), {{"step", step}, {"reason", order["reason"].string()}});
  world_.signal("checkpoint", std::move(fields));
  constexpr int kStateOfGpu = 30;  // 1 GiB of state for each GPU
  return Json::object(
      {{"step", step}, {"uri", uri}, {"bytes", static_cast<std::int64_t>(state->devices.size()) << kStateOfGpu}});
}

}  // namespace qm::fleet
