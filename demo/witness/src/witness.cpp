#include "qm/witness/witness.hpp"

#include "qm/base/time.hpp"
#include "qm/model/resources.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace qm::witness {
namespace {

std::int64_t number_of(std::string_view text, std::int64_t other) {
  std::int64_t value = other;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && !text.empty() && end == text.data() + text.size() ? value : other;
}

const std::string& meta(const Json& object, std::string_view key) { return object["metadata"][key].string(); }
const std::string& note(const Json& object, std::string_view key) {
  return object["metadata"]["annotations"][key].string();
}
const std::string& label(const Json& object, std::string_view key) {
  return object["metadata"]["labels"][key].string();
}

bool condition(const Json& object, std::string_view type) {
  for (const auto& c : object["status"]["conditions"].items()) {
    if (c["type"].string() == type) return c["status"].string() == "True";
  }
  return false;
}

const Json& job_behind(const Json& pod) {
  static const Json none;
  for (const auto& owner : pod["metadata"]["ownerReferences"].items()) {
    if (owner["kind"].string() == "Job") return owner;
  }
  return none;
}

std::string team_of(const Json& job) {
  const std::string& own = label(job, words::kTeamLabel);
  return own.empty() ? label(job["spec"]["template"], words::kTeamLabel) : own;
}

Json devices_of(const Json& pod) {
  Json devices = Json::array();
  std::string_view rest = note(pod, words::kDevices);
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    if (const auto device = number_of(rest.substr(0, comma), -1); device >= 0) devices.push_back(device);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
  }
  return devices;
}

/// The end time of a finished pod. After an interrupted watch, ends and starts arrive at once and in no order; the
/// kubelet reports when the last container ended, in whole seconds.
Instant end_of(const Json& pod, Instant seen) {
  std::optional<Instant> last;
  for (const auto& container : pod["status"]["containerStatuses"].items()) {
    const auto finished = from_rfc3339(container["state"]["terminated"]["finishedAt"].string());
    if (finished && (!last || *last < *finished)) last = *finished;
  }
  return last ? std::min(seen, *last + std::chrono::seconds(1)) : seen;
}

}  // namespace

std::int64_t gpus_of(const Json& pod_spec) {
  std::int64_t total = 0;
  for (const auto& container : pod_spec["containers"].items()) {
    const Json& amount = container["resources"]["limits"][words::kGpuResource];
    total += amount.is_int() ? amount.integer() : number_of(amount.string(), 0);
  }
  return total;
}

Pace pace_of(std::vector<std::int64_t> at) {
  Pace pace;
  pace.n = static_cast<std::int64_t>(at.size());
  if (at.size() < 2) return pace;
  std::sort(at.begin(), at.end());
  const auto rate = [&](std::size_t from, std::size_t to) {  // of those after `from` up to `to`
    const double seconds = static_cast<double>(at[to] - at[from]) / 1e6;
    return seconds > 0 ? static_cast<double>(to - from) / seconds : 0.0;
  };
  pace.seconds = static_cast<double>(at.back() - at.front()) / 1e6;
  pace.per_second = rate(0, at.size() - 1);
  pace.middle = rate(at.size() / 10, at.size() - 1 - at.size() / 10);
  for (std::size_t from = 0, to = 0; to < at.size(); ++to) {
    while (at[to] - at[from] >= 10'000'000) ++from;
    pace.best = std::max(pace.best, static_cast<double>(to - from + 1) / 10);
  }
  return pace;
}

Witness::Witness(std::function<void(const std::string& line)> write,
                 std::function<Json(const std::string& ns, const std::string& name)> find_job)
    : write_(std::move(write)), find_job_(std::move(find_job)) {}

void Witness::write(Instant now, const char* event, Json::Object fields) {
  Json::Object line{{"t", micros(now)}, {"e", event}};
  line.insert(line.end(), std::make_move_iterator(fields.begin()), std::make_move_iterator(fields.end()));
  write_(Json(std::move(line)).dump());
}

Witness::JobState& Witness::job_of(const Json& job, Instant now) {
  const auto [at, first] = jobs_.try_emplace(meta(job, "uid"));
  if (!first) return at->second;
  const Json& spec = job["spec"];
  JobState& state = at->second;
  state.team = team_of(job);
  state.ranks = std::max<std::int64_t>(1, spec["parallelism"].integer(1));
  if (spec["completionMode"].string() == "Indexed" && spec["parallelism"] == spec["completions"]) {
    state.together = std::clamp<std::int64_t>(number_of(note(job, words::kJobLeast), state.ranks), 1, state.ranks);
  }
  ++counts_.jobs;
  write(now, "job_create",
        {{"uid", meta(job, "uid")},
         {"job", meta(job, "namespace") + "/" + meta(job, "name")},
         {"team", state.team},
         {"queue", label(job, words::kQueueLabel)},
         {"gang", state.ranks},
         {"gpus", state.ranks * gpus_of(spec["template"]["spec"])}});
  return state;
}

void Witness::see_job(const Json& job, bool deleted, Instant now) {
  const std::lock_guard lock(mutex_);
  JobState& state = job_of(job, now);
  if (!state.let_go && !job["spec"]["suspend"].boolean()) {
    state.let_go = true;
    counts_.admitted += state.ranks;
    admitted_at_.insert(admitted_at_.end(), static_cast<std::size_t>(state.ranks), micros(now));
  }
  const bool complete = condition(job, "Complete"), failed = condition(job, "Failed");
  if (!state.over && (complete || failed)) {
    state.over = true;
    ++counts_.ended;
    write(now, "job_finish", {{"uid", meta(job, "uid")}, {"ok", complete}});
  }
  if (!deleted) return;
  if (!state.over) ++counts_.ended;
  state.over = true;
  write(now, "job_delete", {{"uid", meta(job, "uid")}});
}

void Witness::stop(PodState& state, const Json& pod, const std::string& reason, Instant now) {
  state.stopped = true;
  ++counts_.stopped;
  counts_.gpus_held -= state.gpus;
  if (state.running) --counts_.running;
  if (reason == "Succeeded") ++counts_.succeeded;
  write(now, "pod_stop",
        {{"uid", meta(pod, "uid")}, {"reason", reason}, {"step", (micros(now) - micros(state.since)) / 1'000'000}});
}

void Witness::see_pod(const Json& pod, bool deleted, Instant now) {
  const std::string& node = pod["spec"]["nodeName"].string();
  const Json& owner = job_behind(pod);
  if (node.empty() || owner.is_null()) return;
  const std::lock_guard lock(mutex_);
  const auto [at, first] = pods_.try_emplace(meta(pod, "uid"));
  PodState& state = at->second;
  if (first) {
    auto job = jobs_.find(owner["uid"].string());
    if (job == jobs_.end()) {
      const Json found = find_job_(meta(pod, "namespace"), owner["name"].string());
      if (meta(found, "uid") == owner["uid"].string()) {
        job_of(found, now);
        job = jobs_.find(owner["uid"].string());
      }
    }
    const JobState of = job == jobs_.end() ? JobState{} : job->second;
    state.node = node;
    state.owner = owner["uid"].string();
    state.since = now;
    state.gpus = gpus_of(pod["spec"]);
    ++counts_.bound;
    counts_.gpus_held += state.gpus;
    bound_at_.push_back(micros(now));
    write(now, "pod_start",
          {{"uid", meta(pod, "uid")},
           {"pod", meta(pod, "namespace") + "/" + meta(pod, "name")},
           {"owner", owner["uid"].string()},
           {"attempt", number_of(note(pod, words::kAttempt), 0)},
           {"index", number_of(note(pod, words::kJobIndex), 0)},
           {"node", node},
           {"devices", devices_of(pod)},
           {"gpus", state.gpus},
           {"team", label(pod, words::kTeamLabel).empty() ? of.team : label(pod, words::kTeamLabel)},
           {"gang", of.together},
           {"start_step", 0}});
  }
  if (state.stopped) return;
  const std::string& phase = pod["status"]["phase"].string();
  const bool ended = phase == "Succeeded" || phase == "Failed";
  if (!state.running && phase == "Running") {
    state.running = true;
    ++counts_.running;
  }
  if (!ended && !deleted) return;
  const bool ordered = !pod["metadata"]["deletionTimestamp"].is_null() || deleted;
  stop(state, pod,
       phase == "Succeeded"     ? "Succeeded"
       : !nodes_.contains(node) ? "NodeLost"
       : ordered                ? "Deleted"
                                : "Failed",
       ended ? end_of(pod, now) : now);
}

void Witness::see_claim(const Json& claim, bool /*deleted*/, Instant now) {
  const std::lock_guard lock(mutex_);
  if (!claims_.insert(meta(claim, "name")).second) return;
  // After an interrupted watch a claim arrives late, perhaps after its instance, so the server's creation time is used.
  const auto made = from_rfc3339(meta(claim, "creationTimestamp"));
  write(made ? std::min(*made, now) : now, "claim_create", {{"name", meta(claim, "name")}});
}

void Witness::see_node(const Json& node, bool deleted) {
  const Json& amount = node["status"]["capacity"][words::kGpuResource];
  const std::int64_t gpus = amount.is_int() ? amount.integer() : number_of(amount.string(), 0);
  const std::lock_guard lock(mutex_);
  if (deleted) {
    nodes_.erase(meta(node, "name"));
  } else if (gpus > 0) {
    nodes_[meta(node, "name")] = gpus;
  }
}

Witness::Counts Witness::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  for (const auto& [name, gpus] : nodes_) counts.gpus += gpus;
  return counts;
}

Pace Witness::admitted() const {
  const std::lock_guard lock(mutex_);
  return pace_of(admitted_at_);
}

Pace Witness::bound() const {
  const std::lock_guard lock(mutex_);
  return pace_of(bound_at_);
}

}  // namespace qm::witness
