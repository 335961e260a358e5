#include "qm/admission/translate/translate.hpp"

#include "qm/config/workload_kinds.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/owned_metadata.hpp"
#include "qm/wire/model.hpp"
#include "translate/pods.hpp"
#include "translate/pool_objects.hpp"
#include "translate/queue_annotations.hpp"

#include <algorithm>
#include <set>

namespace qm::admission {
namespace {

namespace pb = quartermaster::v1;

Result<std::vector<ResourceGroup>> groups_of(const std::vector<config::ResourceGroup>& from) {
  std::vector<ResourceGroup> groups;
  std::set<std::string> resources, flavors;
  for (const auto& group : from) {
    ResourceGroup out{group.covered, {}};
    for (const auto& resource : group.covered) {
      if (!resources.insert(resource).second) {
        return fail({Code::kInvalid, fmt::format("resource {} is in two resource groups", resource),
                     "spec.resourceGroups", "name each resource in one group only"});
      }
    }
    for (const auto& flavor : group.flavors) {
      if (!flavors.insert(flavor.flavor.value()).second) {
        return fail({Code::kInvalid, fmt::format("flavor {} is named twice", flavor.flavor), "spec.resourceGroups",
                     "name each flavor once"});
      }
      FlavorQuotas quotas{flavor.flavor, {}};
      for (const auto& resource : group.covered) {
        auto nominal = flavor.nominal.find(resource);
        if (nominal == flavor.nominal.end()) {
          return fail({Code::kInvalid, fmt::format("flavor {} gives no quota for {}", flavor.flavor, resource),
                       "spec.resourceGroups.flavors.resources", "list every covered resource under each flavor"});
        }
        Quota quota{counted(resource, nominal->second), {}, {}};
        if (auto it = flavor.borrowing_limit.find(resource); it != flavor.borrowing_limit.end()) {
          quota.borrowing_limit = counted(resource, it->second);
        }
        if (auto it = flavor.lending_limit.find(resource); it != flavor.lending_limit.end()) {
          quota.lending_limit = counted(resource, it->second);
        }
        if (quota.nominal < 0 || quota.borrowing_limit.value_or(0) < 0 || quota.lending_limit.value_or(0) < 0) {
          return fail({Code::kInvalid, fmt::format("quota of {} in flavor {} is negative", resource, flavor.flavor),
                       "spec.resourceGroups.flavors.resources.nominalQuota", "give zero or more"});
        }
        quotas.resources[resource] = quota;
      }
      out.flavors.push_back(std::move(quotas));
    }
    groups.push_back(std::move(out));
  }
  return groups;
}

template <class E>
Result<E> one_of(const std::string& text, const char* field,
                 std::initializer_list<std::pair<const char*, E>> words_of) {
  std::string choices;
  for (const auto& [word, value] : words_of) {
    if (text == word) return value;
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", word);
  }
  return fail(
      {Code::kInvalid, fmt::format("{} is not a known value", text), field, fmt::format("use one of {}", choices)});
}

Result<StopPolicy> stop_policy(const std::string& text) {
  return one_of<StopPolicy>(
      text.empty() ? "None" : text, "spec.stopPolicy",
      {{"None", StopPolicy::kNone}, {"Hold", StopPolicy::kHold}, {"HoldAndDrain", StopPolicy::kHoldAndDrain}});
}

/// The weight of fairSharing in thousandths; 1000 where it is not set.
std::int64_t weight_milli_of(const Json& spec) {
  const auto& weight = spec["fairSharing"]["weight"];
  if (weight.is_null()) return 1000;
  const auto read = Quantity::parse(weight.is_string() ? weight.string() : weight.dump());
  return read ? read->milli() : 1000;
}

/// A label selector as a query string; `matchExpressions` has the operators of Kubernetes.
Result<std::string> query_of(const Json& selector, const std::string& field) {
  std::vector<std::string> parts;
  for (const auto& [key, value] : selector["matchLabels"].members()) parts.push_back(key + "=" + value.string());
  for (const auto& one : selector["matchExpressions"].items()) {
    const auto &key = one["key"].string(), &op = one["operator"].string();
    std::vector<std::string> values;
    for (const auto& value : one["values"].items()) values.push_back(value.string());
    const auto listed = fmt::format("({})", fmt::join(values, ","));
    if (op == "In" || op == "NotIn") {
      parts.push_back(fmt::format("{} {} {}", key, op == "In" ? "in" : "notin", listed));
    } else if (op == "Exists" || op == "DoesNotExist") {
      parts.push_back((op == "Exists" ? "" : "!") + key);
    } else {
      return fail({Code::kInvalid, fmt::format("{} is not a known value", op), field + ".matchExpressions",
                   "use one of In, NotIn, Exists, DoesNotExist"});
    }
  }
  auto query = fmt::format("{}", fmt::join(parts, ","));
  if (const auto read = LabelSelector::parse(query); !read) {
    return fail({Code::kInvalid, read.error().message, field, "write it as the selector of a Deployment"});
  }
  return query;
}

/// Refuses by name a field that would not have its documented effect. Fields that are documented to work are never
/// refused here.
Status refuse(const Json& spec, std::string_view path, std::string why, std::string remedy) {
  const auto& value = spec.path(path);
  if (value.is_null() || (value.is_array() && value.size() == 0) || (value.is_object() && value.size() == 0)) return {};
  return fail({Code::kInvalid, std::move(why), fmt::format("spec.{}", path), std::move(remedy)});
}

/// The time for which an admitted workload may not be preempted; zero where it is not set.
Result<Duration> minimum_run_of(const Json& object) {
  const std::string text = kube::annotation(object, kMinimumRun);
  if (text.empty()) return Duration{0};
  const auto read = config::parse_duration(text);
  if (!read || *read < Duration{0}) {
    return fail({Code::kInvalid, fmt::format("{} is not a duration", text),
                 fmt::format("metadata.annotations[{}]", kMinimumRun), "write for example 30m or 2h"});
  }
  return *read;
}

Result<ClusterQueue> queue_of(const config::ClusterQueue& from, const Json& object) {
  const Json& spec = object["spec"];
  ClusterQueue q;
  q.name = from.name;
  q.cohort = from.cohort;
  QM_ASSIGN(q.groups, groups_of(from.groups));
  QM_ASSIGN(q.strategy,
            one_of<Strategy>(from.queueing_strategy, "spec.queueingStrategy",
                             {{"BestEffortFIFO", Strategy::kBestEffortFifo}, {"StrictFIFO", Strategy::kStrictFifo}}));
  QM_ASSIGN(q.within_cluster_queue,
            one_of<PreemptPolicy>(from.within_cluster_queue, "spec.preemption.withinClusterQueue",
                                  {{"Never", PreemptPolicy::kNever},
                                   {"LowerPriority", PreemptPolicy::kLowerPriority},
                                   {"LowerOrNewerEqualPriority", PreemptPolicy::kLowerOrNewerEqualPriority}}));
  QM_ASSIGN(q.reclaim_within_cohort,
            one_of<PreemptPolicy>(from.reclaim_within_cohort, "spec.preemption.reclaimWithinCohort",
                                  {{"Never", PreemptPolicy::kNever},
                                   {"LowerPriority", PreemptPolicy::kLowerPriority},
                                   {"Any", PreemptPolicy::kAny}}));
  QM_ASSIGN(q.stop, stop_policy(from.stop_policy));
  const auto& borrow = spec["preemption"]["borrowWithinCohort"];
  q.preempts_while_borrowing = borrow["policy"].string() == "LowerPriority";
  if (borrow["maxPriorityThreshold"].is_int()) {
    q.borrow_max_threshold = static_cast<std::int32_t>(borrow["maxPriorityThreshold"].integer());
  }
  // Borrow and Preempt in v1beta1 correspond to MayStopSearch in v1beta2.
  const auto& fungibility = spec["flavorFungibility"];
  q.stops_at_borrowing = fungibility["whenCanBorrow"].string() != "TryNextFlavor";
  const auto& at_preemption = fungibility["whenCanPreempt"].string();
  q.stops_at_preemption = at_preemption == "MayStopSearch" || at_preemption == "Preempt";
  q.prefers_borrowing = fungibility["preference"].string() != "PreemptionOverBorrowing";
  q.weight_milli = weight_milli_of(spec);
  q.namespaces.reset();  // as in Kueue: null selects no namespace
  if (const auto& selector = spec["namespaceSelector"]; !selector.is_null()) {
    QM_ASSIGN(q.namespaces, query_of(selector, "spec.namespaceSelector"));
  }
  for (const auto& name : spec["admissionChecks"].items()) q.checks[name.string()];
  for (const auto& check : spec.path("admissionChecksStrategy.admissionChecks").items()) {
    auto& flavors = q.checks[check["name"].string()];
    for (const auto& flavor : check["onFlavors"].items()) flavors.emplace(flavor.string());
  }
  q.by_usage = spec["admissionScope"]["admissionMode"].string() == "UsageBasedAdmissionFairSharing";
  QM_ASSIGN(q.minimum_run, minimum_run_of(object));
  QM_TRY(read_annotations(object, q));
  return q;
}

/// A check is active where its controller sets the condition in its status. A check that is not in the API server, or
/// that names Quartermaster as its controller, is active at once: callers of AnswerCheck update it.
Result<AdmissionCheck> check_of(const Json& object) {
  const auto& spec = object["spec"];
  AdmissionCheck out;
  out.name = kube::name_of(object);
  out.controller = spec["controllerName"].string();
  if (out.controller.empty()) {
    return fail({Code::kInvalid, "has no controller", "spec.controllerName",
                 fmt::format("name the controller that answers it; {} for answers over the API", kCheckController)});
  }
  out.active =
      kube::uid_of(object).empty() || out.controller == kCheckController || config::has_condition(object, "Active");
  out.retry_delay = std::chrono::minutes(std::clamp<std::int64_t>(spec["retryDelayMinutes"].integer(0), 0, 1'000'000));
  return out;
}

Result<Topology> topology_of(const Json& object) {
  Topology out;
  out.name = kube::name_of(object);
  for (const auto& level : object.path("spec.levels").items()) out.levels.push_back(level["nodeLabel"].string());
  if (out.levels.empty() || std::ranges::count(out.levels, std::string()) > 0) {
    return fail({Code::kInvalid, out.levels.empty() ? "has no levels" : "has a level without a label", "spec.levels",
                 "list the node labels of its levels, the outermost first"});
  }
  return out;
}

}  // namespace

PodEffect pod_effect(const Workload& w, const std::string& pod_set, const Engine& engine) {
  PodEffect effect;
  auto chosen = w.flavors.find(pod_set);
  if (chosen == w.flavors.end()) return effect;
  for (const auto& [check, answer] : w.checks) {
    const auto update = answer.updates.find(pod_set);
    if (update == answer.updates.end()) continue;
    const auto& added = update->second;
    effect.node_selector.insert(added.node_selector.begin(), added.node_selector.end());
    effect.labels.insert(added.labels.begin(), added.labels.end());
    effect.annotations.insert(added.annotations.begin(), added.annotations.end());
    effect.tolerations.insert(effect.tolerations.end(), added.tolerations.begin(), added.tolerations.end());
  }
  std::set<FlavorName> names;
  for (const auto& [resource, flavor] : chosen->second) names.insert(flavor);
  for (const auto& name : names) {
    const auto* flavor = engine.tables().flavors.find(name);
    if (flavor == nullptr) continue;
    effect.node_selector.insert(flavor->node_labels.begin(), flavor->node_labels.end());
    effect.tolerations.insert(effect.tolerations.end(), flavor->tolerations.begin(), flavor->tolerations.end());
  }
  if (w.nodes().contains(pod_set)) {
    effect.labels[std::string(kTopologyLabel)] = "true";
    effect.labels[std::string(kPodSetLabel)] = pod_set;
    effect.annotations[std::string(kWorkloadAnnotation)] = w.spec.uid->value();
  }
  return effect;
}

pb::WorkloadEvent to_event(const Workload& w, const Engine& engine) {
  pb::WorkloadEvent e;
  *e.mutable_spec() = wire::to_pb(w.running());
  for (auto& set : *e.mutable_spec()->mutable_pod_sets()) {
    const auto effect = pod_effect(w, set.name(), engine);
    for (const auto& [key, value] : effect.node_selector) (*set.mutable_shape()->mutable_node_selector())[key] = value;
    for (const auto& t : effect.tolerations) *set.mutable_shape()->add_tolerations() = wire::to_pb(t);
  }
  e.set_attempt(w.attempt);
  e.set_phase(static_cast<pb::WorkloadPhase>(w.phase));
  e.set_cluster_queue(w.cluster_queue.value());
  for (const auto& [set, flavors] : w.flavors) {
    auto gpu = flavors.find(std::string(words::kGpuResource));
    if (!flavors.empty()) (*e.mutable_flavors())[set] = (gpu == flavors.end() ? flavors.begin() : gpu)->second.value();
  }
  e.set_queued_us(micros(w.queued));
  e.set_quota_reserved_us(micros(w.quota_reserved));
  e.set_quota_position(w.quota_position);
  e.set_admitted_us(micros(w.admitted));
  e.set_finished_us(micros(w.finished));
  e.set_succeeded(w.succeeded);
  if (w.eviction) {
    auto& order = *e.mutable_eviction();
    order.set_reason(w.eviction->reason);
    order.set_message(w.eviction->message);
    order.set_deadline_us(micros(w.eviction->deadline));
    order.set_ordered_us(micros(w.eviction->ordered));
    order.set_checkpoint(w.eviction->checkpoint);
  }
  e.set_resume_uri(w.resume_uri);
  e.set_reason(w.scale_up_pending() ? "ScaleUpPending" : *w.reason);
  return e;
}

Status add_object(const config::Object& object, ApplyObjects& into) {
  const auto& doc = object.document;
  const std::string source = doc.content.dump();
  // An object of the API server has a uid; a manifest has none.
  const bool from_cluster = !kube::uid_of(doc.content).empty();
  std::string label =
      doc.ns.empty() ? fmt::format("{}/{}", doc.kind, doc.name) : fmt::format("{}/{}/{}", doc.kind, doc.ns, doc.name);
  const auto& spec = doc.content["spec"];
  const auto warn = [&](const char* field, const std::string& what) {
    into.warnings.push_back(fmt::format("{}: spec.{} {}", label, field, what));
  };
  if (const auto* q = std::get_if<config::ClusterQueue>(&object.typed)) {
    QM_ASSIGN(auto queue, queue_of(*q, doc.content));
    if (spec["concurrentAdmissionPolicy"].is_object()) {
      warn("concurrentAdmissionPolicy", "is without effect: a workload tries its flavors one after the other");
    }
    if (!queue.namespaces) {
      warn("namespaceSelector", "is not set, so nothing is admitted; {} selects every namespace");
    }
    queue.source = source;
    queue.from_cluster = from_cluster;
    into.cluster_queues.push_back(std::move(queue));
  } else if (const auto* l = std::get_if<config::LocalQueue>(&object.typed)) {
    QM_TRY(refuse(spec, "wallTimePolicy", "budgets of wall time are not supported", "leave it out"));
    QM_ASSIGN(const auto stop, stop_policy(l->stop_policy));
    into.local_queues.push_back({l->ns.empty() ? Namespace("default") : l->ns, l->name, l->cluster_queue, stop, source,
                                 from_cluster, weight_milli_of(spec)});
  } else if (const auto* c = std::get_if<config::Cohort>(&object.typed)) {
    QM_ASSIGN(auto groups, groups_of(c->groups));
    Cohort cohort{c->name, c->parent, std::move(groups), source, from_cluster, weight_milli_of(doc.content["spec"])};
    QM_TRY(read_pool(doc.content, cohort));
    into.cohorts.push_back(std::move(cohort));
  } else if (is_volcano_queue(doc)) {
    QM_ASSIGN(auto queue, volcano_queue_of(doc, into.warnings));
    queue.source = source;
    queue.from_cluster = from_cluster;
    into.cluster_queues.push_back(std::move(queue));
  } else if (const auto* f = std::get_if<config::ResourceFlavor>(&object.typed)) {
    into.flavors.push_back({f->name, f->node_labels, f->node_taints, f->tolerations, source, from_cluster,
                            doc.content.path("spec.topologyName").string()});
  } else if (const auto* p = std::get_if<config::PriorityClass>(&object.typed)) {
    QM_ASSIGN(const auto minimum_run, minimum_run_of(doc.content));
    into.priority_classes.push_back(
        {p->name, p->value, p->workload_only, p->global_default, source, from_cluster, minimum_run});
  } else if (doc.kind == "AdmissionCheck" && doc.api_version.starts_with("kueue.x-k8s.io/")) {
    QM_ASSIGN(auto check, check_of(doc.content));
    check.source = source;
    check.from_cluster = from_cluster;
    into.admission_checks.push_back(std::move(check));
  } else if (doc.kind == "Topology" && doc.api_version.starts_with("kueue.x-k8s.io/")) {
    QM_ASSIGN(auto topology, topology_of(doc.content));
    topology.source = source;
    topology.from_cluster = from_cluster;
    into.topologies.push_back(std::move(topology));
  } else if (doc.kind == "Namespace" && doc.api_version == "v1") {
    Labels labels;
    for (const auto& [key, value] : doc.content["metadata"]["labels"].members()) labels[key] = value.string();
    Json slim = Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}});
    slim.set("metadata").set("name", doc.name).set("labels", doc.content["metadata"]["labels"]);
    if (from_cluster) slim.set("metadata").set("uid", kube::uid_of(doc.content));
    into.namespaces.push_back({Namespace(doc.name), std::move(labels), slim.dump(), from_cluster});
  } else {
    into.warnings.push_back(
        fmt::format("{}:{}: {} is not applied: admission reads ClusterQueues, LocalQueues, Cohorts, ResourceFlavors, "
                    "Topologies, priority classes, AdmissionChecks and Namespaces; create it with kubectl apply -f {}",
                    doc.file, doc.line, label, doc.file));
    return {};
  }
  into.applied.push_back(std::move(label));
  return {};
}

Result<ApplyObjects> objects_from_manifest(const std::string& text, const std::string& source,
                                           WorkloadObjects workloads) {
  auto loaded = config::load_text(text, source.empty() ? "request" : source);
  ApplyObjects objects;
  int left_out = 0;
  for (const auto& d : loaded.diagnostics) {
    if (d.severity == config::Diagnostic::Severity::kWarning) objects.warnings.push_back(d.to_string());
  }
  for (const auto& object : loaded.objects) {
    if (auto refused = config::refuse_applied_workload(object.document)) {
      if (workloads == WorkloadObjects::kRefused) loaded.diagnostics.push_back(std::move(*refused));
      ++left_out;
      continue;
    }
    if (const auto added = add_object(object, objects); !added) {
      const auto& doc = object.document;
      const auto& e = added.error();
      const auto at = doc.lines.find(e.field);
      loaded.diagnostics.push_back({config::Diagnostic::Severity::kError, doc.file,
                                    at == doc.lines.end() ? doc.line : at->second, e.field,
                                    fmt::format("{}/{}: {}", doc.kind, doc.name, e.message), e.remedy});
    }
  }
  QM_TRY(config::accept(loaded));
  if (objects.applied.empty() && objects.warnings.empty() && left_out == 0) {
    return fail({Code::kInvalid, "the request has no objects", "manifest", "add at least one YAML document"});
  }
  return objects;
}

namespace {

/// Refuses labels and annotations that only admission and placement may write: services trust them, and our account
/// would write them for the caller.
Status refuse_owned_metadata(const Json& job) {
  const auto refuse_in = [](const Json& object, const std::string& at, std::string_view part,
                            std::string_view key) -> Status {
    if (object["metadata"][part][key].is_null()) return {};
    return fail({Code::kInvalid, fmt::format("{} is written by Quartermaster alone", key),
                 fmt::format("{}metadata.{}[{}]", at, part, key), "remove it from the job"});
  };
  const auto& pods = job["spec"]["template"];
  for (const auto key : words::kOwnedPodAnnotations) QM_TRY(refuse_in(pods, "spec.template.", "annotations", key));
  for (const auto key : words::kOwnedObjectAnnotations) QM_TRY(refuse_in(job, "", "annotations", key));
  QM_TRY(refuse_in(pods, "spec.template.", "labels", words::kOwnedLabel));
  return refuse_in(job, "", "labels", words::kOwnedLabel);
}

}  // namespace

Result<Submit> submit_from(const pb::SubmitRequest& request, const std::string& trace_parent, bool external_scheduler) {
  Json job;
  if (!request.manifest().empty()) {
    const auto loaded = config::load_text(request.manifest(), "request");
    QM_TRY(config::accept(loaded));
    if (loaded.objects.size() != 1) {
      return fail({Code::kInvalid,
                   fmt::format("the request has {} objects, and one is submitted", loaded.objects.size()), "manifest",
                   "submit one batch/v1 Job at a time; other objects are applied: qmctl apply -f FILE"});
    }
    if (const auto& doc = loaded.objects[0].document; doc.kind != "Job") {
      return fail({Code::kInvalid, fmt::format("request:{}: {}/{} is not a Job", doc.line, doc.kind, doc.name), "kind",
                   "submit a batch/v1 Job; queues are applied: qmctl apply -f FILE"});
    }
    job = loaded.objects[0].document.content;
    auto& annotations = job.set("spec").set("template").set("metadata").set("annotations");
    for (const auto& [key, value] : request.pod_annotations()) annotations.set(key, Json(value));
  } else if (request.has_spec()) {
    auto spec = wire::from_pb(request.spec());
    if (spec.kind.empty()) spec.kind = "Job";
    for (auto& set : spec.pod_sets) {
      if (set.name.empty()) set.name = "main";
    }
    if (spec.pod_sets.size() != 1) {
      return fail({Code::kInvalid, fmt::format("a Job has one pod set, the spec has {}", spec.pod_sets.size()),
                   "spec.pod_sets", "give exactly one"});
    }
    if (spec.pod_sets[0].count < 1) {
      return fail({Code::kInvalid, fmt::format("{} pods are requested", spec.pod_sets[0].count),
                   "spec.pod_sets[0].count", "request at least one pod"});
    }
    if (spec.ns.empty()) spec.ns = Namespace("default");
    job = config::job_from_workload(spec, {request.pod_annotations().begin(), request.pod_annotations().end()});
  } else {
    return fail({Code::kInvalid, "the request has neither a manifest nor a spec", "manifest", "set one of the two"});
  }
  QM_TRY(refuse_owned_metadata(job));
  if (!trace_parent.empty()) {
    job.set("metadata").set("annotations").set(kTraceAnnotation, Json(trace_parent));
  }
  job.set("spec").set("suspend", true);
  auto& pod = job.set("spec").set("template").set("spec");
  if (!external_scheduler) {
    pod.set("schedulerName", std::string(words::kScheduler));
  } else if (pod["schedulerName"].string() == words::kScheduler) {
    pod.erase("schedulerName");
  }
  if (kube::name_of(job).empty()) {
    return fail(
        {Code::kInvalid, "the job has no name", "metadata.name", "add metadata.name; generateName is not supported"});
  }
  if (kube::namespace_of(job).empty()) job.set("metadata").set("namespace", "default");
  QM_ASSIGN(const auto spec, config::workload_from_job(job));
  return Submit{
      Namespace(kube::namespace_of(job)), kube::name_of(job), spec.queue, spec.priority_class, spec.team, job.dump()};
}

}  // namespace qm::admission
