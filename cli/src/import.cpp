// "import": NodePools and settings with the meaning of another tool's configuration.
#include "commands.hpp"
#include "print.hpp"
#include "qm/config/yaml_reader.hpp"
#include "qm/node_groups/commands.hpp"
#include "qm/node_groups/flags.hpp"
#include "qm/node_groups/node_group.hpp"
#include "qm/node_groups/priorities.hpp"
#include "table.hpp"
#include "yaml.hpp"

#include <map>
#include <optional>
#include <ostream>

namespace qm::cli {
namespace {

namespace groups = node_groups;

/// What was imported: objects to apply, settings of qm-autoscaler, and remarks.
struct Import {
  std::vector<Json> objects;
  std::map<std::string, std::string> settings;
  std::vector<std::string> notes;
};

Result<std::vector<config::Document>> documents_of(const Manifest& manifest) {
  auto read = config::read_yaml(manifest.text, manifest.source);
  for (const auto& d : read.diagnostics) {
    if (d.severity == config::Diagnostic::Severity::kError)
      return fail(Error{Code::kInvalid, d.to_string(), d.field, d.remedy});
  }
  return std::move(read.documents);
}

void add_groups(const std::vector<groups::Imported>& read, Import& out) {
  constexpr Duration kUnneeded = std::chrono::minutes(10);
  for (const auto& [group, notes] : read) {
    out.objects.push_back(groups::node_pool_of(group, "", kUnneeded));
    for (const auto& note : notes) out.notes.push_back(fmt::format("{}: {}", group.name, note));
  }
}

Status add_flags(const groups::Flags& flags, Import& out) {
  out.settings = groups::settings_of(flags);
  out.notes = flags.notes;
  const groups::ScaleDown standard;
  const Duration unneeded = flags.scale_down.enabled ? flags.scale_down.unneeded : Duration::max();
  if (flags.scale_down.utilization_milli != standard.utilization_milli ||
      flags.scale_down.gpu_utilization_milli != standard.gpu_utilization_milli) {
    out.notes.emplace_back("utilization thresholds have no effect: by these NodePools only empty nodes are terminated");
  }
  for (const auto& nodes : flags.nodes) {
    groups::NodeGroup group;
    group.name = nodes.name;
    group.provider = "aws";
    group.min = nodes.min;
    group.max = nodes.max;
    out.objects.push_back(groups::node_pool_of(group, nodes.name, unneeded));
    out.notes.push_back(fmt::format(
        "{0}: add the instance type of its launch template to spec.template.spec.requirements, its capacity type, labels "
        "and taints; MinSize {1} of the group is kept",
        nodes.name, nodes.min));
  }
  return {};
}

Status add_cluster_autoscaler(const Manifest& manifest, bool& found, Import& out) {
  QM_ASSIGN(const auto documents, documents_of(manifest));
  for (const auto& document : documents) {
    const Json& object = document.content;
    const std::string where = fmt::format("{}:{}", manifest.source, document.line);
    if (object["kind"].string() == "ConfigMap" && object["data"].contains(groups::kPriorities)) {
      const auto priorities = groups::Priorities::parse(object["data"][groups::kPriorities].string());
      if (!priorities) return fail(priorities.error().with_context(where));
      for (const auto& warning : priorities->lint(groups::PriorityOrder::kHighestWins)) out.notes.push_back(warning);
      out.notes.emplace_back("keep the ConfigMap: qm-autoscaler watches it");
      found = true;
    } else if (const auto args = groups::flags_of_workload(object); args) {
      const auto flags = groups::read_flags(*args);
      if (!flags) return fail(flags.error().with_context(where));
      QM_TRY(add_flags(*flags, out));
      found = true;
    }
  }
  return {};
}

Result<Import> import_all(const Context& context, const std::string& what) {
  Import out;
  bool found = false;
  for (const auto& manifest : context.manifests) {
    if (what == "cluster-autoscaler") {
      QM_TRY(add_cluster_autoscaler(manifest, found, out));
      continue;
    }
    const auto read = what == "gke" ? groups::gke_node_pools(manifest.text) : groups::eksctl_node_groups(manifest.text);
    if (!read) return fail(read.error().with_context(manifest.source));
    add_groups(*read, out);
    found = true;
  }
  if (!found) {
    return fail(Error{Code::kNotFound,
                      "the files have neither a Deployment of Cluster Autoscaler nor its ConfigMap of priorities",
                      {},
                      "give the manifests that are applied now"});
  }
  return out;
}

}  // namespace

Status run_verb(Context& context, const ImportVerb& verb) {
  QM_ASSIGN(const Import read, import_all(context, verb.what));
  if (context.format == Format::kJson) {
    Json objects = Json::array(), settings = Json::object(), notes = Json::array();
    for (const auto& one : read.objects) objects.push_back(one);
    for (const auto& [name, value] : read.settings) settings.set(name, value);
    for (const auto& note : read.notes) notes.push_back(note);
    print(context, Json::object({{"objects", objects}, {"settings", settings}, {"notes", notes}}));
    return {};
  }
  // Comments keep the output a manifest that can be applied.
  for (const auto& [name, value] : read.settings)
    context.out << fmt::format("# qm-autoscaler --set {}={}\n", name, value);
  for (const auto& note : read.notes) context.out << fmt::format("# {}\n", printable(note));
  for (const auto& one : read.objects) context.out << "---\n" << to_yaml(one);
  return {};
}

}  // namespace qm::cli
