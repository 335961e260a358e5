#include "pod.hpp"

#include "job.hpp"
#include "qm/catalog/share.hpp"
#include "qm/config/manifest.hpp"
#include "qm/config/needs.hpp"
#include "qm/config/requests.hpp"
#include "qm/model/pod_resources.hpp"

#include <algorithm>
#include <charconv>

namespace qm::config {
namespace {

using Resources = std::map<std::string, Quantity>;

constexpr std::string_view kTopologyPrefix = "kueue.x-k8s.io/podset-";
constexpr std::string_view kExclusive = "quartermaster.dev/exclusive-nodes";

using Container = PodResources::Container;

/// A pod's spec before its resources are summed.
struct Draft : PodResources {
  Labels node_selector, affinity_labels;
  std::vector<std::string> models;
  std::vector<Toleration> tolerations;
  std::string priority_class;
  bool node_affinity_left = false;
};

Resources total_of(Draft& draft) {
  draft.set_defaults();
  return draft.total_requests();
}

/// Whole device counts; Kubernetes refuses fractions of devices, and so does this function.
std::int64_t whole(const Cursor& at, const std::string& name, const Quantity& quantity) {
  if (quantity != Quantity::of(quantity.units())) {
    at.error(
        fmt::format("{} of {} has a fraction, and devices are counted in whole numbers", quantity.to_string(), name),
        fmt::format("request whole devices, or a share of a GPU with {}", words::kGpuMilliResource));
  }
  return quantity.units();
}

void fill_shape(const Cursor& at, const Resources& resources, PodShape& out) {
  for (const auto& [name, quantity] : resources) {
    if (name == "cpu") {
      out.cpu_milli = quantity.milli();
    } else if (name == "memory") {
      out.memory_bytes = quantity.units();
    } else if (name == words::kGpuResource) {
      out.gpu.whole = whole(at, name, quantity);
    } else if (name == words::kGpuMilliResource) {
      out.gpu.milli = quantity.units();
      if (out.gpu.milli > 999) {
        at.error(fmt::format("{} of {} is more than the 999 thousandths of a share", quantity.to_string(), name),
                 fmt::format("request 1 to 999, or whole devices with {}", words::kGpuResource));
      }
    } else if (name.starts_with(words::kMigPrefix) && quantity.units() > 0) {
      if (out.gpu.mig_count > 0) {
        at.error(fmt::format("requests two MIG profiles, {} and {}", out.gpu.mig_profile,
                             name.substr(words::kMigPrefix.size())),
                 "use one profile in a pod, or split it into pods with one profile each");
        continue;
      }
      out.gpu.mig_profile = name.substr(words::kMigPrefix.size());
      out.gpu.mig_count = whole(at, name, quantity);
    } else if (!name.starts_with(words::kMigPrefix)) {
      out.extended[name] = quantity.units();
    }
  }
  if ((out.gpu.whole > 0) + (out.gpu.milli > 0) + (out.gpu.mig_count > 0) > 1) {
    at.error(fmt::format("requests GPUs in more than one way: {} whole, {} thousandths of a share, {} MIG instances",
                         out.gpu.whole, out.gpu.milli, out.gpu.mig_count),
             "request one of whole devices, a share, or MIG instances");
  }
}

/// Converts required node affinity that is equivalent to a node selector: one term of In requirements, each
/// with one value, or with several device models. True if all of it was converted.
bool take_affinity(const Json& required, Draft& out) {
  const Json& terms = required["nodeSelectorTerms"];
  if (required.size() != 1 || terms.size() != 1 || terms.at(0).size() != 1) return false;
  const Json& expressions = terms.at(0)["matchExpressions"];
  if (!expressions.is_array()) return false;
  Labels single;
  std::vector<std::string> models;
  for (const Json& expression : expressions.items()) {
    const std::string& key = expression["key"].string();
    const Json& values = expression["values"];
    if (expression["operator"].string() != "In" || values.size() == 0) return false;
    if (key == words::kGpuProduct) {
      if (!models.empty()) return false;
      for (const Json& value : values.items()) models.push_back(value.string());
      continue;
    }
    if (values.size() != 1 || !single.emplace(key, values.at(0).string()).second) return false;
  }
  std::sort(models.begin(), models.end());
  out.affinity_labels = std::move(single);
  out.models = std::move(models);
  return true;
}

void read_node_affinity(const Cursor& at, Draft& out) {
  if (!is_object(at)) return;
  for (const auto& [name, value] : at.value->members()) {
    const bool taken = name == "requiredDuringSchedulingIgnoredDuringExecution" && take_affinity(value, out);
    if (!taken) at.scope->carry(at.member(name).path);
    out.node_affinity_left = out.node_affinity_left || !taken;
  }
}

const Table<Container>& container_table() {
  static const Table<Container> table{
      group<Container>("resources",
                       {quantities("requests", &Container::requests), quantities("limits", &Container::limits)},
                       Unknown::kCarry),
      or_empty(custom<Container>("restartPolicy", [](const Cursor& at, Container& out) {
        std::string policy;
        if (read_text(at, policy)) out.sidecar = policy == "Always";
      }))};
  return table;
}

Field<Draft> containers(std::string_view name, std::vector<Container> PodResources::*member) {
  return custom<Draft>(name, [member](const Cursor& at, Draft& out) {
    each_item(at, [&](const Cursor& item) {
      read_object(item, container_table(), (out.*member).emplace_back(), Unknown::kCarry);
    });
  });
}

const Table<Draft>& pod_table() {
  static const Table<Draft> table{
      required(containers("containers", &Draft::containers)),
      containers("initContainers", &Draft::init_containers),
      quantities<Draft>("overhead", &Draft::overhead),
      group<Draft>("resources",
                   {quantities<Draft>("requests", &Draft::requests), quantities<Draft>("limits", &Draft::limits)},
                   Unknown::kCarry),
      labels("nodeSelector", &Draft::node_selector),
      list("tolerations", &Draft::tolerations, toleration_table()),
      or_empty(text("priorityClassName", &Draft::priority_class)),
      group<Draft>("affinity", {custom<Draft>("nodeAffinity", read_node_affinity)}, Unknown::kCarry)};
  return table;
}

/// The shape with only this request.
GpuShape parts_of(const catalog::Share& share) {
  GpuShape out;
  if (share.resource == words::kGpuResource) {
    out.whole = share.amount;
  } else if (share.resource == words::kGpuMilliResource) {
    out.milli = share.amount;
  } else {
    out.mig_profile = share.resource.substr(words::kMigPrefix.size());
    out.mig_count = share.amount;
  }
  return out;
}

void take(const catalog::Share& share, PodShape& shape) {
  auto models = std::move(shape.gpu.models);
  shape.gpu = parts_of(share);
  shape.gpu.models = std::move(models);
}

/// The request of the needs for a pod of this shape, which may already have the same GPU request, and no other.
Result<std::optional<catalog::Share>> share_for(const Labels& needs, const PodShape& shape) {
  QM_ASSIGN(const auto need, catalog::need_of(needs));
  if (!need) return std::optional<catalog::Share>();
  QM_ASSIGN(const catalog::Share share,
            catalog::share_of(*need, catalog::gpus_for(shape.node_selector, shape.gpu.models)));
  GpuShape chosen = parts_of(share);
  chosen.models = shape.gpu.models;
  if (!shape.gpu.none() && shape.gpu != chosen) {
    const auto key = need->memory_bytes > 0 ? catalog::kMemoryNeed : catalog::kSmsNeed;
    return fail({Code::kInvalid,
                 fmt::format("is {} {}, and the containers request other GPUs", share.amount, share.resource),
                 std::string(key), "remove one of the two"});
  }
  return std::optional<catalog::Share>(share);
}

}  // namespace

bool read_need(const Cursor& annotation, std::string_view name, PodRead& out) {
  if (!name.starts_with(catalog::kNeedPrefix)) return false;
  std::string text;
  if (read_text(annotation, text)) out.needs[std::string(name)] = std::move(text);
  return true;
}

void choose_parts(const Cursor& pod, PodRead& out) {
  if (out.needs.empty() || pod.scope->failed()) return;
  auto share = share_for(out.needs, out.shape);
  if (!share) {
    auto& error = share.error();
    return pod.member("metadata").member("annotations").member(error.field).error(error.message, error.remedy);
  }
  if (*share) take(**share, out.shape);
}

Result<std::optional<catalog::Share>> share_of_pod(const Json& pod) {
  Labels needs;
  for (const auto& [key, value] : pod["metadata"]["annotations"].members()) {
    if (key.starts_with(catalog::kNeedPrefix) && !value.string().empty()) needs[key] = value.string();
  }
  if (needs.empty()) return std::optional<catalog::Share>();
  Json spec = Json::object();  // the rest may be invalid
  for (const char* part : {"containers", "initContainers", "nodeSelector", "affinity"}) {
    if (const Json* given = pod["spec"].find(part)) spec.set(part, *given);
  }
  QM_ASSIGN(const PodShape shape, shape_from_pod_spec(spec));
  auto share = share_for(needs, shape);
  if (!share) share.error().field = fmt::format("metadata.annotations[{}]", share.error().field);
  return share;
}

Result<PodShape> shape_from_pod(const Json& pod) {
  auto shape = shape_from_pod_spec(pod["spec"]);
  if (!shape) {
    shape.error().field = fmt::format("spec.{}", shape.error().field);
    return shape;
  }
  QM_ASSIGN(const auto share, share_of_pod(pod));
  if (share) take(*share, *shape);
  return shape;
}

bool read_topology(const Cursor& annotation, std::string_view name, PodSetTopology& out) {
  std::string text;
  if (name == kExclusive) {
    if (!read_text(annotation, text)) return true;
    if (text != "true" && text != "false")
      annotation.error(fmt::format("\"{}\" is neither true nor false", text), "set \"true\" or \"false\"");
    out.exclusive = text == "true";
    return true;
  }
  if (!name.starts_with(kTopologyPrefix)) return false;
  const auto word = name.substr(kTopologyPrefix.size());
  if (word == "required-topology") {
    read_text(annotation, out.required);
  } else if (word == "preferred-topology") {
    read_text(annotation, out.preferred);
  } else if (word == "unconstrained-topology") {
    if (!read_text(annotation, text)) return true;
    if (text != "true" && text != "false")
      annotation.error(fmt::format("\"{}\" is neither true nor false", text), "set \"true\" or \"false\"");
    out.unconstrained = text == "true";
  } else if (word == "slice-required-topology") {
    read_text(annotation, out.slice);
  } else if (word == "group-name") {
    read_text(annotation, out.group);
  } else if (word == "slice-size" && read_text(annotation, text)) {
    const auto end = text.data() + text.size();
    if (std::from_chars(text.data(), end, out.slice_size).ptr != end || out.slice_size < 1)
      annotation.error(fmt::format("\"{}\" is not a number of pods", text),
                       "set a whole number of at least 1, in quotes");
  } else {
    return word == "slice-size";
  }
  return true;
}

void write_topology(const PodSetTopology& topology, Json& annotations) {
  const auto write = [&](std::string_view word, const std::string& value) {
    if (!value.empty()) annotations.set(std::string(kTopologyPrefix).append(word), value);
  };
  if (topology.unconstrained) write("unconstrained-topology", "true");
  if (topology.none()) return;
  write("required-topology", topology.required);
  write("preferred-topology", topology.preferred);
  write("slice-required-topology", topology.slice);
  if (topology.slice_size > 0) write("slice-size", std::to_string(topology.slice_size));
  write("group-name", topology.group);
  if (topology.exclusive) annotations.set(kExclusive, "true");
}

void check_topology(const Cursor& annotations, const PodSetTopology& topology) {
  const auto at = [&](std::string_view word) { return annotations.member(std::string(kTopologyPrefix).append(word)); };
  if (!topology.required.empty() && !topology.preferred.empty())
    at("preferred-topology")
        .error("cannot be combined with podset-required-topology", "keep one of the two annotations");
  if (topology.unconstrained && (!topology.required.empty() || !topology.preferred.empty()))
    at("unconstrained-topology").error("cannot be combined with a topology level", "keep one of the two annotations");
  if (!topology.slice.empty() && topology.slice_size == 0)
    at("slice-required-topology")
        .error("needs podset-slice-size", "add the annotation with the number of pods of a slice");
  if (topology.slice.empty() && topology.slice_size > 0)
    at("slice-size")
        .error("needs podset-slice-required-topology", "add the annotation with the topology level of a slice");
  if (!topology.group.empty() && topology.required.empty() && topology.preferred.empty())
    at("group-name").error("needs a topology level", "add podset-required-topology or podset-preferred-topology");
}

Result<Resources> requests_from_pod_spec(const Json& pod_spec) {
  return without_file(pod_spec, [](const Cursor& at) {
    Draft draft;
    read_object(at, pod_table(), draft, Unknown::kCarry);
    return total_of(draft);
  });
}

void read_pod(const Cursor& at, PodRead& out) {
  Draft draft;
  read_object(at, pod_table(), draft, Unknown::kCarry);
  check_ranges(at);
  if (at.scope->failed()) return;
  fill_shape(at.member("containers"), total_of(draft), out.shape);
  out.shape.gpu.models = std::move(draft.models);
  out.shape.node_selector = std::move(draft.node_selector);
  out.shape.node_selector.merge(draft.affinity_labels);
  out.shape.tolerations = std::move(draft.tolerations);
  out.node_affinity_is_in_shape = !draft.node_affinity_left;
  out.priority_class = std::move(draft.priority_class);
}

}  // namespace qm::config
