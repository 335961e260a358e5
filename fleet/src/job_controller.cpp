#include "job_controller.hpp"

#include <algorithm>
#include <charconv>

namespace qm::fleet {
namespace {

constexpr Duration kFirstRetry = std::chrono::seconds(10), kLastRetry = std::chrono::minutes(6);

bool is_finished(const Json& pod) {
  const std::string& phase = pod["status"]["phase"].string();
  return phase == "Succeeded" || phase == "Failed";
}
bool is_terminating(const Json& pod) { return pod["metadata"].contains("deletionTimestamp"); }
bool is_active(const Json& pod) { return !is_finished(pod) && !is_terminating(pod); }
bool is_indexed(const Json& job) { return job["spec"]["completionMode"].string() == "Indexed"; }

std::optional<std::int64_t> index_of(const Json& pod) {
  const std::string& text = annotation_of(pod, words::kJobIndex).string();
  std::int64_t index = 0;
  if (text.empty() || std::from_chars(text.data(), text.data() + text.size(), index).ec != std::errc())
    return std::nullopt;
  return index;
}

/// The job that controls the pod, or nothing.
std::string job_of(const Json& pod) {
  for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
    if (owner["kind"].string() == "Job" && owner["controller"].boolean()) return owner["uid"].string();
  }
  return {};
}

std::int64_t gpus_of(const Json& pod_spec) {
  std::int64_t total = 0;
  for (const Json& container : pod_spec["containers"].items()) {
    const Json& limit = container["resources"]["limits"][words::kGpuResource];
    total += limit.is_int() ? limit.integer() : std::atoll(limit.string().c_str());
  }
  return total;
}

}  // namespace

std::string format_indexes(const std::set<std::int64_t>& indexes) {
  std::string text;
  for (auto it = indexes.begin(); it != indexes.end();) {
    const std::int64_t first = *it;
    std::int64_t last = first;
    while (++it != indexes.end() && *it == last + 1) last = *it;
    if (!text.empty()) text += ',';
    text += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::set<std::int64_t> parse_indexes(std::string_view text) {
  std::set<std::int64_t> indexes;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    std::int64_t first = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), first);
    if (error != std::errc()) continue;
    std::int64_t last = first;
    if (end != part.data() + part.size() && *end == '-') std::from_chars(end + 1, part.data() + part.size(), last);
    for (std::int64_t i = first; i <= last; ++i) indexes.insert(i);
  }
  return indexes;
}

JobController::JobController(World& world, ObjectStore& store)
    : world_(world), store_(store), jobs_(kind_of("jobs")), pods_(kind_of("pods")) {
  store_.observe(
      [this](const Kind& kind, const ObjectPtr& before, const ObjectPtr& after) { on_change(kind, before, after); });
}

void JobController::on_change(const Kind& kind, const ObjectPtr& before, const ObjectPtr& after) {
  const Json& object = after ? *after : *before;
  if (&kind == &pods_) {
    const std::string owner = job_of(object);
    if (owner.empty()) return;
    account(object);
    mark(owner);
    return;
  }
  if (&kind != &jobs_) return;
  const std::string uid = uid_of(object);
  if (!before) {
    const Json& spec = object["spec"];
    const std::string team = label_of(object, words::kTeamLabel).string();
    world_.record("job_create",
                  Json::object({{"uid", uid},
                                {"job", namespace_of(object) + "/" + name_of(object)},
                                {"team", team.empty() ? label_of(spec["template"], words::kTeamLabel).string() : team},
                                {"queue", label_of(object, words::kQueueLabel).string()},
                                {"gang", spec["parallelism"].integer(1)},
                                {"gpus", spec["parallelism"].integer(1) * gpus_of(spec["template"]["spec"])}}));
  }
  if (!after) {
    world_.record("job_delete", Json::object({{"uid", uid}}));
    runs_.erase(uid);
    return;
  }
  mark(uid);
}

void JobController::account(const Json& pod) {
  if (!is_finished(pod)) return;
  const std::string owner = job_of(pod);
  if (!store_.find_uid(owner)) return;
  Run& run = runs_[owner];
  if (!run.counted.insert(uid_of(pod)).second) return;
  if (pod["status"]["phase"].string() == "Succeeded") {
    const auto index = index_of(pod);
    if (!index || run.done.insert(*index).second) ++run.succeeded;
  } else if (pod["status"]["reason"].string() != "NodeLost") {
    ++run.failed;
    Duration delay = kFirstRetry;
    for (std::int64_t i = 1; i < run.failed && delay < kLastRetry; ++i) delay *= 2;
    run.retry_at = world_.now() + std::min(delay, kLastRetry);
  }
}

void JobController::mark(const std::string& uid) {
  if (!dirty_.insert(uid).second) return;
  world_.post([this, uid] {
    dirty_.erase(uid);
    reconcile(uid);
  });
}

void JobController::reconcile(const std::string& uid) {
  const auto job = store_.find_uid(uid);
  if (!job || is_terminating(*job)) return;
  if (condition_of(*job, "Complete")["status"].string() == "True" ||
      condition_of(*job, "Failed")["status"].string() == "True") {
    return;
  }
  Run& run = runs_[uid];
  const Json& spec = (*job)["spec"];
  const std::int64_t completions = spec["completions"].integer(1), parallelism = spec["parallelism"].integer(1);
  if (run.succeeded >= completions)
    return finish(*job, true, "CompletionsReached", "Reached expected number of succeeded pods");
  if (run.failed > spec["backoffLimit"].integer(6)) {
    return finish(*job, false, "BackoffLimitExceeded", "Job has reached the specified backoff limit");
  }
  const bool suspended = spec["suspend"].boolean();
  if (suspended) {
    stop_pods(uid);
  } else {
    std::set<std::int64_t> active;
    std::int64_t count = 0;
    for (const auto& pod : store_.owned_by(uid, pods_)) {
      if (!is_active(*pod)) continue;
      ++count;
      if (const auto index = index_of(*pod)) active.insert(*index);
    }
    const std::int64_t wanted = std::min(parallelism, completions - run.succeeded);
    if (count > wanted) stop_pods(uid, static_cast<std::size_t>(wanted));
    if (count < wanted) {
      if (world_.now() < run.retry_at) {
        world_.at(run.retry_at, [this, uid] { mark(uid); });
      } else {
        create_pods(*job, run, active, wanted - count);
      }
    }
  }
  write_status(*job, run, suspended);
}

void JobController::create_pods(const Json& job, Run& run, const std::set<std::int64_t>& active, std::int64_t missing) {
  if (!is_indexed(job)) {
    for (; missing > 0; --missing) create_pod(job, std::nullopt);
    return;
  }
  const std::int64_t completions = job["spec"]["completions"].integer(1);
  for (std::int64_t index = 0; index < completions && missing > 0; ++index) {
    if (active.contains(index) || run.done.contains(index)) continue;
    create_pod(job, index);
    --missing;
  }
}

void JobController::create_pod(const Json& job, std::optional<std::int64_t> index) {
  Json pod = job["spec"]["template"];
  const std::string name = name_of(job), uid = uid_of(job);
  Json& metadata = pod.set("metadata");
  metadata.set("generateName", index ? fmt::format("{}-{}-", name, *index) : name + "-");
  metadata.set("ownerReferences", Json::array({Json::object({{"apiVersion", "batch/v1"},
                                                             {"kind", "Job"},
                                                             {"name", name},
                                                             {"uid", uid},
                                                             {"controller", true},
                                                             {"blockOwnerDeletion", true}})}));
  Json& labels = metadata.set("labels");
  for (const char* key : {"controller-uid", "batch.kubernetes.io/controller-uid"}) labels.set(key, uid);
  for (const char* key : {"job-name", "batch.kubernetes.io/job-name"}) labels.set(key, name);
  if (index) {
    labels.set(words::kJobIndex, std::to_string(*index));
    metadata.set("annotations").set(words::kJobIndex, std::to_string(*index));
    pod.set("spec").set("hostname", fmt::format("{}-{}", name, *index));
  }
  (void)store_.create(pods_, namespace_of(job), std::move(pod));
}

void JobController::stop_pods(const std::string& uid, std::size_t keep) {
  std::vector<ObjectPtr> active;
  for (const auto& pod : store_.owned_by(uid, pods_)) {
    if (is_active(*pod)) active.push_back(pod);
  }
  std::ranges::sort(active, {}, [](const ObjectPtr& pod) { return index_of(*pod).value_or(0); });
  for (std::size_t i = keep; i < active.size(); ++i) {
    (void)store_.remove(pods_, namespace_of(*active[i]), name_of(*active[i]), {});
  }
}

void JobController::finish(const Json& job, bool ok, std::string_view reason, std::string_view message) {
  const std::string uid = uid_of(job);
  stop_pods(uid);
  write_status(job, runs_[uid], false);
  store_.modify(jobs_, namespace_of(job), name_of(job), [&](Json& object) {
    set_condition(object, ok ? "Complete" : "Failed", "True", reason, message, world_.now_floor());
    if (ok) object.set("status").set("completionTime", to_rfc3339(world_.now_floor()));
  });
  world_.record("job_finish", Json::object({{"uid", uid}, {"ok", ok}}));
  if (const Json& ttl = job["spec"]["ttlSecondsAfterFinished"]; ttl.is_int()) {
    world_.after(std::chrono::seconds(ttl.integer()), [this, ns = namespace_of(job), name = name_of(job), uid] {
      (void)store_.remove(jobs_, ns, name, {uid, {}, {}, "Background"});
    });
  }
}

void JobController::write_status(const Json& job, const Run& run, bool suspended) {
  std::int64_t active = 0, ready = 0, terminating = 0;
  for (const auto& pod : store_.owned_by(uid_of(job), pods_)) {
    if (is_finished(*pod)) continue;
    if (is_terminating(*pod)) {
      ++terminating;
      continue;
    }
    ++active;
    ready += condition_of(*pod, "Ready")["status"].string() == "True" ? 1 : 0;
  }
  store_.modify(jobs_, namespace_of(job), name_of(job), [&](Json& object) {
    Json& status = object.set("status");
    status.set("active", active).set("ready", ready).set("terminating", terminating);
    status.set("succeeded", run.succeeded).set("failed", run.failed);
    if (!run.done.empty()) status.set("completedIndexes", format_indexes(run.done));
    const bool was_suspended = condition_of(object, "Suspended")["status"].string() == "True";
    if (suspended) {
      status.erase("startTime");
      set_condition(object, "Suspended", "True", "JobSuspended", "Job suspended", world_.now_floor());
    } else {
      if (!status.contains("startTime")) status.set("startTime", to_rfc3339(world_.now_floor()));
      if (was_suspended) set_condition(object, "Suspended", "False", "JobResumed", "Job resumed", world_.now_floor());
    }
  });
}

}  // namespace qm::fleet
