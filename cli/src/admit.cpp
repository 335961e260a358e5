// "admit": evaluates manifests with the rules of the admission webhook before they are sent.
#include "commands.hpp"
#include "print.hpp"
#include "qm/admission_policy/pod_security.hpp"
#include "qm/admission_policy/settings.hpp"
#include "qm/admission_policy/templates.hpp"
#include "qm/config/workload_kinds.hpp"

#include <algorithm>
#include <ostream>

namespace qm::cli {
namespace {

namespace policy = admission_policy;

/// A pod that a document would create, as the webhook would receive it, and its verdict.
struct Tried {
  std::string source, object, part;
  policy::Verdict verdict;
};

Json pod_of(const policy::PodTemplate& pod, const std::string& ns, const std::string& name) {
  Json labels = Json::object(), annotations = Json::object();
  for (const auto& [key, value] : pod.labels) labels.set(key, value);
  for (const auto& [key, value] : pod.annotations) annotations.set(key, value);
  return Json::object({{"kind", "Pod"},
                       {"metadata", Json::object({{"name", name},
                                                  {"namespace", ns},
                                                  {"labels", std::move(labels)},
                                                  {"annotations", std::move(annotations)}})},
                       {"spec", pod.spec}});
}

/// The account that creates a pod of this kind; the webhook trusts its owner reference.
std::string asked_by(const std::string& kind, Json& pod) {
  if (kind != "DaemonSet") return "the author";
  pod.set("metadata")
      .set("ownerReferences",
           Json::array(
               {Json::object({{"kind", kind}, {"name", pod["metadata"]["name"].string()}, {"controller", true}})}));
  return "system:serviceaccount:kube-system:daemon-set-controller";
}

/// Namespaces among the documents define the modes of their rules, their defaults, and whether every GPU counts. The
/// queues are not known, so a pod without a queue is assumed to have a default queue.
policy::View view_of(const std::vector<config::Loaded>& files) {
  policy::View view;
  for (const auto& file : files) {
    for (const auto& [document, value] : file.objects) {
      if (document.kind != "Namespace") continue;
      view.namespaces[document.name] = policy::View::Namespace::read(document.content);
      view.local_queues[document.name] = {"default"};
    }
  }
  return view;
}

/// Adds the findings of Kubernetes' pod security if the namespace enables it.
void add_pod_security(const Json& pod, const policy::View& view, const std::string& ns, policy::Verdict& verdict) {
  const auto found = view.namespaces.find(ns);
  if (found == view.namespaces.end()) return;
  for (const auto& [label, to] : {std::pair("pod-security.kubernetes.io/enforce", &verdict.refusals),
                                  std::pair("pod-security.kubernetes.io/warn", &verdict.warnings)}) {
    const auto asked = found->second.labels.find(label);
    const auto level = asked == found->second.labels.end() ? std::nullopt : policy::pod_security_of(asked->second);
    if (level) std::ranges::move(policy::pod_security_findings(pod["spec"], *level), std::back_inserter(*to));
  }
}

std::vector<Tried> try_all(const std::vector<config::Loaded>& files, const std::string& default_ns,
                           const policy::Settings& settings) {
  const auto view = view_of(files);
  std::vector<Tried> out;
  for (const auto& file : files) {
    for (const auto& [document, value] : file.objects) {
      const auto& ns = document.ns.empty() ? default_ns : document.ns;
      for (const auto& each : policy::pod_templates(document.content)) {
        Json asked = pod_of(each, ns, document.name);
        const auto user = asked_by(document.kind, asked);
        policy::Subject subject{policy::Operation::kCreate, "Pod", ns, document.name, user, &asked};
        const Json mutated = policy::mutate(subject, settings, view);
        subject.object = &mutated;
        out.push_back(
            {fmt::format("{}:{}", document.file, document.line),
             fmt::format("{} {}/{}", document.kind.empty() ? "pod template" : document.kind, ns, document.name),
             each.part, policy::validate(subject, settings, view)});
        add_pod_security(mutated, view, ns, out.back().verdict);
      }
    }
  }
  return out;
}

Json to_json(const std::vector<policy::Finding>& findings) {
  Json out = Json::array();
  for (const auto& f : findings) {
    out.push_back(Json::object({{"rule", f.rule}, {"message", f.message}, {"field", f.field}, {"remedy", f.remedy}}));
  }
  return out;
}

void print(const Context& context, const std::vector<Tried>& all) {
  if (context.structured()) {
    Json list = Json::array();
    for (const auto& t : all) {
      list.push_back(Json::object({{"source", t.source},
                                   {"object", t.object},
                                   {"part", t.part},
                                   {"allowed", t.verdict.allowed()},
                                   {"refusals", to_json(t.verdict.refusals)},
                                   {"warnings", to_json(t.verdict.warnings)}}));
    }
    return print(context, list);
  }
  for (const auto& t : all) {
    context.out << fmt::format("{}: {}{}{} {}\n", t.source, t.object, t.part.empty() ? "" : " ", t.part,
                               t.verdict.allowed() ? "is allowed" : "is refused");
    for (const auto& f : t.verdict.refusals) context.out << "  " << f.to_string() << '\n';
    for (const auto& f : t.verdict.warnings) context.out << "  warning: " << f.to_string() << '\n';
  }
}

}  // namespace

Status check_manifests(const Context& context, bool allow_unknown, Workloads workloads) {
  config::Loaded all;
  for (const auto& manifest : context.manifests) {
    auto loaded = config::load_text(manifest.text, manifest.source);
    for (auto& diagnostic : loaded.diagnostics) all.diagnostics.push_back(std::move(diagnostic));
    for (const auto& object : loaded.objects) {
      auto refused = workloads == Workloads::kRead ? std::nullopt : config::refuse_applied_workload(object.document);
      if (refused) all.diagnostics.push_back(std::move(*refused));
    }
  }
  auto checked = config::accept(all, allow_unknown ? config::UnknownFields::kWarn : config::UnknownFields::kRefuse);
  if (!checked && config::accept(all)) {
    auto& remedy = checked.error().remedy;
    remedy += fmt::format("{}to keep unknown fields, pass --allow-unknown", remedy.empty() ? "" : "; ");
  }
  return checked;
}

Status run_verb(Context& context, const AdmitVerb& verb) {
  QM_ASSIGN(const auto settings, policy::read_policy_settings({verb.settings.begin(), verb.settings.end()}));
  std::vector<config::Loaded> files;
  for (const auto& manifest : context.manifests) {
    files.push_back(config::load_text(manifest.text, manifest.source));
  }
  QM_TRY(check_manifests(context, verb.allow_unknown, Workloads::kRead));
  const auto all = try_all(files, verb.ns, settings);
  print(context, all);
  const auto refused = std::ranges::count_if(all, [](const Tried& t) { return !t.verdict.allowed(); });
  if (refused > 0) {
    return fail(Error{Code::kFailedPrecondition,
                      fmt::format("{} of {} pods would be refused", refused, all.size()),
                      {},
                      "the lines above show what each lacks"});
  }
  return {};
}

}  // namespace qm::cli
