// What the webhook does with a Job or pod.
//
//   CREATE   excluded? other scheduler? -> unchanged
//            requests from limits, and from needs (needs.cpp); fixed where the mode of a rule is mutate (rules.cpp),
//            missing settings of gangs added (gangs.cpp)
//            in a queue, by its own label or the default of the namespace?
//                Job -> label, suspend;  pod -> label, gate
//            owned metadata by another account? GPUs that bypass a required quota? -> refused (isolation.cpp)
//   UPDATE   by an account of Quartermaster? -> unchanged
//            template of a Job changed? -> checked again
//            unsuspended or ungated by hand, or changed a field that its quota was counted from? -> refused
#include "qm/admission_policy/policy.hpp"

#include "isolation.hpp"
#include "pod.hpp"
#include "qm/admission_policy/lint.hpp"
#include "qm/config/runtime_class.hpp"
#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/other_scheduler.hpp"
#include "qm/model/scalers.hpp"
#include "rules.hpp"
#include "scalers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace qm::admission_policy {
namespace {

constexpr const char* kSpec = "spec";
constexpr const char* kMetadata = "metadata";
constexpr std::string_view kOtherScheduler = "OtherScheduler";

const View::Namespace& namespace_of(const Subject& s, const View& view) {
  static const View::Namespace none;
  const auto found = view.namespaces.find(s.ns);
  return found == view.namespaces.end() ? none : found->second;
}

std::string label_value(const Labels& labels, std::string_view key) {
  const auto found = labels.find(std::string(key));
  return found == labels.end() ? std::string() : found->second;
}

bool out_of_scope(const Subject& s, const Settings& settings, const View& view) {
  return settings.excluded.contains(s.ns) || label_value(namespace_of(s, view).labels, kManagedLabel) == "false";
}

/// Whether it is a pod or Job with GPUs in a namespace that requires quota for all GPUs: labels of the author cannot
/// exempt it from quota.
bool strict(const Subject& s, const View& view) {
  if (!counts_every_gpu(s, view)) return false;
  const auto asks = [&](const Json& object) {
    return requests_devices(s.kind == "Job" ? object[kSpec]["template"] : object);
  };
  return asks(*s.object) || (s.old != nullptr && asks(*s.old));
}

/// Whether the webhook ignores the object: excluded by namespace or label, or a mirror pod of a kubelet.
bool left_out(const Subject& s, const Json& object, const Settings& settings, const View& view) {
  if (out_of_scope(s, settings, view)) return true;
  if (strict(s, view)) return is_mirror_of_kubelet(s, object);
  return kube::label(object, kManagedLabel) == "false" ||
         !kube::annotation(object, "kubernetes.io/config.mirror").empty();
}

/// Whether admission counts the pod by itself. It does for a pod without an owner. It also does for a pod whose owner
/// is not suspended as a whole (nor a DaemonSet or Node), and that names a queue, or requests GPUs for a serving
/// framework or a step of a run.
/// Where quota is required for all GPUs: for every pod with GPUs that is not part of a workload.
bool counts_alone(const Json& pod, const Subject& s, const Settings& settings, const View& view) {
  if (strict(s, view)) return !is_part_of_workload(s, pod, settings);
  const auto& owner = controller_of(pod);
  if (owner.is_null()) return true;
  const auto& kind = owner["kind"].string();
  if (kind == "DaemonSet" || kind == "Node") return false;
  const auto* stands = config::workload_kind(owner["apiVersion"].string(), kind);
  if (stands != nullptr && stands->suspends()) return false;
  if (!kube::label(pod, words::kQueueLabel).empty()) return true;
  if (!config::is_made_by_framework(pod)) return false;
  bool gpus = false;
  each_container(pod[kSpec], [&](const Json& container) { gpus = gpus || gpus_of(container) > 0; });
  return gpus;
}

bool names_a_queue(const Json& object) {
  return !kube::label(object, words::kQueueLabel).empty() || !kube::annotation(object, words::kQueueLabel).empty();
}

/// By the same rule as the watch.
bool is_queued(const Json& job) { return names_a_queue(job) || names_a_queue(job[kSpec]["template"]); }
bool is_managed(const Json& job) {
  return is_queued(job) || job[kSpec]["template"][kSpec]["schedulerName"].string() == words::kScheduler;
}

bool manages_quota(const Subject& s, const View& view) { return !view.manages_quota || view.manages_quota(s.ns); }

std::string default_queue(const Subject& s, const View& view) {
  const auto named = label_value(namespace_of(s, view).labels, kDefaultQueueLabel);
  if (!named.empty()) return named;
  const auto queues = view.local_queues.find(s.ns);
  return queues != view.local_queues.end() && queues->second.contains("default") ? "default" : std::string();
}

void requests_from_limits(Json& pod_spec) {
  each_container_mut(pod_spec, [](Json& container) {
    const Json limits = container["resources"]["limits"];
    for (const auto& [name, value] : limits.members()) {
      if (!is_gpu(name) || container["resources"]["requests"].contains(name)) continue;
      container.set("resources").set("requests").set(name, value);
    }
  });
}

void schedule_by(Json& pod_spec, const Subject& s, const Settings& settings, const View& view) {
  if (settings.scheduler.empty() || (view.manages_binding && !view.manages_binding(s.ns))) return;
  if (names_other_scheduler(pod_spec)) return;  // isolation.cpp refuses it where it is not allowed
  pod_spec.set("schedulerName", settings.scheduler);
}

void gate(Json& pod) {
  auto& gates = pod.set(kSpec).set("schedulingGates");
  const auto& all = gates.items();
  if (std::ranges::any_of(all, [](const Json& g) { return g["name"].string() == kAdmissionGate; })) return;
  gates.push_back(Json::object({{"name", kAdmissionGate}}));
}

bool gated(const Json& pod) {
  const auto& all = pod[kSpec]["schedulingGates"].items();
  return std::ranges::any_of(all, [](const Json& g) { return g["name"].string() == kAdmissionGate; });
}

/// Gang size of a Job: as many pods as may run at the same time.
std::int64_t gang_of_job(const Json& job) {
  const auto at_once = job[kSpec]["parallelism"].integer(1);
  return std::max(at_once, gang_of(job[kSpec]["template"]));
}

/// Adds what the rules in mode mutate would find missing; `maker` is the Job of a template, null for a pod.
void apply_defaults(Json& pod, const Json& maker, const View::Namespace& home, const Settings& settings) {
  const auto modes = modes_in(home, settings);
  if (!modes.mutates()) return;
  supply(pod, maker.is_null() ? Labels() : labels_of(maker), home, settings, modes);
  const auto& gangs = settings.facts.gangs;
  if (!gangs) return;
  const auto gang = maker.is_null() ? gang_of(pod) : gang_of_job(maker);
  if (modes.mends(RuleId::kGangEnvironment)) join_gang(pod, gang, *gangs);
  if (modes.mends(RuleId::kGangTopology) && gang > 1) request_topology(pod, *gangs);
}

void mutate_pod(Json& pod, const Subject& s, const Settings& settings, const View& view) {
  requests_from_limits(pod.set(kSpec));
  choose_shares(pod);
  apply_defaults(pod, {}, namespace_of(s, view), settings);
  offer_resume(pod);
  // A pod that names its node bypasses every scheduler; the API server does not allow a gate on it.
  if (!manages_quota(s, view) || !settings.gate_pods || !counts_alone(pod, s, settings, view) ||
      !pod[kSpec]["nodeName"].string().empty())
    return;
  if (!names_a_queue(pod)) {
    const auto queue = default_queue(s, view);
    if (queue.empty()) return;
    pod.set(kMetadata).set("labels").set(words::kQueueLabel, queue);
  }
  gate(pod);
  schedule_by(pod.set(kSpec), s, settings, view);
}

void mutate_job(Json& job, const Subject& s, const Settings& settings, const View& view) {
  auto& pods = job.set(kSpec).set("template");
  requests_from_limits(pods.set(kSpec));
  choose_shares(pods);
  apply_defaults(pods, job, namespace_of(s, view), settings);
  offer_resume(pods);
  // The Jobs of a JobSet or similar object are suspended and started with it.
  if (!manages_quota(s, view) || is_part_of_workload(s, job, settings)) return;
  if (!is_queued(job)) {
    const auto queue = default_queue(s, view);
    if (queue.empty() && !is_managed(job)) return;
    if (!queue.empty()) job.set(kMetadata).set("labels").set(words::kQueueLabel, queue);
  }
  job.set(kSpec).set("suspend", true);
  schedule_by(job.set(kSpec).set("template").set(kSpec), s, settings, view);
}

bool marked(const Json& object) { return object[kMetadata]["labels"].contains(kJudged); }

void mark(Json& object, bool clean) {
  if (clean) {
    object.set(kMetadata).set("labels").set(kJudged, "true");
  } else if (marked(object)) {
    object.set(kMetadata).set("labels").erase(kJudged);
  }
}

// ---- rules --------------------------------------------------------------------------------------------------------

/// The path of a finding in the whole object.
std::string whole_path(const std::string& field, bool job) {
  if (field.starts_with("metadata.namespace") || field.starts_with("spec.")) return field;
  if (field.starts_with("metadata")) return (job ? "spec.template." : "") + field;
  return (job ? "spec.template.spec." : "spec.") + field;
}

void apply_rules(const Subject& s, const Settings& settings, const View& view, Verdict& out) {
  static const std::vector<ResourceQuota> no_quotas;
  const auto& object = *s.object;
  const bool job = s.kind == "Job";
  const auto& written = job ? object[kSpec]["template"] : object;
  Json merged;  // a template merged with its RuntimeClass, as the API server merges pods
  const auto runtime = view.runtime_classes.find(written[kSpec]["runtimeClassName"].string());
  if (job && runtime != view.runtime_classes.end()) {
    merged = written;
    // Where the two contradict each other, the workload is Rejected with the reason; the rules check the
    // spec as written.
    (void)config::merge_scheduling(merged.set(kSpec), runtime->second, runtime->first, "spec.template.spec");
  }
  const auto& pod = merged.is_object() ? merged : written;
  const auto& home = namespace_of(s, view);
  const auto modes = modes_in(home, settings);
  const auto labels = labels_of(pod);
  const auto quotas = view.quotas.find(s.ns);
  Case one{labels, pod, settings, home, s.ns, quotas == view.quotas.end() ? no_quotas : quotas->second};
  if (settings.facts.gangs) one.gang = job ? gang_of_job(object) : gang_of(pod);
  one.is_template = job;
  one.gpus = requests_gpus(pod);
  Findings found;
  examine(one, modes, found);
  if (job && modes[RuleId::kLint] != Mode::kOff) lint(object, {}, found);
  for (auto& finding : found) {
    finding.field = whole_path(finding.field, job);
    (modes[rule_of(finding)] == Mode::kWarn ? out.warnings : out.refusals).push_back(std::move(finding));
  }
  if (!one.gpus || !home.labels.contains(settings.facts.compliance_label)) return;
  out.audit["compliance"] = home.labels.at(settings.facts.compliance_label);
  out.audit["decision"] = out.allowed() ? "allowed" : fmt::format("refused by {}", out.refusals.front().rule);
}

/// Warns of a Job that is counted here but bound by another scheduler, unless it is refused. Call it after mutate.
void warn_of_other_scheduler(const Subject& s, const Settings& settings, const View& view, Verdict& out) {
  if (s.kind != "Job" || !is_queued(*s.object) || !out.allowed()) return;
  if (view.manages_binding && !view.manages_binding(s.ns)) return;
  const auto& spec = (*s.object)[kSpec]["template"][kSpec];
  if (spec["schedulerName"].string() == words::kScheduler) return;
  if (!names_other_scheduler(spec) && !settings.scheduler.empty()) return;  // mutate sets it
  auto other = other_scheduler(false);
  out.warnings.push_back({std::string(kOtherScheduler), std::move(other.message),
                          whole_path("spec.schedulerName", true), std::move(other.remedy)});
}

// ---- changes by hand
// -----------------------------------------------------------------------------------------------

bool one_of_us(const std::string& user, const Settings& settings) {
  return std::ranges::any_of(settings.own_users, [&](const std::string& own) {
    return own.ends_with('*') ? user.starts_with(own.substr(0, own.size() - 1)) : user == own;
  });
}

std::string object_name(const Subject& s) { return fmt::format("{} {}/{}", s.kind, s.ns, s.name); }

std::string explains(const Subject& s) {
  return fmt::format("qmctl why {}/{} shows why it is pending; to start it sooner, raise its priority or its quota",
                     s.ns, s.name);
}

bool ended(const Json& job) {
  const auto& conditions = job.path("status.conditions").items();
  return std::ranges::any_of(conditions, [](const Json& c) {
    return (c["type"].string() == "Complete" || c["type"].string() == "Failed") && c["status"].string() == "True";
  });
}

/// A field that quota was counted from, with its old and new value.
struct Counted {
  std::string field;
  Json was, is;
};
std::vector<Counted> counted_in_job(const Json& was, const Json& is) {
  std::vector<Counted> out;
  const auto add = [&](std::string field, const Json& a, const Json& b) { out.push_back({std::move(field), a, b}); };
  add("spec.parallelism", was[kSpec]["parallelism"], is[kSpec]["parallelism"]);
  add("spec.completions", was[kSpec]["completions"], is[kSpec]["completions"]);
  add(fmt::format("metadata.annotations[{}]", config::kParallelism),
      was[kMetadata]["annotations"][config::kParallelism], is[kMetadata]["annotations"][config::kParallelism]);
  for (const auto key : {words::kQueueLabel, words::kPriorityClassLabel}) {
    add(fmt::format("metadata.labels[{}]", key), was[kMetadata]["labels"][key], is[kMetadata]["labels"][key]);
  }
  add(fmt::format("metadata.annotations[{}]", words::kQueueLabel), was[kMetadata]["annotations"][words::kQueueLabel],
      is[kMetadata]["annotations"][words::kQueueLabel]);
  const auto& before = was[kSpec]["template"][kSpec];
  const auto& after = is[kSpec]["template"][kSpec];
  for (const auto* list : {"containers", "initContainers"}) {
    const auto most = std::max(before[list].size(), after[list].size());
    for (std::size_t i = 0; i < most; ++i) {
      add(fmt::format("spec.template.spec.{}[{}].resources", list, i), before[list].at(i)["resources"],
          after[list].at(i)["resources"]);
    }
  }
  return out;
}

bool counts_pods(const Counted& c) { return c.field == "spec.parallelism" || c.field == "spec.completions"; }

/// Whether admission handles the change while the Job holds quota: another priority class; fewer pods, which releases
/// quota at once; or more pods of an elastic Job, which are pending until quota is reserved.
bool is_followed(const Counted& c, bool elastic) {
  if (c.field == fmt::format("metadata.labels[{}]", words::kPriorityClassLabel)) return true;
  return counts_pods(c) && c.is.is_int() && (elastic || c.is.integer() < c.was.integer(1));
}

/// The template of a Job that has not started may change, and the webhook is not called for its pods. Findings that
/// the old template already had do not count against the change.
void check_template_update(const Subject& s, const Settings& settings, const View& view, Verdict& out) {
  const auto& was = (*s.old)[kSpec]["template"];
  const auto& is = (*s.object)[kSpec]["template"];
  if (was == is) return;
  if (marked(is) && !marked(was)) {
    out.refusals.push_back({"held", fmt::format("{} is written by Quartermaster alone", kJudged),
                            fmt::format("spec.template.metadata.labels[{}]", kJudged), "leave it as it is"});
  }
  Verdict before, after;
  Subject old = s;
  old.object = s.old;
  apply_rules(old, settings, view, before);
  apply_rules(s, settings, view, after);
  const auto take = [](std::vector<Finding>& found, const std::vector<Finding>& known, std::vector<Finding>& to) {
    for (auto& finding : found) {
      const auto same = [&](const Finding& f) { return f.rule == finding.rule && f.field == finding.field; };
      if (std::ranges::none_of(known, same)) to.push_back(std::move(finding));
    }
  };
  take(after.refusals, before.refusals, out.refusals);
  take(after.warnings, before.warnings, out.warnings);
}

/// The API server does not call the webhook for an object with this label, so a second update could
/// bypass all checks.
void check_managed_label_update(const Subject& s, Verdict& out) {
  if (kube::label(*s.old, kManagedLabel) == "false" || kube::label(*s.object, kManagedLabel) != "false") return;
  out.refusals.push_back({"held",
                          fmt::format("{} is held by Quartermaster, and the label {}=false would release it",
                                      object_name(s), kManagedLabel),
                          fmt::format("metadata.labels[{}]", kManagedLabel), "delete it and create it with the label"});
}

void check_job_update(const Subject& s, const Settings& settings, const View& view, Verdict& out) {
  const auto& was = *s.old;
  const auto& is = *s.object;
  if (!manages_quota(s, view) || ended(was) || is_part_of_workload(s, was, settings)) return;
  require_quota_of_change(s, settings, view, is_queued(was), is_queued(is), out.refusals);
  if (!is_managed(was)) return;
  const bool held = was[kSpec]["suspend"].boolean();
  if (held && !is[kSpec]["suspend"].boolean()) {
    out.refusals.push_back({"held", fmt::format("{} is held by Quartermaster until it is admitted", object_name(s)),
                            "spec.suspend", explains(s)});
  }
  check_managed_label_update(s, out);
  if (held) return;  // its present request competes for quota, also where it held quota before
  // Pods that another scheduler binds would run without quota.
  const bool places = !settings.scheduler.empty() && (!view.manages_binding || view.manages_binding(s.ns)) &&
                      is[kSpec]["template"][kSpec]["schedulerName"].string() == settings.scheduler;
  const bool elastic = places && config::is_elastic_job(was) && config::is_elastic_job(is);
  for (const auto& c : counted_in_job(was, is)) {
    if (c.was == c.is || is_followed(c, elastic)) continue;
    const bool more = counts_pods(c) && places && !config::is_elastic_job(was) && c.is.is_int();
    out.refusals.push_back({"admitted",
                            fmt::format("{} holds quota that was counted from {}, which is {} and would be {}",
                                        object_name(s), c.field, c.was.dump(), c.is.dump()),
                            c.field,
                            more ? fmt::format("cancel it and submit the changed object; with the annotation {}: "
                                               "\"true\" it may have more pods while it runs",
                                               config::kElasticJob)
                                 : "cancel it and submit the changed object"});
  }
}

void check_pod_update(const Subject& s, Verdict& out) {
  const auto& was = *s.old;
  const auto& is = *s.object;
  if (!gated(was)) return;
  check_managed_label_update(s, out);
  if (!gated(is)) {
    out.refusals.push_back({"held", fmt::format("{} is held by Quartermaster until it is admitted", object_name(s)),
                            "spec.schedulingGates", explains(s)});
  }
  if (kube::label(was, words::kQueueLabel) != kube::label(is, words::kQueueLabel)) {
    out.refusals.push_back({"held", fmt::format("{} is queued, and the queue of a pod is immutable", object_name(s)),
                            fmt::format("metadata.labels[{}]", words::kQueueLabel),
                            "delete it and create it in the other queue"});
  }
}

}  // namespace

View::Namespace View::Namespace::read(const Json& object) {
  return {labels_of(object), texts_of(object[kMetadata]["annotations"])};
}

std::optional<Mode> mode_of(std::string_view word) {
  static constexpr std::array<std::pair<std::string_view, Mode>, 4> kWords{
      {{"off", Mode::kOff}, {"warn", Mode::kWarn}, {"enforce", Mode::kEnforce}, {"mutate", Mode::kMutate}}};
  for (const auto& [name, mode] : kWords) {
    if (name == word) return mode;
  }
  return std::nullopt;
}

std::string Finding::to_string() const {
  return fmt::format("{} ({}): {}", message, rule, remedy.empty() ? field : remedy);
}

Json mutate(const Subject& s, const Settings& settings, const View& view) {
  Json out = *s.object;
  // An account of Quartermaster gives a scaler back while its target still has the annotation.
  if (is_scaler(out)) {
    return out_of_scope(s, settings, view) || one_of_us(s.user, settings) ? out : mutate_scaler(s, view);
  }
  if (s.operation != Operation::kCreate || left_out(s, out, settings, view)) return out;
  const bool counted = strict(s, view);
  if (s.kind == "Job" && (counted || !names_other_scheduler(out[kSpec]["template"][kSpec])))
    mutate_job(out, s, settings, view);
  if (s.kind == "Pod" && (counted || !names_other_scheduler(out[kSpec]))) mutate_pod(out, s, settings, view);
  return out;
}

Json mutate_and_mark(const Subject& s, const Settings& settings, const View& view) {
  Json out = mutate(s, settings, view);
  const bool relevant = s.operation == Operation::kCreate && (s.kind == "Job" || s.kind == "Pod");
  if (!relevant || left_out(s, out, settings, view)) return out;
  Subject made = s;
  made.object = &out;
  const auto verdict = validate(made, settings, view);
  // The rules do not apply to a pod without GPUs, so it needs no mark.
  const bool asked = s.kind == "Job" || requests_gpus(out);
  // A warning about the scheduler does not count: which scheduler binds the pods does not change.
  const bool clean = asked && verdict.allowed() && std::ranges::all_of(verdict.warnings, [](const Finding& finding) {
                       return finding.rule == kOtherScheduler;
                     });
  mark(out, clean);
  // The pods of a Job follow its template, which is checked here.
  if (s.kind == "Job" && out[kSpec]["template"].is_object()) mark(out.set(kSpec).set("template"), clean);
  return out;
}

Status check_job(const Json& job, const std::string& user, const Settings& settings, const View& view) {
  Subject subject{Operation::kCreate, "Job", kube::namespace_of(job), kube::name_of(job), user, &job};
  const Json mutated = mutate(subject, settings, view);
  subject.object = &mutated;
  const auto verdict = validate(subject, settings, view);
  if (verdict.allowed()) return {};
  const auto& first = verdict.refusals.front();
  if (verdict.refusals.size() == 1) {
    return fail(Error{Code::kFailedPrecondition,
                      fmt::format("{} is refused by rule {}: {}", object_name(subject), first.rule, first.message),
                      first.field, first.remedy});
  }
  std::string all = fmt::format("{} is refused by {} rules", object_name(subject), verdict.refusals.size());
  for (const auto& f : verdict.refusals) all += fmt::format("\n  {}: {}; {}", f.rule, f.message, f.remedy);
  return fail(Error{Code::kFailedPrecondition, std::move(all), first.field,
                    "correct each; qmctl admit -f FILE checks a manifest without submitting it"});
}

Verdict validate(const Subject& s, const Settings& settings, const View& view) {
  Verdict out;
  const bool scaler = s.object != nullptr && is_scaler(*s.object);
  if (!scaler && s.kind != "Job" && s.kind != "Pod") return out;
  if (out_of_scope(s, settings, view)) return out;
  if (scaler) {
    check_scaler(s, view, out);
    return out;
  }
  const bool own_account = one_of_us(s.user, settings);
  if (s.operation == Operation::kCreate) {
    if (!own_account) check_owned_metadata(s, settings, out.refusals);
    if (left_out(s, *s.object, settings, view)) return out;
    require_quota(s, settings, view, out.refusals);
    apply_rules(s, settings, view, out);
    warn_of_other_scheduler(s, settings, view, out);
  } else if (s.operation == Operation::kUpdate && s.old != nullptr && !own_account) {
    check_owned_metadata(s, settings, out.refusals);
    // The old object decides, so that setting a label does not exempt it.
    if (left_out(s, *s.old, settings, view)) return out;
    if (s.kind == "Job") {
      check_template_update(s, settings, view, out);
      check_job_update(s, settings, view, out);
    }
    if (s.kind == "Pod") check_pod_update(s, out);
  }
  return out;
}

}  // namespace qm::admission_policy
