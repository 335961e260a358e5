// The table of the workload kinds: where their pod templates are, what suspends them, and what ends them.
#include "qm/config/workload_kinds.hpp"

#include "job.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>

namespace qm::config {
namespace {

using Places = std::vector<TemplatePlace>;

constexpr std::int64_t kMostPods = 100'000;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// The number of replicas; one if absent.
std::int64_t replicas(const Json& of) { return of["replicas"].integer(1); }

std::int64_t at_once(const Json& job_spec) {
  const auto most = job_spec["parallelism"].integer(1);
  return job_spec["completions"].is_null() ? most : std::min(most, job_spec["completions"].integer());
}

Places of_job(const Json& job) { return {{"main", {"spec", "template"}, at_once(job["spec"])}}; }

Places of_pod(const Json&) { return {{"main", {}, 1}}; }

Places of_replicas(const Json& object) { return {{"main", {"spec", "template"}, replicas(object["spec"])}}; }

/// One run of it; each is a Job, and a separate workload.
Places of_cron_job(const Json& object) {
  return {{"main", {"spec", "jobTemplate", "spec", "template"}, at_once(object.path("spec.jobTemplate.spec"))}};
}

/// Kubeflow: spec.NAMEReplicaSpecs.ROLE.
Places of_roles(const Json& object) {
  // Roles that start the others come first, as in their operators.
  static constexpr std::array<std::string_view, 6> kFirst{"launcher",  "chief", "master",
                                                          "scheduler", "ps",    "evaluator"};
  Places out;
  const auto& spec = object["spec"];
  for (const auto& [name, roles] : spec.members()) {
    if (!name.ends_with("ReplicaSpecs")) continue;
    for (const auto& [role, read] : roles.members()) {
      TemplatePlace place{lower(role), {"spec", name, role, "template"}, replicas(read)};
      const auto& least = spec["elasticPolicy"]["minReplicas"];
      if (place.pod_set == "worker" && least.is_int() && least.integer() < place.count) place.least = least.integer();
      out.push_back(std::move(place));
    }
  }
  const auto rank = [](const TemplatePlace& place) {
    return std::pair(std::ranges::find(kFirst, place.pod_set) - kFirst.begin(), place.pod_set);
  };
  std::ranges::sort(out, {}, rank);
  return out;
}

Places of_job_set(const Json& object) {
  Places out;
  const auto& jobs = object.path("spec.replicatedJobs").items();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    out.push_back({jobs[i]["name"].string(),
                   {"spec", "replicatedJobs", std::to_string(i), "template", "spec", "template"},
                   replicas(jobs[i]) * at_once(jobs[i].path("template.spec"))});
  }
  return out;
}

Places of_ray(const Json& cluster, const std::vector<std::string>& at) {
  Places out;
  const auto under = [&at](std::initializer_list<std::string> more) {
    auto path = at;
    path.insert(path.end(), more);
    return path;
  };
  out.push_back({"head", under({"headGroupSpec", "template"}), 1});
  const bool scales = cluster["enableInTreeAutoscaling"].boolean();
  const auto& groups = cluster["workerGroupSpecs"].items();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const auto& group = groups[i];
    if (group["suspend"].boolean()) continue;
    const auto hosts = group["numOfHosts"].integer(1);
    TemplatePlace place{lower(group["groupName"].string()), under({"workerGroupSpecs", std::to_string(i), "template"}),
                        group["replicas"].integer(group["minReplicas"].integer(0)) * hosts};
    const auto least = group["minReplicas"].integer(0) * hosts;
    if (scales && least > 0 && least < place.count) place.least = least;
    out.push_back(std::move(place));
  }
  return out;
}

Places of_ray_cluster(const Json& object) { return of_ray(object["spec"], {"spec"}); }

Places of_ray_job(const Json& object) {
  const auto& spec = object["spec"];
  auto out = of_ray(spec["rayClusterSpec"], {"spec", "rayClusterSpec"});
  // Without a template of its own the submitter requests no GPU, and few other resources.
  if (spec["submitterPodTemplate"].is_object()) out.push_back({"submitter", {"spec", "submitterPodTemplate"}, 1});
  return out;
}

Places of_leader_worker(const Json& object) {
  const auto& spec = object["spec"];
  const auto& group = spec["leaderWorkerTemplate"];
  const auto size = group["size"].integer(1);
  if (!group["leaderTemplate"].is_object()) {
    return {{"main", {"spec", "leaderWorkerTemplate", "workerTemplate"}, replicas(spec) * size}};
  }
  Places out{{"leader", {"spec", "leaderWorkerTemplate", "leaderTemplate"}, replicas(spec)}};
  if (size > 1) {
    out.push_back({"worker", {"spec", "leaderWorkerTemplate", "workerTemplate"}, replicas(spec) * (size - 1)});
  }
  return out;
}

// ---- pods that still exist ----

std::int64_t active_job(const Json& object) {
  return object["status"]["active"].integer() + object["status"]["terminating"].integer();
}

std::int64_t active_roles(const Json& object) {
  std::int64_t out = 0;
  for (const auto& [role, counts] : object.path("status.replicaStatuses").members()) out += counts["active"].integer();
  return out;
}

/// Counts Jobs, which exist as long as their pods.
std::int64_t active_job_set(const Json& object) {
  std::int64_t out = 0;
  for (const auto& jobs : object.path("status.replicatedJobsStatus").items()) out += jobs["active"].integer();
  return out;
}

std::int64_t active_ray_cluster(const Json& object) {
  const auto& status = object["status"];
  const auto& state = status["state"].string();
  if (state == "suspended") return 0;
  return std::max<std::int64_t>(status["availableWorkerReplicas"].integer(), state == "ready" ? 1 : 0);
}

/// Its cluster is deleted before its status is suspended.
std::int64_t active_ray_job(const Json& object) {
  const auto& state = object.path("status.jobDeploymentStatus").string();
  static constexpr std::array<std::string_view, 6> kQuiet{"", "New", "Suspended", "Complete", "Failed", "Waiting"};
  return std::ranges::find(kQuiet, state) == kQuiet.end() ? 1 : 0;
}

WorkloadKind kubeflow(std::string_view kind, std::string_view plural) {
  return {"kubeflow.org", {"v1"},   kind,     plural,      "spec.runPolicy.suspend",
          "Succeeded",    "Failed", of_roles, active_roles};
}

WorkloadKind gated(std::string_view group, std::string_view version, std::string_view kind, std::string_view plural,
                   Places (*places)(const Json&)) {
  return {group, {version}, kind, plural, {}, {}, {}, places, nullptr};
}

std::string_view group_of(std::string_view api_version) {
  const auto slash = api_version.find('/');
  return slash == std::string_view::npos ? std::string_view{} : api_version.substr(0, slash);
}

/// One step into an object, or into a list by index; null if there is no such value.
const Json* step(const Json& from, const std::string& name) {
  if (!from.is_array()) return from.find(name);
  std::size_t position = std::numeric_limits<std::size_t>::max();
  std::from_chars(name.data(), name.data() + name.size(), position);
  return position < from.size() ? &from.at(position) : nullptr;
}

const Json& controller_of(const Json& object) {
  static const Json none;
  for (const auto& owner : object["metadata"]["ownerReferences"].items()) {
    if (owner["controller"].boolean()) return owner;
  }
  return none;
}

}  // namespace

const std::vector<WorkloadKind>& workload_kinds() {
  static const std::vector<WorkloadKind> kinds{
      {"batch", {"v1"}, "Job", "jobs", "spec.suspend", "Complete", "Failed", of_job, active_job},
      {"jobset.x-k8s.io",
       {"v1alpha2"},
       "JobSet",
       "jobsets",
       "spec.suspend",
       "Completed",
       "Failed",
       of_job_set,
       active_job_set},
      kubeflow("PyTorchJob", "pytorchjobs"),
      {"kubeflow.org",
       {"v2beta1", "v1"},
       "MPIJob",
       "mpijobs",
       "spec.runPolicy.suspend",
       "Succeeded",
       "Failed",
       of_roles,
       active_roles},
      kubeflow("TFJob", "tfjobs"),
      kubeflow("XGBoostJob", "xgboostjobs"),
      kubeflow("PaddleJob", "paddlejobs"),
      kubeflow("JAXJob", "jaxjobs"),
      {"ray.io", {"v1"}, "RayCluster", "rayclusters", "spec.suspend", {}, {}, of_ray_cluster, active_ray_cluster},
      {"ray.io", {"v1"}, "RayJob", "rayjobs", "spec.suspend", {}, {}, of_ray_job, active_ray_job},
      gated("", "v1", "Pod", "pods", of_pod),
      gated("apps", "v1", "Deployment", "deployments", of_replicas),
      gated("apps", "v1", "ReplicaSet", "replicasets", of_replicas),
      gated("apps", "v1", "StatefulSet", "statefulsets", of_replicas),
      gated("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", of_leader_worker),
      gated("batch", "v1", "CronJob", "cronjobs", of_cron_job)};
  return kinds;
}

const WorkloadKind* workload_kind(std::string_view api_version, std::string_view kind) {
  const WorkloadKind* found = workload_kind(kind);
  return found != nullptr && found->group == group_of(api_version) ? found : nullptr;
}

std::optional<Diagnostic> refuse_applied_workload(const Document& document) {
  const auto* kind = workload_kind(document.api_version, document.kind);
  if (kind == nullptr) return std::nullopt;
  Diagnostic out;
  out.file = document.file;
  out.line = document.line;
  out.field = "kind";
  out.message = fmt::format("{}/{}{}{} is a workload, and apply takes configuration only", document.kind, document.ns,
                            document.ns.empty() ? "" : "/", document.name);
  out.remedy = document.kind == "Job"
                   ? fmt::format("submit the Job: qmctl submit -f {}", document.file)
                   : fmt::format("create the {}: kubectl create -f {}", document.kind, document.file);
  return out;
}

const WorkloadKind* workload_kind(std::string_view kind) {
  const auto& kinds = workload_kinds();
  const auto found = std::ranges::find(kinds, kind, &WorkloadKind::kind);
  return found == kinds.end() ? nullptr : &*found;
}

const Json* find_template(const Json& object, const TemplatePlace& place) {
  const Json* at = &object;
  for (const auto& name : place.path) {
    if (at != nullptr) at = step(*at, name);
  }
  return at;
}

Json* find_template(Json& object, const TemplatePlace& place) {
  return const_cast<Json*>(find_template(std::as_const(object), place));
}

bool has_condition(const Json& object, std::string_view type) {
  for (const auto& c : object.path("status.conditions").items()) {
    if (c["type"].string() == type) return c["status"].string() == "True";
  }
  return false;
}

bool is_complete(const Json& object, const WorkloadKind& kind) {
  if (kind.kind == "RayJob") return object.path("status.jobStatus").string() == "SUCCEEDED";
  return !kind.complete.empty() && has_condition(object, kind.complete);
}

bool is_failed(const Json& object, const WorkloadKind& kind) {
  if (kind.kind == "RayJob") {
    const auto& flag_text = object.path("status.jobStatus").string();
    return flag_text == "FAILED" || flag_text == "STOPPED" ||
           object.path("status.jobDeploymentStatus").string() == "Failed";
  }
  return !kind.failed.empty() && has_condition(object, kind.failed);
}

bool is_elastic_job(const Json& job) {
  const auto& annotations = job["metadata"]["annotations"];
  return annotations[kElasticJob].string() == "true" && annotations[words::kJobLeast].string().empty();
}

std::int64_t ready_pods(const Json& job) {
  return job["status"]["ready"].integer() + job["status"]["succeeded"].integer();
}

bool are_pods_ready(const Json& object, const WorkloadKind& kind) {
  const auto& status = object["status"];
  const auto there = [](const Json& counts) { return counts["ready"].integer() + counts["succeeded"].integer(); };
  if (kind.kind == "Pod") return has_condition(object, "Ready") || status["phase"].string() == "Succeeded";
  if (kind.kind == "Job") return there(status) >= at_once(object["spec"]);
  if (kind.kind == "JobSet") {
    for (const auto& jobs : object.path("spec.replicatedJobs").items()) {
      const auto& all = status["replicatedJobsStatus"].items();
      const auto one = std::ranges::find_if(all, [&](const Json& s) { return s["name"] == jobs["name"]; });
      if (one == all.end() || there(*one) < replicas(jobs)) return false;
    }
    return true;
  }
  if (kind.kind == "RayCluster") return status["state"].string() == "ready";
  if (kind.kind == "RayJob") return status.path("rayClusterStatus.state").string() == "ready";
  return has_condition(object, "Running") || has_condition(object, "Succeeded");
}

Result<WorkloadSpec> workload_from_object(const Json& object) {
  const auto* kind = workload_kind(object["apiVersion"].string(), object["kind"].string());
  if (kind == nullptr) {
    return fail({Code::kUnimplemented,
                 fmt::format("{} {} is not a workload", object["apiVersion"].string(), object["kind"].string()), "kind",
                 "its pods may be workloads: set a queue on them"});
  }
  if (kind->kind == "Job") return workload_from_job(object);
  return without_file(object, [&](const Cursor& root) {
    static const Table<JobRead> metadata{required(object_metadata())};
    static const Table<JobRead> rows = template_rows();
    JobRead read;
    read_object(root, metadata, read, Unknown::kCarry);
    if (!read.name.empty()) check_name(root.member("metadata").member("name"), read.name);
    std::vector<PodSet> sets;
    std::string priority = object.path("spec.runPolicy.schedulingPolicy.priorityClass").string();
    const auto places = kind->places(object);
    if (places.empty()) root.member("spec").error("has no pod template", "add a pod template");
    for (const auto& place : places) {
      Cursor at = root;
      for (const auto& name : place.path) at.path += (at.path.empty() ? "" : ".") + name;
      at.value = find_template(object, place);
      if (at.value == nullptr) {
        at.error("is missing", "add a pod template");
        continue;
      }
      if (place.count < 0 || place.count > kMostPods) {
        at.error(fmt::format("makes {} pods, which is out of range", place.count),
                 fmt::format("set replicas so that it makes 0 to {} pods", kMostPods));
        continue;
      }
      read.pod = {};
      read_object(at, rows, read, Unknown::kCarry);
      choose_parts(at, read.pod);
      if (priority.empty()) priority = read.pod.priority_class;
      if (place.count == 0) continue;
      sets.push_back({place.pod_set, static_cast<std::int32_t>(place.count), static_cast<std::int32_t>(place.least),
                      std::move(read.pod.shape), std::move(read.pod.topology),
                      rules_of_template(*at.value, read.pod.node_affinity_is_in_shape)});
    }
    read.pod.priority_class = std::move(priority);
    WorkloadSpec out = workload_of(read, std::string(kind->kind));
    out.pod_sets = std::move(sets);
    return out;
  });
}

std::string run_of_pod(const Json& pod) {
  // Kubeflow Pipelines run as Workflows: the run's own label precedes that of the workflow.
  static constexpr std::array<std::string_view, 4> kLabels{"pipeline/runid", "workflows.argoproj.io/workflow",
                                                           "tekton.dev/pipelineRun", "tekton.dev/taskRun"};
  const auto& labels = pod["metadata"]["labels"];
  for (const auto label : kLabels) {
    if (const auto& name = labels[label].string(); !name.empty()) return fmt::format("{}={}", label, name);
  }
  const auto& owner = controller_of(pod);
  const auto group = group_of(owner["apiVersion"].string());
  if (group == "argoproj.io" || group == "tekton.dev") return "uid=" + owner["uid"].string();
  return {};
}

bool is_made_by_framework(const Json& pod) {
  static constexpr std::array<std::string_view, 2> kLabels{"serving.kserve.io/inferenceservice",
                                                           "seldon-deployment-id"};
  const auto& labels = pod["metadata"]["labels"];
  return !run_of_pod(pod).empty() || std::ranges::any_of(kLabels, [&](auto label) { return labels.contains(label); });
}

}  // namespace qm::config
