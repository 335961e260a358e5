// Verbs that inspect a cluster itself, before the suite is installed or next to it: preflight, node.
#include "commands.hpp"
#include "preflight/checks.hpp"
#include "print.hpp"
#include "qm/config/manifest.hpp"
#include "qm/kube/connect.hpp"
#include "table.hpp"

#include <optional>
#include <ostream>

namespace qm::cli {
namespace {

const char* word_for(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass:
      return "pass";
    case Outcome::kNote:
      return "note";
    case Outcome::kWarn:
      return "warn";
    case Outcome::kFail:
      return "FAIL";
  }
  return "";
}

void show(Context& context, const std::vector<Checked>& checks) {
  if (any_failed(checks)) context.code = kUnfit;
  if (context.structured()) {
    Json list = Json::array();
    for (const auto& c : checks) {
      list.push_back(
          Json::object({{"id", c.id}, {"outcome", word_for(c.outcome)}, {"found", c.found}, {"remedy", c.remedy}}));
    }
    print(context, list);
    return;
  }
  for (const auto& c : checks) {
    context.out << fmt::format("{}  {:<18} {}\n", word_for(c.outcome), c.id, printable(c.found));
    if (!c.remedy.empty()) context.out << fmt::format("{:24} -> {}\n", "", printable(c.remedy));
  }
}

Result<Cluster> look(const std::string& kube, const std::string& node = {}) {
  QM_ASSIGN(auto server, kube::find_server(kube));
  kube::Client client(std::move(server));
  auto cluster = read_cluster(client, node);
  if (!cluster && cluster.error().remedy.empty())
    cluster.error().remedy = "--kube names the cluster: a kubeconfig[:PATH][#CONTEXT], or an address";
  return cluster;
}

/// A pod that runs nvidia-smi once on a GPU node.
Json debug_pod(const NodeVerb& verb) {
  Json metadata = Json::object({{"name", "gpu-debug"}});
  for (const auto& [key, value] : verb.labels) metadata.set("labels").set(key, value);
  const Json where =
      verb.node.empty() ? Json::object({{"node-type", "gpu"}}) : Json::object({{"kubernetes.io/hostname", verb.node}});
  const Json toleration = Json::object({{"key", "nvidia.com/gpu"}, {"operator", "Exists"}, {"effect", "NoSchedule"}});
  const Json container = Json::object(
      {{"name", "gpu-debug"}, {"image", "nvidia/cuda:12.0.0-base-ubuntu22.04"}, {"args", Json::array({"nvidia-smi"})}});
  return Json::object({{"apiVersion", "v1"},
                       {"kind", "Pod"},
                       {"metadata", std::move(metadata)},
                       {"spec", Json::object({{"tolerations", Json::array({toleration})},
                                              {"nodeSelector", where},
                                              {"restartPolicy", "Never"},
                                              {"containers", Json::array({container})}})}});
}

}  // namespace

Status run_verb(Context& context, const PreflightVerb& verb) {
  if (!verb.nccl.empty()) {
    std::vector<Checked> checks;
    for (const auto& file : context.manifests) {
      QM_ASSIGN(checks.emplace_back(), check_nccl(file.text));
    }
    show(context, checks);
    return {};
  }
  std::optional<OperatorFlags> flags;
  for (const auto& file : context.manifests) {
    const auto loaded = config::load_text(file.text, file.source);
    if (loaded.objects.size() != 1) {
      return fail(Error{Code::kInvalid, file.source + " is not a map of Helm values", "--operator-values",
                        "give the values of one GPU Operator install"});
    }
    flags = operator_flags(loaded.objects[0].document.content);
  }
  QM_ASSIGN(const auto cluster, look(verb.kube));
  show(context, check_stack(cluster, flags ? &*flags : nullptr));
  return {};
}

Status run_verb(Context& context, const NodeVerb& verb) {
  if (verb.action == NodeVerb::Action::kDebug) {
    if (context.format == Format::kTable) context.format = Format::kYaml;
    print(context, debug_pod(verb));
    return {};
  }
  QM_ASSIGN(const auto cluster, look(verb.kube, verb.node));
  show(context, check_node(cluster, verb.node));
  return {};
}

}  // namespace qm::cli
