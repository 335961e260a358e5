#include "job_controller.hpp"

#include "cluster.hpp"
#include "text.hpp"

#include <algorithm>

namespace qm::fleet {
namespace {

constexpr Duration kFirstRetry = std::chrono::seconds(10), kLastRetry = std::chrono::minutes(6);

std::optional<std::int64_t> index_of(const Json& pod) {
  return whole_number(annotation_of(pod, words::kJobIndex).string());
}

/// The Job that controls the pod, or nothing.
std::string job_of(const Json& pod) {
  for (const Json& owner : pod["metadata"]["ownerReferences"].items()) {
    if (owner["kind"].string() == "Job" && owner["controller"].boolean()) return owner["uid"].string();
  }
  return {};
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
  for (const auto part : split(text, ',')) {
    const auto ends = split(part, '-');
    const auto first = whole_number(ends.front()), last = whole_number(ends.back());
    for (std::int64_t i = first.value_or(0); first && last && i <= *last; ++i) indexes.insert(i);
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
    const std::int64_t ranks = spec["parallelism"].integer(1);
    std::string team = label_of(object, words::kTeamLabel).string();
    if (team.empty()) team = label_of(spec["template"], words::kTeamLabel).string();
    world_.record("job_create", {{"uid", uid},
                                 {"job", namespace_of(object) + "/" + name_of(object)},
                                 {"team", team},
                                 {"queue", label_of(object, words::kQueueLabel).string()},
                                 {"gang", ranks},
                                 {"gpus", ranks * gpus_wanted(spec["template"]["spec"])}});
  }
  if (!after) {
    world_.record("job_delete", {{"uid", uid}});
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
  if (!job || is_deleting(*job)) return;
  if (is_true(*job, "Complete") || is_true(*job, "Failed")) return;
  Run& run = runs_[uid];
  const Json& spec = (*job)["spec"];
  const std::int64_t completions = spec["completions"].integer(1), parallelism = spec["parallelism"].integer(1);
  const auto active = active_pods(uid);
  const auto running = static_cast<std::int64_t>(active.size());
  // Without completions (a work-queue Job) no pods are added after the first success, and all running pods must finish.
  const bool is_queue = spec["completions"].is_null(), is_drained = run.succeeded > 0;
  if (is_queue ? is_drained && running == 0 : run.succeeded >= completions)
    return finish(*job, true, "CompletionsReached", "Reached expected number of succeeded pods");
  if (run.failed > spec["backoffLimit"].integer(6)) {
    return finish(*job, false, "BackoffLimitExceeded", "Job has reached the specified backoff limit");
  }
  const bool suspended = spec["suspend"].boolean();
  const std::int64_t left = !is_queue ? completions - run.succeeded : is_drained ? running : parallelism;
  const std::int64_t wanted = suspended ? 0 : std::min(parallelism, left);
  const std::int64_t missing = wanted - running;
  if (missing < 0) stop_pods(active, static_cast<std::size_t>(wanted));
  if (missing > 0 && world_.now() >= run.retry_at) create_pods(*job, run, active, missing);
  if (missing > 0 && world_.now() < run.retry_at) world_.at(run.retry_at, [this, uid] { mark(uid); });
  write_status(*job, run, suspended);
}

std::vector<ObjectPtr> JobController::active_pods(const std::string& uid) const {
  std::vector<ObjectPtr> active = store_.owned_by(uid, pods_);
  std::erase_if(active, [](const ObjectPtr& pod) { return is_finished(*pod) || is_deleting(*pod); });
  std::ranges::sort(active, {}, [](const ObjectPtr& pod) { return index_of(*pod).value_or(0); });
  return active;
}

void JobController::create_pods(const Json& job, const Run& run, const std::vector<ObjectPtr>& active,
                                std::int64_t missing) {
  if (job["spec"]["completionMode"].string() != "Indexed") {
    for (; missing > 0; --missing) create_pod(job, std::nullopt);
    return;
  }
  std::set<std::int64_t> taken = run.done;
  for (const auto& pod : active) taken.insert(index_of(*pod).value_or(-1));
  const std::int64_t completions = job["spec"]["completions"].integer(1);
  for (std::int64_t index = 0; index < completions && missing > 0; ++index) {
    if (taken.contains(index)) continue;
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

void JobController::stop_pods(const std::vector<ObjectPtr>& pods, std::size_t keep) {
  for (std::size_t i = keep; i < pods.size(); ++i) {
    (void)store_.remove(pods_, namespace_of(*pods[i]), name_of(*pods[i]), {});
  }
}

void JobController::finish(const Json& job, bool ok, std::string_view reason, std::string_view message) {
  const std::string uid = uid_of(job);
  stop_pods(active_pods(uid));
  write_status(job, runs_[uid], false);
  store_.modify(jobs_, namespace_of(job), name_of(job), [&](Json& object) {
    set_condition(object, ok ? "Complete" : "Failed", "True", reason, message, world_.now_floor());
    if (ok) object.set("status").set("completionTime", to_rfc3339(world_.now_floor()));
  });
  world_.record("job_finish", {{"uid", uid}, {"ok", ok}});
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
    ++(is_deleting(*pod) ? terminating : active);
    ready += !is_deleting(*pod) && is_true(*pod, "Ready") ? 1 : 0;
  }
  store_.modify(jobs_, namespace_of(job), name_of(job), [&](Json& object) {
    Json& status = object.set("status");
    status.set("active", active).set("ready", ready).set("terminating", terminating);
    status.set("succeeded", run.succeeded).set("failed", run.failed);
    if (!run.done.empty()) status.set("completedIndexes", format_indexes(run.done));
    const Instant now = world_.now_floor();
    if (suspended) {
      status.erase("startTime");
      set_condition(object, "Suspended", "True", "JobSuspended", "Job suspended", now);
    } else {
      if (!status.contains("startTime")) status.set("startTime", to_rfc3339(now));
      if (is_true(object, "Suspended")) set_condition(object, "Suspended", "False", "JobResumed", "Job resumed", now);
    }
  });
}

}  // namespace qm::fleet
