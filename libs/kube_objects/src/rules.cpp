// Reads where pods may run from Kubernetes objects. Every reader knows the path of its field, for error messages.
#include "qm/kube_objects/rules.hpp"

#include "qm/base/log.hpp"
#include "qm/base/parse.hpp"
#include "qm/config/requests.hpp"
#include "qm/kube/client.hpp"
#include "qm/kube_rules/text.hpp"

#include <algorithm>
#include <array>

namespace qm::kube_objects {
namespace {

using namespace kube_rules;

constexpr const char* kRequired = "requiredDuringSchedulingIgnoredDuringExecution";
constexpr const char* kPreferred = "preferredDuringSchedulingIgnoredDuringExecution";

struct Field {
  const Json& value;
  std::string path;

  explicit Field(const Json& root, std::string at = {}) : value(root), path(std::move(at)) {}
  [[nodiscard]] Field operator[](std::string_view name) const {
    return Field(value[name], path.empty() ? std::string(name) : fmt::format("{}.{}", path, name));
  }
  [[nodiscard]] bool there() const { return !value.is_null(); }
  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view what, std::string remedy) const {
    return fail(Error{Code::kInvalid, fmt::format("{} {}", path, what), path, std::move(remedy)});
  }
};

template <class Fn>
Status each(const Field& list, Fn&& fn) {
  if (list.there() && !list.value.is_array()) return list.refuse("is not a list", "write it as a list");
  for (std::size_t i = 0; i < list.value.size(); ++i) {
    QM_TRY(fn(Field(list.value.at(i), fmt::format("{}[{}]", list.path, i))));
  }
  return {};
}

/// Reads each item of a list with `read` into a vector.
template <class T, class Fn>
Result<std::vector<T>> read_all(const Field& list, Fn&& read) {
  std::vector<T> out;
  QM_TRY(each(list, [&](const Field& item) -> Status {
    QM_ASSIGN(out.emplace_back(), read(item));
    return {};
  }));
  return out;
}

Result<std::string> word(const Field& at) {
  if (!at.there()) return std::string();
  if (!at.value.is_string()) return at.refuse("is not a string", "write it in quotes");
  return at.value.string();
}

Result<std::string> needed_word(const Field& at) {
  QM_ASSIGN(auto out, word(at));
  if (out.empty()) return at.refuse("is missing", "give it");
  return out;
}

Result<std::string> one_of(const Field& at, std::initializer_list<std::string_view> known, std::string_view fallback) {
  QM_ASSIGN(auto out, word(at));
  if (out.empty()) return std::string(fallback);
  if (std::ranges::find(known, out) == known.end()) {
    return at.refuse(fmt::format("is \"{}\"", out), fmt::format("one of {}", fmt::join(known, ", ")));
  }
  return out;
}

Result<std::int64_t> number(const Field& at, std::int64_t least, std::int64_t most) {
  if (!at.value.is_int() || at.value.integer() < least || at.value.integer() > most) {
    return at.refuse(fmt::format("is not a whole number of {} to {}", least, most), "give one");
  }
  return at.value.integer();
}

Result<std::vector<std::string>> words_of_list(const Field& at) { return read_all<std::string>(at, word); }

Result<Labels> labels(const Field& at) {
  Labels out;
  if (at.there() && !at.value.is_object()) return at.refuse("is not an object", "write labels as key: value");
  for (const auto& [key, value] : at.value.members()) {
    QM_ASSIGN(out[key], word(Field(value, fmt::format("{}[{}]", at.path, key))));
  }
  return out;
}

// ---- nodes ----

Result<Requirement> requirement(const Field& at) {
  Requirement out;
  QM_ASSIGN(out.key, needed_word(at["key"]));
  QM_ASSIGN(const auto op, needed_word(at["operator"]));
  const auto known = op_of(op);
  if (!known) {
    return at["operator"].refuse(fmt::format("is \"{}\"", op), "one of In, NotIn, Exists, DoesNotExist, Gt, Lt");
  }
  out.op = *known;
  QM_ASSIGN(out.values, words_of_list(at["values"]));
  using Op = Requirement::Op;
  const Field values = at["values"];
  if ((out.op == Op::kIn || out.op == Op::kNotIn) && out.values.empty()) {
    return values.refuse("is empty", fmt::format("{} needs one value or more", op));
  }
  if ((out.op == Op::kExists || out.op == Op::kDoesNotExist) && !out.values.empty()) {
    return values.refuse("has values", fmt::format("{} allows no values", op));
  }
  if ((out.op == Op::kGt || out.op == Op::kLt) && (out.values.size() != 1 || !whole_number(out.values.front()))) {
    return values.refuse("is not one whole number", fmt::format("{} needs one whole number", op));
  }
  return out;
}

Result<SelectorTerm> term(const Field& at) {
  SelectorTerm out;
  QM_ASSIGN(out.labels, read_all<Requirement>(at["matchExpressions"], requirement));
  QM_ASSIGN(out.fields, read_all<Requirement>(at["matchFields"], requirement));
  for (std::size_t i = 0; i < out.fields.size(); ++i) {
    if (out.fields[i].key == "metadata.name") continue;
    return at[fmt::format("matchFields[{}]", i)]["key"].refuse(fmt::format("is \"{}\"", out.fields[i].key),
                                                               "metadata.name is the only field");
  }
  return out;
}

Result<PreferredTerm> preferred_term(const Field& at) {
  PreferredTerm out;
  QM_ASSIGN(out.weight, number(at["weight"], 1, 100));
  QM_ASSIGN(out.term, term(at["preference"]));
  return out;
}

Status read_node_affinity(const Field& at, PodRules& out) {
  if (const Field required = at[kRequired]; required.there()) {
    const Field terms = required["nodeSelectorTerms"];
    QM_ASSIGN(out.required, read_all<SelectorTerm>(terms, term));
    if (out.required->empty()) return terms.refuse("is empty", "give a term, or leave the affinity out");
  }
  QM_ASSIGN(out.preferred, read_all<PreferredTerm>(at[kPreferred], preferred_term));
  return {};
}

Result<Toleration> toleration(const Field& at) {
  Toleration out;
  QM_ASSIGN(out.key, word(at["key"]));
  QM_ASSIGN(out.op, one_of(at["operator"], {"Equal", "Exists"}, "Equal"));
  QM_ASSIGN(out.value, word(at["value"]));
  QM_ASSIGN(out.effect, one_of(at["effect"], {"NoSchedule", "PreferNoSchedule", "NoExecute"}, ""));
  if (out.key.empty() && out.op != "Exists") {
    return at["key"].refuse("is missing", "an empty key goes with the operator Exists");
  }
  return out;
}

// ---- pods ----

Result<LabelRequirement> label_requirement(const Field& at) {
  QM_ASSIGN(const auto read, requirement(at));
  using Op = Requirement::Op;
  LabelRequirement out{read.key, LabelRequirement::Op::kExists, read.values};
  switch (read.op) {
    case Op::kIn:
      out.op = LabelRequirement::Op::kIn;
      break;
    case Op::kNotIn:
      out.op = LabelRequirement::Op::kNotIn;
      break;
    case Op::kExists:
      break;
    case Op::kDoesNotExist:
      out.op = LabelRequirement::Op::kDoesNotExist;
      break;
    case Op::kGt:
    case Op::kLt:
      return at["operator"].refuse("compares numbers", "a selector of pods has In, NotIn, Exists, DoesNotExist");
  }
  return out;
}

Result<std::optional<LabelSelector>> selector(const Field& at) {
  if (!at.there()) return std::optional<LabelSelector>();
  if (!at.value.is_object()) return at.refuse("is not an object", "give matchLabels or matchExpressions");
  LabelSelector out;
  QM_ASSIGN(const auto equal, labels(at["matchLabels"]));
  for (const auto& [key, value] : equal) out.requirements.push_back({key, LabelRequirement::Op::kIn, {value}});
  QM_ASSIGN(const auto more, read_all<LabelRequirement>(at["matchExpressions"], label_requirement));
  out.requirements.insert(out.requirements.end(), more.begin(), more.end());
  return std::optional(std::move(out));
}

/// matchLabelKeys and mismatchLabelKeys: adds the pod's own values of these labels as requirements of the selector.
Status add_own_labels(const Field& keys, const Labels& own, LabelRequirement::Op op, std::optional<LabelSelector>& to) {
  QM_ASSIGN(const auto list, words_of_list(keys));
  if (list.empty()) return {};
  if (!to) return keys.refuse("is set without a labelSelector", "give one");
  for (const auto& key : list) {
    if (const auto found = own.find(key); found != own.end()) to->requirements.push_back({key, op, {found->second}});
  }
  return {};
}

class PodReader {
 public:
  explicit PodReader(const Labels& own) : own_(own) {}

  [[nodiscard]] Result<PodTerm> pod_term(const Field& at) const {
    PodTerm out;
    QM_ASSIGN(out.topology_key, needed_word(at["topologyKey"]));
    QM_ASSIGN(out.pods, selector(at["labelSelector"]));
    QM_TRY(add_own_labels(at["matchLabelKeys"], own_, LabelRequirement::Op::kIn, out.pods));
    QM_TRY(add_own_labels(at["mismatchLabelKeys"], own_, LabelRequirement::Op::kNotIn, out.pods));
    QM_ASSIGN(out.namespaces, words_of_list(at["namespaces"]));
    std::ranges::sort(out.namespaces);
    QM_ASSIGN(out.namespace_selector, selector(at["namespaceSelector"]));
    return out;
  }

  [[nodiscard]] Result<WeightedPodTerm> weighted(const Field& at) const {
    WeightedPodTerm out;
    QM_ASSIGN(out.weight, number(at["weight"], 1, 100));
    QM_ASSIGN(out.term, pod_term(at["podAffinityTerm"]));
    return out;
  }

  Status pod_affinity(const Field& at, std::vector<PodTerm>& required, std::vector<WeightedPodTerm>& preferred) const {
    QM_ASSIGN(required, read_all<PodTerm>(at[kRequired], [&](const Field& f) { return pod_term(f); }));
    QM_ASSIGN(preferred, read_all<WeightedPodTerm>(at[kPreferred], [&](const Field& f) { return weighted(f); }));
    return {};
  }

  [[nodiscard]] Result<Spread> spread(const Field& at) const {
    Spread out;
    QM_ASSIGN(out.topology_key, needed_word(at["topologyKey"]));
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
    QM_ASSIGN(out.max_skew, number(at["maxSkew"], 1, kMost));
    QM_ASSIGN(const auto otherwise, needed_word(at["whenUnsatisfiable"]));
    if (otherwise != "DoNotSchedule" && otherwise != "ScheduleAnyway") {
      return at["whenUnsatisfiable"].refuse(fmt::format("is \"{}\"", otherwise), "DoNotSchedule or ScheduleAnyway");
    }
    out.required = otherwise == "DoNotSchedule";
    if (const Field domains = at["minDomains"]; domains.there()) {
      QM_ASSIGN(out.min_domains, number(domains, 1, kMost));
      if (!out.required) return domains.refuse("is set with ScheduleAnyway", "use it with DoNotSchedule only");
    }
    QM_ASSIGN(out.pods, selector(at["labelSelector"]));
    QM_TRY(add_own_labels(at["matchLabelKeys"], own_, LabelRequirement::Op::kIn, out.pods));
    QM_ASSIGN(const auto affinity, one_of(at["nodeAffinityPolicy"], {"Honor", "Ignore"}, "Honor"));
    QM_ASSIGN(const auto taints, one_of(at["nodeTaintsPolicy"], {"Honor", "Ignore"}, "Ignore"));
    out.honor_affinity = affinity == "Honor";
    out.honor_taints = taints == "Honor";
    return out;
  }

 private:
  const Labels& own_;
};

/// The host ports that containers use. Of the init containers, only sidecars keep their ports.
Status read_ports(const Field& spec, PodRules& out) {
  const bool host_network = spec["hostNetwork"].value.boolean();
  const auto read = [&](const Field& port) -> Status {
    const Field own = port[port["hostPort"].there() || !host_network ? "hostPort" : "containerPort"];
    if (!own.there() || own.value.integer() == 0) return {};
    HostPort taken;
    QM_ASSIGN(const auto at, number(own, 1, 65535));
    taken.port = static_cast<std::int32_t>(at);
    QM_ASSIGN(taken.protocol, one_of(port["protocol"], {"TCP", "UDP", "SCTP"}, "TCP"));
    QM_ASSIGN(const auto ip, word(port["hostIP"]));
    if (!ip.empty()) taken.ip = ip;
    out.ports.push_back(std::move(taken));
    return {};
  };
  QM_TRY(each(spec["containers"], [&](const Field& container) { return each(container["ports"], read); }));
  QM_TRY(each(spec["initContainers"], [&](const Field& container) -> Status {
    return container["restartPolicy"].value.string() == "Always" ? each(container["ports"], read) : Status();
  }));
  std::ranges::sort(out.ports);
  out.ports.erase(std::unique(out.ports.begin(), out.ports.end()), out.ports.end());
  return {};
}

std::int64_t amount_of(const std::string& resource, const Quantity& quantity) {
  return resource == "cpu" ? quantity.milli() : quantity.units();
}

Status read_requests(const Json& pod, PodRules& out) {
  auto requests = config::requests_from_pod(pod);
  if (!requests) {
    Error error = requests.error();
    error.field = fmt::format("spec.{}", error.field);
    error.message = fmt::format("spec.{}", error.message);
    return fail(std::move(error));
  }
  for (const auto& [resource, quantity] : *requests) {
    if (const auto amount = amount_of(resource, quantity); amount != 0) out.requests[resource] = amount;
  }
  return {};
}

// ---- volumes ----

constexpr std::array<std::array<const char*, 2>, 2> kZoneLabels{
    {{"topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"},
     {"topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"}}};

std::vector<std::string> split_zones(std::string_view text) {
  std::vector<std::string> out;
  for (;;) {
    const auto end = text.find("__");
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 2);
  }
}

/// Matches nodes that have the label with one of the values, or only the newer name of the label
/// with one of them, or no label of zone and region at all.
NodeSelector zone_terms(const std::string& label, const char* newer, const std::vector<std::string>& values) {
  using Op = Requirement::Op;
  NodeSelector out{{{{label, Op::kIn, values}}, {}}};
  if (label != newer) out.push_back({{{label, Op::kDoesNotExist, {}}, {newer, Op::kIn, values}}, {}});
  SelectorTerm nowhere;
  for (const auto& names : kZoneLabels) {
    for (const char* name : names) nowhere.labels.push_back({name, Op::kDoesNotExist, {}});
  }
  out.push_back(std::move(nowhere));
  return out;
}

}  // namespace

Result<PodTemplate> template_from_pod(const Json& pod) {
  PodTemplate out;
  const Field root(pod), spec = root["spec"];
  out.ns = Namespace(kube::namespace_of(pod));
  QM_ASSIGN(out.labels, labels(root["metadata"]["labels"]));
  PodRules& rules = out.rules;
  const PodReader reader(out.labels);
  QM_ASSIGN(rules.node_selector, labels(spec["nodeSelector"]));
  QM_TRY(read_node_affinity(spec["affinity"]["nodeAffinity"], rules));
  QM_ASSIGN(rules.tolerations, read_all<Toleration>(spec["tolerations"], toleration));
  QM_TRY(reader.pod_affinity(spec["affinity"]["podAffinity"], rules.affinity, rules.preferred_affinity));
  QM_TRY(reader.pod_affinity(spec["affinity"]["podAntiAffinity"], rules.anti_affinity, rules.preferred_anti_affinity));
  QM_ASSIGN(rules.spread,
            read_all<Spread>(spec["topologySpreadConstraints"], [&](const Field& f) { return reader.spread(f); }));
  QM_TRY(read_ports(spec, rules));
  QM_TRY(read_requests(pod, rules));
  QM_TRY(each(spec["volumes"], [&](const Field& volume) -> Status {
    if (volume["persistentVolumeClaim"].there()) {
      QM_ASSIGN(rules.claims.emplace_back(), needed_word(volume["persistentVolumeClaim"]["claimName"]));
    } else if (const Field claim = volume["ephemeral"]["volumeClaimTemplate"]; claim.there()) {
      OwnClaim own;
      QM_ASSIGN(own.volume, needed_word(volume["name"]));
      if (const Field made_by = claim["spec"]["storageClassName"]; made_by.there()) {
        QM_ASSIGN(own.storage_class, word(made_by));
      }
      rules.own_claims.push_back(std::move(own));
    }
    return {};
  }));
  std::ranges::sort(rules.own_claims);
  std::ranges::sort(rules.claims);
  rules.claims.erase(std::unique(rules.claims.begin(), rules.claims.end()), rules.claims.end());
  return out;
}

Result<std::string> rules_text_of_pod(const Json& pod) {
  QM_ASSIGN(auto like, template_from_pod(pod));
  if (is_plain(like.rules)) return std::string();
  like.rules.requests.clear();
  like.rules.node_selector.clear();
  like.rules.tolerations.clear();
  return text_of(like);
}

std::string rules_text(const Namespace& ns, const std::string& rules) {
  if (rules.empty()) return {};
  const auto read = [&]() -> Result<std::string> {
    QM_ASSIGN(auto pod, Json::parse(rules));
    if (!pod.is_object()) return fail(Error{Code::kInvalid, "it is not an object", "rules", "give a Pod"});
    pod.set("metadata").set("namespace", ns.value());
    if (Json& spec = pod.set("spec"); !spec.contains("containers")) spec.set("containers", Json::array());
    QM_ASSIGN(auto like, template_from_pod(pod));
    like.rules.requests.clear();  // the shape has them
    return text_of(like);
  };
  auto text = read();
  if (text) return std::move(*text);
  log::warn("scheduling constraints of a pod template are not valid and are ignored",
            {{"namespace", ns.value()}, {"error", text.error().to_string()}});
  return {};
}

Result<NodeView> view_of_node(const Json& node) {
  NodeView out;
  const Field root(node), spec = root["spec"], status = root["status"];
  out.name = NodeName(kube::name_of(node));
  QM_ASSIGN(out.labels, labels(root["metadata"]["labels"]));
  out.unschedulable = spec["unschedulable"].value.boolean();
  for (const Json& taint : spec["taints"].value.items()) {
    out.taints.push_back({taint["key"].string(), taint["value"].string(), taint["effect"].string()});
  }
  const Field amounts = status[status["allocatable"].there() ? "allocatable" : "capacity"];
  for (const auto& [resource, value] : amounts.value.members()) {
    const auto amount = value.is_int() ? Quantity::of(value.integer()) : Quantity::parse(value.string());
    if (!amount)
      return Field(value, fmt::format("{}.{}", amounts.path, resource))
          .refuse("is not a quantity", "write it as in 8Gi");
    out.allocatable[resource] = amount_of(resource, *amount);
  }
  return out;
}

Result<std::vector<VolumeReach>> reach_of_class(const Json& storage_class) {
  const Field topologies = Field(storage_class)["allowedTopologies"];
  if (topologies.value.size() == 0) return std::vector<VolumeReach>();
  QM_ASSIGN(auto terms, read_all<SelectorTerm>(topologies, [](const Field& at) -> Result<SelectorTerm> {
              SelectorTerm out;
              QM_ASSIGN(out.labels,
                        read_all<Requirement>(at["matchLabelExpressions"], [](const Field& f) -> Result<Requirement> {
                          Requirement in{.op = Requirement::Op::kIn};
                          QM_ASSIGN(in.key, needed_word(f["key"]));
                          QM_ASSIGN(in.values, words_of_list(f["values"]));
                          return in;
                        }));
              return out;
            }));
  return std::vector<VolumeReach>{{kube::name_of(storage_class), std::move(terms)}};
}

Result<std::vector<VolumeReach>> reach_of_volume(const Json& volume) {
  std::vector<VolumeReach> out;
  const Field root(volume), required = root["spec"]["nodeAffinity"]["required"];
  const auto name = kube::name_of(volume);
  if (required.there()) {
    QM_ASSIGN(auto terms, read_all<SelectorTerm>(required["nodeSelectorTerms"], term));
    out.push_back({name, std::move(terms)});
  }
  QM_ASSIGN(const auto own, labels(root["metadata"]["labels"]));
  for (const auto& names : kZoneLabels) {
    for (const char* label : names) {
      if (const auto found = own.find(label); found != own.end()) {
        out.push_back({name, zone_terms(label, names[0], split_zones(found->second))});
      }
    }
  }
  return out;
}

}  // namespace qm::kube_objects
