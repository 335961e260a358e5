// Pods on their nodes: devices, start, steps, and every way to end.
#include "cluster.hpp"
#include "job_controller.hpp"
#include "qm/base/digest.hpp"

#include <algorithm>
#include <charconv>

namespace qm::fleet {
namespace {

constexpr std::string_view kRunSeconds = "fleet.quartermaster.dev/run-seconds";
constexpr std::string_view kExitCode = "fleet.quartermaster.dev/exit-code";
constexpr std::string_view kUtilisation = "fleet.quartermaster.dev/gpu-util";  // percent

std::int64_t number_of(const Json& value, std::int64_t fallback) {
  if (value.is_int()) return value.integer();
  const std::string& text = value.string();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : fallback;
}

/// "fleet://ns/job?step=120" -> 120.
std::int64_t step_of(const std::string& uri) {
  const auto at = uri.find("?step=");
  if (at == std::string::npos) return 0;
  return number_of(Json(uri.substr(at + 6)), 0);
}

bool is_finished(const Json& pod) {
  const std::string& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}
bool is_terminating(const Json& pod) { return pod["metadata"].contains("deletionTimestamp"); }

Json container_status(const Json& pod, Json state) {
  const Json& container = pod["spec"]["containers"].at(0);
  const bool ready = state.contains("running");
  return Json::object({{"name", container["name"]},
                       {"image", container["image"]},
                       {"ready", ready},
                       {"restartCount", 0},
                       {"state", std::move(state)}});
}

}  // namespace

std::int64_t gpus_wanted(const Json& pod_spec) {
  std::int64_t total = 0;
  for (const Json& container : pod_spec["containers"].items()) {
    const Json& limit = container["resources"]["limits"][words::kGpuResource];
    total += number_of(limit.is_null() ? container["resources"]["requests"][words::kGpuResource] : limit, 0);
  }
  return total;
}

Cluster::Cluster(World& world, ObjectStore& store, Options options)
    : world_(world), store_(store), options_(options), pods_kind_(kind_of("pods")), nodes_kind_(kind_of("nodes")) {
  world_.listen([this](const Instance& instance, InstanceEvent event) { on_instance(instance, event); });
  store_.observe(
      [this](const Kind& kind, const ObjectPtr& before, const ObjectPtr& after) { on_change(kind, before, after); });
}

const PodState* Cluster::pod(const std::string& uid) const {
  const auto it = pods_.find(uid);
  return it == pods_.end() ? nullptr : &it->second;
}

void Cluster::on_change(const Kind& kind, const ObjectPtr& before, const ObjectPtr& after) {
  if (&kind != &pods_kind_) {
    if (kind.plural == "nodeclaims" && !before) {
      world_.record("claim_create", Json::object({{"name", qm::fleet::name_of(*after)}}));
    }
    return;
  }
  const Json& pod = after ? *after : *before;
  if (pod["spec"]["nodeName"].string().empty()) return;
  const bool bound = after && (!before || (*before)["spec"]["nodeName"].string().empty());
  const bool deleting = after && is_terminating(*after) && before && !is_terminating(*before);
  if (!bound && !deleting && after) return;
  world_.post(
      [this, ns = namespace_of(pod), name = qm::fleet::name_of(pod), uid = uid_of(pod)] { sync(ns, name, uid); });
}

void Cluster::sync(const std::string& ns, const std::string& name, const std::string& uid) {
  const auto object = store_.find(pods_kind_, ns, name);
  const auto state = pods_.find(uid);
  if (!object || uid_of(*object) != uid) {
    if (state != pods_.end()) {
      leave_gang(state->second, false);
      end(uid, "Deleted");
    }
    return;
  }
  if (is_finished(*object)) return;
  const NodeState* home = node((*object)["spec"]["nodeName"].string());
  if (home == nullptr) {
    // Bound to a node that does not exist: the collector takes it after a while, or the node comes.
    world_.after(options_.loss_detected, [this, ns, name, uid] {
      const auto pod = store_.find(pods_kind_, ns, name);
      if (!pod || uid_of(*pod) != uid || is_finished(*pod)) return;
      if (node((*pod)["spec"]["nodeName"].string()) != nullptr) return sync(ns, name, uid);
      fail_lost(pod);
      (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
    });
    return;
  }
  if (!home->up) return;  // the loss of the node will take it along
  if (!is_terminating(*object)) {
    if (state == pods_.end()) accept(*object);
    return;
  }
  if (state == pods_.end()) {
    (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
    return;
  }
  if (state->second.stopping) return;
  state->second.stopping = true;
  hold_drain(home->name);
  const std::int64_t grace = (*object)["metadata"]["deletionGracePeriodSeconds"].integer();
  world_.after(std::chrono::seconds(std::min(grace, world_.random_between(1, 2))), [this, uid] { stop(uid); });
}

std::optional<std::vector<int>> Cluster::pick_devices(const NodeState& home, const Json& pod, std::size_t wanted) {
  std::vector<int> free;
  for (const Device& device : home.devices) {
    if (device.pod.empty() && device.healthy) free.push_back(device.minor);
  }
  if (free.size() < wanted) return std::nullopt;
  std::vector<int> planned;
  std::string_view list = annotation_of(pod, words::kDevices).string();
  while (!list.empty()) {
    const auto comma = list.find(',');
    const auto minor = static_cast<int>(number_of(Json(list.substr(0, comma)), -1));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    if (std::ranges::find(free, minor) != free.end() && std::ranges::find(planned, minor) == planned.end()) {
      planned.push_back(minor);
    }
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

void Cluster::describe_gang(PodState& state, const Json& pod, GangClock::Rank& rank) const {
  state.attempt = number_of(annotation_of(pod, words::kAttempt), 0);
  state.index = number_of(annotation_of(pod, words::kJobIndex), 0);
  state.gang = "pod/" + state.uid;
  for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
    if (owner["kind"].string() == "Job") state.owner = owner["uid"].string();
  }
  if (const auto job = store_.find_uid(state.owner)) {
    const Json& spec = (*job)["spec"];
    state.job = qm::fleet::name_of(*job);
    if (state.team.empty()) state.team = label_of(*job, words::kTeamLabel).string();
    // Ranks of one program have an index each and all run at once; other jobs are bags of
    // independent pods.
    const bool gang = spec["completionMode"].string() == "Indexed" && spec["parallelism"] == spec["completions"];
    if (gang && spec["parallelism"].integer() > 1) {
      state.size = spec["parallelism"].integer();
      state.gang = fmt::format("{}/{}", state.owner, state.attempt);
      rank.done_before = parse_indexes((*job)["status"]["completedIndexes"].string());
    }
  }
  rank.gang = state.gang;
  rank.pod = state.uid;
  rank.index = state.index;
  rank.size = state.size;
  rank.start_step = state.start_step;
}

void Cluster::accept(const Json& pod) {
  NodeState& home = nodes_.at(pod["spec"]["nodeName"].string());
  const std::int64_t wanted = gpus_wanted(pod["spec"]);
  const auto devices = pick_devices(home, pod, static_cast<std::size_t>(wanted));
  if (!devices) {
    const auto available =
        std::ranges::count_if(home.devices, [](const Device& d) { return d.pod.empty() && d.healthy; });
    return refuse(pod, wanted, static_cast<std::size_t>(available));
  }
  PodState state;
  state.uid = uid_of(pod);
  state.ns = namespace_of(pod);
  state.name = qm::fleet::name_of(pod);
  state.node = home.name;
  state.container = pod["spec"]["containers"].at(0)["name"].string();
  state.team = label_of(pod, words::kTeamLabel).string();
  state.devices = *devices;
  state.run_s = number_of(annotation_of(pod, kRunSeconds), 60);
  state.exit_code = number_of(annotation_of(pod, kExitCode), 0);
  state.start_step = step_of(annotation_of(pod, words::kResume).string());
  GangClock::Rank rank;
  describe_gang(state, pod, rank);
  // All ranks of a job load their GPUs alike; small jobs keep theirs less busy.
  const double spread = static_cast<double>(stable_hash(state.owner.empty() ? state.uid : state.owner) % 1000) / 1000;
  state.utilisation = state.size > 1 ? 0.75 + 0.23 * spread : 0.25 + 0.70 * spread;
  if (const auto percent = number_of(annotation_of(pod, kUtilisation), -1); percent >= 0) {
    state.utilisation = static_cast<double>(std::min<std::int64_t>(percent, 100)) / 100;
  }
  Json device_list = Json::array();
  for (const int minor : *devices) {
    home.devices[static_cast<std::size_t>(minor)].pod = state.uid;
    device_list.push_back(minor);
  }
  home.pods.insert(state.uid);
  ++gang_pods_[state.gang];
  ranks_[state.uid] = rank;
  world_.record("pod_start", Json::object({{"uid", state.uid},
                                           {"pod", state.ns + "/" + state.name},
                                           {"owner", state.owner},
                                           {"attempt", state.attempt},
                                           {"index", state.index},
                                           {"node", state.node},
                                           {"devices", std::move(device_list)},
                                           {"team", state.team},
                                           {"gang", state.size},
                                           {"run_s", state.run_s},
                                           {"start_step", state.start_step}}));
  watch_partial(state);
  const std::string uid = state.uid;
  pods_.emplace(uid, std::move(state));
  world_.after(options_.start_delay, [this, uid] { run(uid); });
}

void Cluster::refuse(const Json& pod, std::int64_t wanted, std::size_t available) {
  const std::string message = fmt::format(
      "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. "
      "Requested: {}, Available: {}, "
      "which is unexpected",
      wanted, available);
  world_.record("signal", Json::object({{"kind", "admission_refused"},
                                        {"uid", uid_of(pod)},
                                        {"node", pod["spec"]["nodeName"]},
                                        {"wanted", wanted},
                                        {"available", static_cast<std::int64_t>(available)}}));
  store_.modify(pods_kind_, namespace_of(pod), qm::fleet::name_of(pod), [&](Json& object) {
    Json& status = object.set("status");
    status.set("phase", "Failed").set("reason", "UnexpectedAdmissionError").set("message", message);
  });
}

void Cluster::run(const std::string& uid) {
  const auto it = pods_.find(uid);
  if (it == pods_.end() || it->second.stopping) return;
  PodState& state = it->second;
  state.phase = PodState::Phase::kRunning;
  const auto now = world_.now_floor();
  const std::uint32_t ip = next_pod_ip_++;
  const auto home = world_.instance(nodes_.at(state.node).instance);
  store_.modify(pods_kind_, state.ns, state.name, [&](Json& object) {
    Json& status = object.set("status");
    status.set("phase", "Running");
    status.set("podIP", fmt::format("10.{}.{}.{}", 64 + ip / 62500 % 64, ip / 250 % 250, ip % 250 + 2));
    status.set("hostIP", home ? home->private_ip : std::string());
    status.set("startTime", to_rfc3339(now));
    Json running = Json::object({{"running", Json::object({{"startedAt", to_rfc3339(now)}})}});
    status.set("containerStatuses", Json::array({container_status(object, std::move(running))}));
    for (const char* type : {"Initialized", "ContainersReady", "Ready"})
      set_condition(object, type, "True", "", "", now);
  });
  // The XID of a device that died in the meantime has taken the rank already.
  if (state.hung) return;
  gangs_.join(ranks_.at(uid), world_.now());
  if (gangs_.whole(state.gang)) schedule(state.gang);
}

void Cluster::schedule(const std::string& gang) {
  for (const auto& uid : gangs_.members(gang)) {
    PodState& state = pods_.at(uid);
    if (state.end) world_.cancel(*state.end);
    state.end.reset();
    if (const auto when = gangs_.reaches(uid, state.run_s, world_.now())) {
      state.end = world_.at(*when, [this, uid] {
        const auto it = pods_.find(uid);
        if (it == pods_.end()) return;
        const std::int64_t code = it->second.exit_code;
        finish(uid, code, code == 0 ? "Completed" : "Error");
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
    schedule(state.gang);  // nobody reaches anything now
    watch_partial(state);
  }
}

void Cluster::watch_partial(const PodState& state) {
  if (state.size <= 1 || !partial_.insert(state.gang).second) return;
  world_.after(options_.partial_gang,
               [this, gang = state.gang, owner = state.owner, attempt = state.attempt, size = state.size] {
                 partial_.erase(gang);
                 if (gangs_.whole(gang) || !gang_pods_.contains(gang)) return;
                 world_.record("signal", Json::object({{"kind", "partial_gang"},
                                                       {"owner", owner},
                                                       {"attempt", attempt},
                                                       {"pods", gang_pods_.at(gang)},
                                                       {"running", static_cast<std::int64_t>(gangs_.running(gang))},
                                                       {"size", size}}));
               });
}

void Cluster::finish(const std::string& uid, std::int64_t exit_code, std::string_view reason) {
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  PodState& state = it->second;
  const bool ok = exit_code == 0;
  leave_gang(state, ok);
  const bool stopping = state.stopping;
  const std::string ns = state.ns, name = state.name;
  end(uid, ok ? "Succeeded" : "Failed");
  const auto now = world_.now_floor();
  store_.modify(pods_kind_, ns, name, [&](Json& object) {
    Json terminated = Json::object({{"exitCode", exit_code}, {"reason", reason}, {"finishedAt", to_rfc3339(now)}});
    Json& status = object.set("status");
    status.set("phase", ok ? "Succeeded" : "Failed");
    status.set("containerStatuses",
               Json::array({container_status(object, Json::object({{"terminated", std::move(terminated)}}))}));
    for (const char* type : {"ContainersReady", "Ready"}) set_condition(object, type, "False", "PodCompleted", "", now);
  });
  if (stopping) (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
}

void Cluster::stop(const std::string& uid) {
  const auto it = pods_.find(uid);
  if (it == pods_.end()) return;
  const std::string ns = it->second.ns, name = it->second.name;
  leave_gang(it->second, false);
  end(uid, "Deleted");
  (void)store_.remove(pods_kind_, ns, name, {uid, {}, 0, {}});
}

void Cluster::end(const std::string& uid, std::string_view reason) {
  const auto it = pods_.find(uid);
  const PodState& state = it->second;
  const std::int64_t step = std::max(state.start_step, gangs_.step(uid, world_.now()));
  world_.record("pod_stop", Json::object({{"uid", uid},
                                          {"pod", state.ns + "/" + state.name},
                                          {"owner", state.owner},
                                          {"attempt", state.attempt},
                                          {"index", state.index},
                                          {"node", state.node},
                                          {"reason", reason},
                                          {"step", step}}));
  NodeState& home = nodes_.at(state.node);
  for (const int minor : state.devices) home.devices[static_cast<std::size_t>(minor)].pod.clear();
  home.pods.erase(uid);
  ranks_.erase(uid);
  const std::string gang = state.gang, host = state.node;
  pods_.erase(it);
  if (--gang_pods_[gang] == 0) {
    gang_pods_.erase(gang);
    gangs_.forget(gang);
  }
  const bool draining =
      std::ranges::any_of(home.pods, [&](const std::string& other) { return pods_.at(other).stopping; });
  if (!draining) world_.release("drain:" + host);
}

void Cluster::fail_lost(const ObjectPtr& pod) {
  if (is_finished(*pod)) return;
  const auto current = store_.modify(pods_kind_, namespace_of(*pod), qm::fleet::name_of(*pod), [&](Json& object) {
    Json& status = object.set("status");
    status.set("phase", "Failed").set("reason", "NodeLost");
    status.set("message", "Node " + object["spec"]["nodeName"].string() + " which was running the pod is gone");
    set_condition(object, "Ready", "False", "NodeLost", "", world_.now_floor());
  });
  if (current && is_terminating(*current)) {
    (void)store_.remove(pods_kind_, namespace_of(*current), qm::fleet::name_of(*current),
                        {uid_of(*current), {}, 0, {}});
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

Answered<Json> Cluster::checkpoint(const std::string& ns, const std::string& name, const Json& order) {
  const auto object = store_.find(pods_kind_, ns, name);
  if (!object) return tl::unexpected(not_found(pods_kind_, name));
  const PodState* state = pod(uid_of(*object));
  if (!(*object)["metadata"]["annotations"].contains(words::kCheckpoint)) {
    return tl::unexpected(ApiError{404, "NotFound", fmt::format("pod {} keeps no checkpoints", name), {}});
  }
  if (state == nullptr || state->phase != PodState::Phase::kRunning || state->hung) {
    return tl::unexpected(conflict(pods_kind_, name, "the rank does not run"));
  }
  const std::int64_t step = std::max(state->start_step, gangs_.step(state->uid, world_.now()));
  const std::string uri = fmt::format("fleet://{}/{}?step={}", ns, state->job.empty() ? name : state->job, step);
  world_.record("signal", Json::object({{"kind", "checkpoint"},
                                        {"uid", state->uid},
                                        {"owner", state->owner},
                                        {"attempt", state->attempt},
                                        {"index", state->index},
                                        {"step", step},
                                        {"reason", order["reason"].string()}}));
  return Json::object({{"step", step}, {"uri", uri}});
}

}  // namespace qm::fleet
