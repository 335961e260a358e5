// Objects that are valid and still do not do what their author intends. One function for each kind of fault; each
// checks the whole object.
#include "qm/admission_policy/lint.hpp"

#include "pod.hpp"
#include "qm/admission_policy/templates.hpp"
#include "qm/base/parse.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::admission_policy {
namespace {

using Findings = std::vector<Finding>;

void add_finding(Findings& out, std::string what, std::string field, std::string remedy) {
  out.push_back({"lint", std::move(what), std::move(field), std::move(remedy)});
}

/// All words of the command line of a container.
std::vector<std::string> words_of(const Json& container) {
  std::vector<std::string> out;
  for (const auto* list : {"command", "args"}) {
    for (const auto& word : container[list].items()) out.push_back(word.string());
  }
  return out;
}

/// The value of "--name=value" or "--name value"; dashes and underscores are equivalent.
std::string flag(const std::vector<std::string>& words, std::string_view name) {
  const auto plain = [](std::string text) {
    std::ranges::replace(text, '_', '-');
    return text;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    if (plain(words[i].substr(0, equals)) != name) continue;
    if (equals != std::string::npos) return words[i].substr(equals + 1);
    return i + 1 < words.size() ? words[i + 1] : std::string();
  }
  return {};
}

void mpi_slots(const Json& object, Findings& out) {
  const auto& spec = object["spec"];
  const auto& roles = spec["mpiReplicaSpecs"];
  if (!roles.is_object()) return;
  const auto slots = spec["slotsPerWorker"].integer(1), workers = roles["Worker"]["replicas"].integer(1);
  const auto& launcher = roles["Launcher"]["template"]["spec"];
  if (uses_gpus(launcher)) {
    add_finding(out, "MPI_LAUNCHER_GPU: the launcher requests GPUs, but only starts the workers",
                "spec.mpiReplicaSpecs.Launcher", "remove them");
  }
  for (const auto& container : launcher["containers"].items()) {
    const auto words = words_of(container);
    std::optional<std::int64_t> ranks;
    for (const auto* name : {"-np", "-n", "--np"}) {
      if (!ranks) ranks = whole_number(flag(words, name));
    }
    if (!ranks || *ranks == slots * workers) continue;
    add_finding(out, fmt::format("MPI_SLOTS: {} ranks are started on {} workers of {} slots", *ranks, workers, slots),
                "spec.slotsPerWorker", fmt::format("start {}, or change slots or workers", slots * workers));
  }
  for (const auto& container : roles["Worker"]["template"]["spec"]["containers"].items()) {
    if (const auto gpus = gpus_of(container); gpus > 0 && gpus != slots) {
      add_finding(out, fmt::format("MPI_SLOTS: a worker has {} slots and {} GPUs", slots, gpus), "spec.slotsPerWorker",
                  "give a worker one slot for each GPU");
    }
  }
}

bool keeps_checkpoints(const std::string& text) {
  return text.find("checkpoint") != std::string::npos || text.find("ckpt") != std::string::npos;
}

std::set<std::string> checkpoint_mounts(const Json& spec) {
  std::set<std::string> out;
  for (const auto& container : spec["containers"].items()) {
    for (const auto& mount : container["volumeMounts"].items()) {
      const auto& path = mount["mountPath"].string();
      if (keeps_checkpoints(path) || keeps_checkpoints(mount["name"].string())) out.insert(path);
    }
  }
  return out;
}

void checkpoint_reach(const Json& object, Findings& out) {
  for (const auto& [name, roles] : object["spec"].members()) {
    if (!name.ends_with("ReplicaSpecs") || name.starts_with("mpi")) continue;
    std::set<std::string> all;
    for (const auto& [role, replicas] : roles.members()) {
      for (auto& path : checkpoint_mounts(replicas.path("template.spec"))) all.insert(path);
    }
    for (const auto& [role, replicas] : roles.members()) {
      const auto own = checkpoint_mounts(replicas.path("template.spec"));
      for (const auto& path : all) {
        if (own.contains(path)) continue;
        add_finding(out,
                    fmt::format("CHECKPOINT_MOUNTS: {} does not mount {}, which others of its gang do", role, path),
                    fmt::format("spec.{}.{}.template.spec", name, role), "mount it in all of them");
      }
    }
  }
}

void indexed_mode(const Json& object, Findings& out) {
  if (object["kind"].string() != "Job" && !object["spec"].contains("parallelism")) return;
  const auto& spec = object["spec"];
  if (spec["completionMode"].string() == "Indexed") return;
  for (const auto& container : spec["template"]["spec"]["containers"].items()) {
    bool reads = false;
    for (const auto& variable : container["env"].items()) {
      const auto& path = variable["valueFrom"]["fieldRef"]["fieldPath"].string();
      reads = reads || path.find(words::kJobIndex) != std::string::npos;
    }
    for (const auto& word : words_of(container))
      reads = reads || word.find("JOB_COMPLETION_INDEX") != std::string::npos;
    if (!reads) continue;
    add_finding(out, "INDEX_WITHOUT_MODE: its pods read their completion index, which only an Indexed Job has",
                "spec.completionMode", "set completionMode: Indexed");
    return;
  }
}

/// Kueue's webhook, where it is installed, refuses such a Job.
void job_minimum(const Json& object, Findings& out) {
  if (object["kind"].string() != "Job") return;
  const auto least = whole_number(object["metadata"]["annotations"][words::kJobLeast].string());
  const auto pods = object["spec"]["parallelism"].integer(1);
  if (!least || *least < pods) return;
  add_finding(
      out,
      fmt::format(
          "JOB_MIN_PARALLELISM: at least {} pods are requested, and parallelism is {}, so it starts whole or not at all",
          *least, pods),
      fmt::format("metadata.annotations[{}]", words::kJobLeast),
      "set a number below parallelism, or remove the annotation");
}

/// Whether the operators of Kubeflow create a Service of this name: "JOB-ROLE-0".
bool created_by_operator(const Json& object, const std::string& host) {
  for (const auto& [name, roles] : object["spec"].members()) {
    if (!name.ends_with("ReplicaSpecs")) continue;
    for (const auto& [role, replicas] : roles.members()) {
      std::string lower = role;
      std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      if (host.starts_with(fmt::format("{}-{}-", object["metadata"]["name"].string(), lower))) return true;
    }
  }
  return false;
}

/// Calls fn with the spec of each pod template of the object.
template <class Fn>
void each_pod(const Json& object, Fn&& fn) {
  if (object["kind"].string() == "Job")
    return fn(object["spec"]["template"]["spec"]);  // for the webhook: avoids a copy
  for (const auto& pod : pod_templates(object)) fn(pod.spec);
}

void master_name(const Json& object, const LintContext& context, Findings& out) {
  if (!context.services) return;
  each_pod(object, [&](const Json& spec) {
    for (const auto& container : spec["containers"].items()) {
      auto host = flag(words_of(container), "--master-addr");
      for (const auto& variable : container["env"].items()) {
        if (host.empty() && variable["name"].string() == "MASTER_ADDR") host = variable["value"].string();
      }
      if (host.empty() || host == "localhost" || host.starts_with('$') || host.starts_with("127.")) continue;
      if (whole_number(host.substr(0, host.find('.')))) continue;  // an IP address
      // "pod.service" or "service"; a namespace may follow.
      const auto dot = host.find('.');
      const auto rest = dot == std::string::npos ? std::string() : host.substr(dot + 1);
      const bool known =
          context.services->contains(host.substr(0, dot)) || context.services->contains(rest.substr(0, rest.find('.')));
      if (known || created_by_operator(object, host)) continue;
      add_finding(out, fmt::format("UNRESOLVED_MASTER: no Service has the name {}", host),
                  "spec.template.spec.containers",
                  fmt::format("add a headless Service {}, or name an existing one", host.substr(0, dot)));
    }
  });
}

void argo_templates(const Json& object, Findings& out) {
  if (object["kind"].string() != "Workflow" && object["kind"].string() != "WorkflowTemplate") return;
  for (const auto& part : object["spec"]["templates"].items()) {
    for (const auto& group : part["steps"].items()) {
      for (const auto& step : group.items()) {
        if (step["withParam"].string().find("{%") == std::string::npos) continue;
        add_finding(out, "ARGO_TEMPLATE: withParam is written in Jinja, which Argo does not read",
                    "spec.templates.steps.withParam", "write the JSON list out, or make it in a step before");
      }
    }
  }
}

void tekton_tolerations(const Json& object, Findings& out) {
  const auto check = [&](const Json& spec, const std::string& field) {
    if (!spec.contains("tolerations")) return;
    add_finding(out, "TEKTON_TOLERATIONS: a task has no tolerations of its own, so its pods have none",
                field + ".tolerations", "put them in taskRunTemplate.podTemplate of the PipelineRun");
  };
  const auto& tasks = object["spec"]["tasks"].items();
  for (std::size_t i = 0; i < tasks.size(); ++i) check(tasks[i]["taskSpec"], fmt::format("spec.tasks[{}].taskSpec", i));
  if (object["kind"].string() == "Task") check(object["spec"], "spec");
}

void tensor_parallel(const Json& object, Findings& out) {
  each_pod(object, [&](const Json& spec) {
    for (const auto& container : spec["containers"].items()) {
      const auto asked = whole_number(flag(words_of(container), "--tensor-parallel-size"));
      const auto gpus = gpus_of(container);
      if (!asked || *asked == gpus) continue;
      add_finding(
          out, fmt::format("TENSOR_PARALLEL: tensors are split over {} GPUs, and the container has {}", *asked, gpus),
          "spec.template.spec.containers", "request as many GPUs as tensors are split over");
    }
  });
}

}  // namespace

void lint(const Json& object, const LintContext& context, std::vector<Finding>& out) {
  mpi_slots(object, out);
  checkpoint_reach(object, out);
  indexed_mode(object, out);
  job_minimum(object, out);
  master_name(object, context, out);
  argo_templates(object, out);
  tekton_tolerations(object, out);
  tensor_parallel(object, out);
}

std::vector<Finding> lint(const Json& object, const LintContext& context) {
  Findings out;
  lint(object, context, out);
  return out;
}

}  // namespace qm::admission_policy
