// Converts a Job (batch/v1) to a workload, and back.
#include "job.hpp"

#include "qm/config/checkpoint_contract.hpp"
#include "qm/config/workload_kinds.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace qm::config {
namespace {

constexpr std::int64_t kMostPods = 100'000;
constexpr std::int64_t kMostCompletions = std::numeric_limits<std::int32_t>::max();
constexpr std::string_view kDefaultImage = "busybox:stable";
/// Far from the default of 6: a rank that dies with its node is not a failure of the job.
constexpr int kBackoffLimit = 1000;
/// The default checkpoint URL template of pods.
constexpr std::string_view kCheckpointUrl = "http://{podIP}:8480/v1/checkpoint";

/// Parses a text as a number; a text that is not a number has no effect.
void read_number(const Cursor& at, std::int64_t& out) {
  std::string text;
  if (read_text(at, text)) std::from_chars(text.data(), text.data() + text.size(), out);
}

bool is_empty(const Json& text) { return text.is_string() && text.string().empty(); }

/// The terms of a contract. Its interval is that of the annotation for the interval, if there is one.
void read_contract(const Cursor& at, JobRead& out) {
  std::string text;
  if (!read_text(at, text)) return;
  auto contract = checkpoint_contract(text);
  if (!contract) return at.error(contract.error().message, contract.error().remedy);
  if (out.checkpoint.interval > Duration{0}) contract->terms.interval = out.checkpoint.interval;
  contract->terms.steps = out.checkpoint.steps;
  out.checkpoint = std::move(contract->terms);
}

/// "10m" is the time between two orders, "1000" the number of steps between two saves.
void read_interval(const Cursor& at, JobRead& out) {
  std::string text;
  if (!read_text(at, text)) return;
  std::int64_t steps = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (error == std::errc() && end == text.data() + text.size() && steps > 0) {
    out.checkpoint.steps = steps;
    return;
  }
  const auto interval = parse_duration(text);
  if (!interval || *interval <= Duration{0})
    return at.error(fmt::format("\"{}\" is not a valid interval", text),
                    "write a duration such as 10m, or a number of steps");
  out.checkpoint.interval = *interval;
}

/// Reads the known annotations; others are carried. A template may have more of them than the object.
void read_annotations(const Cursor& at, JobRead& out, bool of_pods) {
  if (!is_object(at)) return;
  check_annotations(at);
  for (const auto& member : at.value->members()) {
    const Cursor annotation = at.member(member.first);
    if (is_empty(member.second)) continue;  // as if absent
    if (of_pods &&
        (read_topology(annotation, member.first, out.pod.topology) || read_need(annotation, member.first, out.pod)))
      continue;
    if (member.first == words::kExpectedRuntime) {
      read_duration(annotation, out.expected);
    } else if (member.first == words::kCheckpoint) {
      out.checkpoints = true;
      read_contract(annotation, out);
    } else if (member.first == words::kCheckpointInterval) {
      read_interval(annotation, out);
    } else if (of_pods && member.first == words::kDoNotDisrupt) {
      std::string flag_text;
      if (read_text(annotation, flag_text) && flag_text == "true") out.pod_labels[member.first] = flag_text;
    } else if (member.first == words::kJobLeast) {
      read_number(annotation, out.min_parallelism);
    } else if (member.first == kParallelism) {
      read_number(annotation, out.all_parallel);
    } else if (member.first == words::kQueueLabel) {
      std::string queue;
      if (read_text(annotation, queue) && out.queue_annotation.empty()) out.queue_annotation = std::move(queue);
    } else {
      at.scope->carry(annotation.path);
    }
  }
  if (of_pods) check_topology(at, out.pod.topology);
}

/// Reads the pods' labels: the queue, and the labels that group a bill.
void read_pod_labels(const Cursor& at, JobRead& out) {
  if (!is_object(at)) return;
  check_labels(at);
  bool others = at.value->members().empty();
  for (const auto& member : at.value->members()) {
    if (is_empty(member.second)) {
      others = others || member.first != words::kQueueLabel;
    } else if (member.first == words::kQueueLabel) {
      std::string queue;
      if (read_text(at.member(member.first), queue) && out.queue_of_pods.empty()) out.queue_of_pods = std::move(queue);
    } else if (std::ranges::find(words::kChargebackLabels, member.first) != words::kChargebackLabels.end()) {
      read_text(at.member(member.first), out.pod_labels[member.first]);
    } else {
      others = true;
    }
  }
  if (others) at.scope->carry(at.path);
}

std::string label(const Labels& labels, std::string_view key) {
  const auto found = labels.find(std::string(key));
  return found == labels.end() ? std::string() : found->second;
}

/// A field with a name.
Field<JobRead> named(std::string_view field, std::string JobRead::*member, NameRule rule) {
  return custom<JobRead>(field, [member, rule](const Cursor& at, JobRead& out) {
    if (read_text(at, out.*member)) check_name(at, out.*member, rule);
  });
}

/// The name becomes a label of the pods, and the prefix of the host names of an Indexed Job.
void check_job_name(const Cursor& at, const JobRead& job) {
  if (job.name.empty() && job.generate_name.empty()) return at.error("is missing", "add a name for the Job");
  if (job.name.empty()) return;
  check_name(at, job.name, NameRule::kJob);
  if (at.scope->failed() || job.completion_mode != "Indexed") return;
  const auto indexes = job.completions < 0 ? job.parallelism : job.completions;
  if (indexes < 1) return;
  const auto host = fmt::format("{}-{}", job.name, indexes - 1);
  if (auto fault = name_fault(NameRule::kLabel, host)) {
    at.error(fmt::format("the host name of the last pod of this Indexed Job: {}", fault->message),
             std::move(fault->remedy));
  }
}

const Table<JobRead>& job_table() {
  using T = JobRead;
  static const Table<T> table{
      taken<T>("apiVersion"), taken<T>("kind"), required(object_metadata()),
      required(group<T>("spec",
                        {integer("parallelism", &T::parallelism, 0, kMostPods),
                         integer("completions", &T::completions, 0, kMostCompletions),
                         or_empty(one_of("completionMode", &T::completion_mode, {"NonIndexed", "Indexed"})),
                         required(group<T>("template", template_rows(), Unknown::kCarry))},
                        Unknown::kCarry))};
  return table;
}

Json resources_of(const PodShape& shape) {
  Json out = Json::object();
  if (shape.cpu_milli > 0) out.set("cpu", Quantity::of_milli(shape.cpu_milli).to_string());
  if (shape.memory_bytes > 0) {
    out.set("memory", Quantity::of(shape.memory_bytes, Quantity::Format::kBinarySi).to_string());
  }
  const GpuShape& gpu = shape.gpu;
  if (gpu.whole > 0) out.set(words::kGpuResource, std::to_string(gpu.whole));
  if (gpu.milli > 0) out.set(words::kGpuMilliResource, std::to_string(gpu.milli));
  if (gpu.mig_count > 0) out.set(std::string(words::kMigPrefix) + gpu.mig_profile, std::to_string(gpu.mig_count));
  for (const auto& [name, amount] : shape.extended) out.set(name, std::to_string(amount));
  return out;
}

Json pod_spec_of(const PodShape& shape) {
  const Json resources = resources_of(shape);
  Json container = Json::object({{"name", "main"}, {"image", kDefaultImage}});
  container.set("resources", Json::object({{"requests", resources}, {"limits", resources}}));
  Json spec = Json::object({{"schedulerName", words::kScheduler}, {"restartPolicy", "Never"}});
  spec.set("containers", Json::array({container}));
  if (!shape.node_selector.empty()) {
    Json& selector = spec.set("nodeSelector");
    for (const auto& [key, value] : shape.node_selector) selector.set(key, value);
  }
  for (const Toleration& toleration : shape.tolerations) {
    Json item = Json::object();
    if (!toleration.key.empty()) item.set("key", toleration.key);
    if (!toleration.op.empty()) item.set("operator", toleration.op);
    if (!toleration.value.empty()) item.set("value", toleration.value);
    if (!toleration.effect.empty()) item.set("effect", toleration.effect);
    spec.set("tolerations").push_back(std::move(item));
  }
  if (!shape.gpu.models.empty()) {
    Json expression = Json::object({{"key", words::kGpuProduct}, {"operator", "In"}});
    for (const std::string& model : shape.gpu.models) expression.set("values").push_back(model);
    const Json term = Json::object({{"matchExpressions", Json::array({expression})}});
    spec.set("affinity")
        .set("nodeAffinity")
        .set("requiredDuringSchedulingIgnoredDuringExecution")
        .set("nodeSelectorTerms")
        .push_back(term);
  }
  return spec;
}

std::string seconds_text(Duration d) {
  return d.count() % 1'000'000 == 0 ? fmt::format("{}s", d.count() / 1'000'000) : fmt::format("{}us", d.count());
}

}  // namespace

Field<JobRead> object_metadata() {
  using T = JobRead;
  return group<T>("metadata",
                  {or_empty(text("name", &T::name)),
                   or_empty(custom<T>("generateName",
                                      [](const Cursor& at, T& out) {
                                        if (!read_text(at, out.generate_name)) return;
                                        check_name(at, out.generate_name + "x");  // the generated suffix is valid
                                      })),
                   or_empty(named("namespace", &T::ns, NameRule::kLabel)), or_empty(text("uid", &T::uid)),
                   custom<T>("labels",
                             [](const Cursor& at, T& out) {
                               check_labels(at);
                               read_labels(at, out.labels);
                             }),
                   custom<T>("annotations", [](const Cursor& at, T& out) { read_annotations(at, out, false); }),
                   custom<T>("creationTimestamp",
                             [](const Cursor& at, T& out) {
                               std::string text;
                               if (!read_text(at, text)) return;
                               const auto t = from_rfc3339(text);
                               if (!t) return at.error(t.error().message, "write it as 2026-11-21T09:14:29Z");
                               out.created = *t;
                             })},
                  Unknown::kCarry);
}

Table<JobRead> template_rows() {
  using T = JobRead;
  return {group<T>("metadata",
                   {custom<T>("annotations", [](const Cursor& at, T& out) { read_annotations(at, out, true); }),
                    custom<T>("labels", read_pod_labels)},
                   Unknown::kCarry),
          required(custom<T>("spec", [](const Cursor& at, T& out) {
            read_pod(at, out.pod);
            if (out.checkpoint.steps == 0) out.checkpoint.steps = checkpoint_steps(*at.value);
          }))};
}

WorkloadSpec workload_of(JobRead& read, std::string kind) {
  WorkloadSpec out;
  out.uid = WorkloadUid(read.uid);
  out.ns = Namespace(read.ns);
  out.name = read.name.empty() ? read.generate_name : read.name;
  out.kind = std::move(kind);
  // The queue is a label of the object. Manifests also have it as an annotation, and on the pods.
  out.queue = label(read.labels, words::kQueueLabel);
  if (out.queue.empty()) out.queue = read.queue_annotation.empty() ? read.queue_of_pods : read.queue_annotation;
  out.priority_class = label(read.labels, words::kPriorityClassLabel);
  if (out.priority_class.empty()) out.priority_class = read.pod.priority_class;
  const std::string team = label(read.labels, words::kTeamLabel);
  out.team = Team(team.empty() ? read.ns : team);
  out.submitted = read.created;
  out.expected_runtime = read.expected;
  out.labels = std::move(read.labels);
  out.labels.merge(read.pod_labels);  // labels of the object have precedence over its pods' labels
  out.checkpoints = read.checkpoints;
  out.checkpoint = std::move(read.checkpoint);
  return out;
}

WorkloadSpec read_job(const Cursor& root) {
  JobRead job;
  read_object(root, job_table(), job, Unknown::kCarry);
  check_job_name(root.member("metadata").member("name"), job);
  choose_parts(root.member("spec").member("template"), job.pod);
  PodSet set;
  // It may run with fewer pods than it requests.
  const auto at_once = job.parallelism == 0 ? 0 : std::max(job.parallelism, std::min(job.all_parallel, kMostPods));
  set.count = static_cast<std::int32_t>(job.completions < 0 ? at_once : std::min(at_once, job.completions));
  if (job.completions > set.count) set.completions = static_cast<std::int32_t>(job.completions);
  if (job.min_parallelism > 0 && job.min_parallelism < set.count) {
    set.min_count = static_cast<std::int32_t>(job.min_parallelism);
  }
  set.shape = std::move(job.pod.shape);
  set.topology = std::move(job.pod.topology);
  set.rules = rules_of_template((*root.value)["spec"]["template"], job.pod.node_affinity_is_in_shape);
  WorkloadSpec out = workload_of(job, "Job");
  if (set.count > 0) out.pod_sets.push_back(std::move(set));  // without pods there is nothing to request
  return out;
}

KindReader job_kind() {
  return {"batch", {"v1"}, "Job", [](const Cursor& root, std::string_view) -> Typed {
            if (root.scope->origin() == Origin::kAuthor) {
              check_known_fields(root, "Job");
              check_resources(root.member("spec").member("template").member("spec"));
            }
            return read_job(root);
          }};
}

Result<WorkloadSpec> workload_from_job(const Json& job) { return without_file(job, read_job); }

Result<WorkloadSpec> workload_from_pod(const Json& pod) {
  const Json pods = Json::object({{"metadata", pod["metadata"]}, {"spec", pod["spec"]}});
  return workload_from_job(Json::object({{"apiVersion", "batch/v1"},
                                         {"kind", "Job"},
                                         {"metadata", pod["metadata"]},
                                         {"spec", Json::object({{"template", pods}})}}));
}

Result<PodShape> shape_from_pod_spec(const Json& pod_spec) {
  return without_file(pod_spec, [](const Cursor& at) {
    PodRead pod;
    read_pod(at, pod);
    return pod.shape;
  });
}

Result<PodSet> pod_set_from_pod(const Json& pod, std::string name) {
  return without_file(pod, [&](const Cursor& at) {
    static const Table<JobRead> rows = template_rows();
    JobRead read;
    read_object(at, rows, read, Unknown::kCarry);
    choose_parts(at, read.pod);
    return PodSet{std::move(name),
                  1,
                  0,
                  std::move(read.pod.shape),
                  std::move(read.pod.topology),
                  rules_of_template(pod, read.pod.node_affinity_is_in_shape)};
  });
}

Json job_from_workload(const WorkloadSpec& spec, const std::map<std::string, std::string>& pod_annotations) {
  const PodSet set = spec.pod_sets.empty() ? PodSet{} : spec.pod_sets.front();
  Labels labels = spec.labels;
  if (!spec.queue.empty()) labels[std::string(words::kQueueLabel)] = spec.queue;
  if (!spec.priority_class.empty()) labels[std::string(words::kPriorityClassLabel)] = spec.priority_class;
  if (!spec.team.empty()) labels[std::string(words::kTeamLabel)] = spec.team.value();
  Json metadata = Json::object({{"name", spec.name}, {"namespace", spec.ns.value()}});
  Json pod_labels = Json::object();
  for (const auto& [key, value] : labels) pod_labels.set(key, value);
  metadata.set("labels", pod_labels);
  if (spec.expected_runtime > Duration::zero()) {
    metadata.set("annotations").set(words::kExpectedRuntime, seconds_text(spec.expected_runtime));
  }

  Json annotations = Json::object();
  for (const auto& [key, value] : pod_annotations) annotations.set(key, value);
  if (spec.checkpoints && !annotations.contains(words::kCheckpoint))
    annotations.set(words::kCheckpoint, kCheckpointUrl);
  write_topology(set.topology, annotations);
  Json pod_metadata = Json::object({{"labels", pod_labels}});
  if (annotations.size() > 0) pod_metadata.set("annotations", annotations);

  if (set.min_count > 0) metadata.set("annotations").set(words::kJobLeast, std::to_string(set.min_count));
  Json body = Json::object({{"suspend", true}, {"completionMode", "Indexed"}});
  body.set("parallelism", set.count)
      .set("completions", std::max(set.count, set.completions))
      .set("backoffLimit", kBackoffLimit);
  body.set("template", Json::object({{"metadata", pod_metadata}, {"spec", pod_spec_of(set.shape)}}));
  return Json::object({{"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", metadata}, {"spec", body}});
}

}  // namespace qm::config
