// eksctl create nodegroup.
#include "flag_table.hpp"
#include "qm/catalog/catalog.hpp"
#include "qm/node_groups/commands.hpp"
#include "shell_words.hpp"
#include "values.hpp"

#include <algorithm>

namespace qm::node_groups {
namespace {

struct Eks {
  NodeGroup group;
  std::optional<std::int64_t> nodes, min, max;
};

std::function<Status(std::string_view, Eks&)> nodes_of(std::string_view flag, std::optional<std::int64_t> Eks::*field) {
  return [flag, field](std::string_view text, Eks& out) -> Status {
    out.*field = whole_number(text);
    if (!(out.*field) || *(out.*field) < 0)
      return bad_flag(flag, fmt::format("'{}' is not a number of nodes", text), "write 0 or more");
    return {};
  };
}

Status set_name(std::string_view text, Eks& out) {
  out.group.name = text;
  return {};
}

const std::vector<Flag<Eks>>& eksctl_flags() {
  constexpr std::string_view kTemplate = "the launch template of the group, or the node class has it";
  static const std::vector<Flag<Eks>> all{
      {"name", false, set_name},
      {"n", false, set_name},
      {"node-type", false,
       [](std::string_view text, Eks& out) -> Status {
         out.group.instance_type = text;
         return {};
       }},
      {"t", false,
       [](std::string_view text, Eks& out) -> Status {
         out.group.instance_type = text;
         return {};
       }},
      {"nodes", false, nodes_of("nodes", &Eks::nodes)},
      {"N", false, nodes_of("N", &Eks::nodes)},
      {"nodes-min", false, nodes_of("nodes-min", &Eks::min)},
      {"m", false, nodes_of("m", &Eks::min)},
      {"nodes-max", false, nodes_of("nodes-max", &Eks::max)},
      {"M", false, nodes_of("M", &Eks::max)},
      {"spot", true,
       [](std::string_view text, Eks& out) -> Status {
         out.group.spot = bool_of(text).value_or(true);
         return {};
       }},
      {"node-labels", false,
       [](std::string_view text, Eks& out) -> Status {
         QM_ASSIGN(out.group.labels, labels_of(text));
         return {};
       }},
      {"node-taints", false,
       [](std::string_view text, Eks& out) -> Status {
         QM_ASSIGN(out.group.taints, taints_of(text));
         return {};
       }},
      {"node-zones", false,
       [](std::string_view text, Eks& out) -> Status {
         for (const auto zone : split(text, ',')) out.group.zones.emplace_back(zone);
         return {};
       }},
      {"cluster"},
      {"c"},
      {"region"},
      {"r"},
      {"profile"},
      {"p"},
      {"verbose"},
      {"v"},
      {"timeout"},
      {"version"},
      {"managed", true},
      {"asg-access", true},
      {"external-dns-access", true},
      {"full-ecr-access", true},
      {"instance-types", false, {}, "import one node group for each type"},
      {"node-volume-size", false, {}, kTemplate},
      {"node-volume-type", false, {}, kTemplate},
      {"node-ami", false, {}, kTemplate},
      {"node-ami-family", false, {}, kTemplate},
      {"node-private-networking", true, {}, kTemplate},
      {"node-security-groups", false, {}, kTemplate},
      {"subnet-ids", false, {}, kTemplate},
      {"ssh-access", true, {}, kTemplate},
      {"ssh-public-key", false, {}, kTemplate},
      {"enable-ssm", true, {}, kTemplate},
      {"max-pods-per-node", false, {}, kTemplate},
      {"install-nvidia-plugin", true, {}, "install the device plugin by its own chart"},
      {"install-neuron-plugin", true, {}, "install the device plugin by its own chart"}};
  return all;
}

Status fill_eksctl_bounds(Eks& from, std::vector<std::string>& notes) {
  NodeGroup& group = from.group;
  const std::int64_t nodes = from.nodes.value_or(from.min.value_or(2));  // eksctl's default
  group.min = from.min.value_or(nodes);
  group.max = from.max.value_or(std::max(nodes, group.min));
  if (group.min > group.max) {
    return bad_flag("nodes-min", fmt::format("the minimum {} is above the maximum {}", group.min, group.max),
                    "exchange the bounds");
  }
  if (nodes < group.min || nodes > group.max) {
    return bad_flag("nodes", fmt::format("{} is not within {} to {}", nodes, group.min, group.max),
                    "change it, or the bounds");
  }
  if (group.min > 0)
    notes.push_back(fmt::format("keep MinSize {} of the Auto Scaling group: a NodePool has no minimum", group.min));
  return {};
}

Result<Imported> read_eksctl(std::span<const std::string> args) {
  Eks read;
  Imported out;
  std::vector<std::string> others;
  QM_TRY(read_flag_table<Eks>(args, eksctl_flags(), read, others, out.notes));
  if (!others.empty())
    return fail(Error{Code::kInvalid, fmt::format("unexpected argument {}", others.front()), {}, "remove it"});
  if (read.group.name.empty()) return bad_flag("name", "it is missing", "name the node group");
  read.group.provider = "aws";
  QM_TRY(fill_eksctl_bounds(read, out.notes));
  const auto* type = catalog::find(read.group.instance_type);
  if (type != nullptr) read.group.gpus = type->gpus;
  if (type == nullptr)
    out.notes.push_back(fmt::format("the catalog does not have the instance type '{}'", read.group.instance_type));
  out.group = std::move(read.group);
  return out;
}

}  // namespace

Result<std::vector<Imported>> eksctl_node_groups(std::string_view script) {
  QM_ASSIGN(const auto commands, shell_commands(script));
  std::vector<Imported> out;
  for (const auto& words : commands) {
    const bool creates = words.size() >= 3 && words[0] == "eksctl" && words[1] == "create" &&
                         (words[2] == "nodegroup" || words[2] == "ng");
    if (!creates) continue;
    QM_ASSIGN(auto one, read_eksctl(std::span(words).subspan(3)));
    out.push_back(std::move(one));
  }
  if (out.empty()) {
    return fail(Error{
        Code::kInvalid, "no node group is created", {}, "give a script with `eksctl create nodegroup --name NAME`"});
  }
  return out;
}

}  // namespace qm::node_groups
