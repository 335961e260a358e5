// Karpenter's EC2NodeClass, v1beta1 and v1. v1beta1 requires amiFamily, has no alias, no kubelet settings and no
// reservations, and its default hop limit is 2.
#include "fields.hpp"

#include <algorithm>
#include <array>
#include <set>

namespace qm::config {
namespace {

constexpr std::size_t kMostTerms = 30;
constexpr std::int64_t kGib = 1LL << 30;
const std::vector<std::string> kFamilies{"AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022"};

// ---- rows ----

/// Tags: any text of EC2, not only what a label may be. `empty`: values may be empty.
template <class T>
Field<T> tags(std::string_view name, std::map<std::string, std::string> T::*member, bool empty) {
  return {name, false,
          [=](const Cursor& at, T& out) {
            if (!is_object(at)) return;
            for (const auto& [key, value] : at.value->members()) {
              const Cursor tag = at.member(key);
              if (key.empty()) {
                tag.error("has an empty key", "name the tag");
              } else if (empty && value.is_string() && value.string().empty()) {
                (out.*member)[key];
              } else if (std::string read; read_text(tag, read)) {
                (out.*member)[key] = read;
              }
            }
          },
          schema::map_of(schema::text(empty ? 0 : 1))};
}

template <class T>
Field<T> maybe(std::string_view name, std::optional<bool> T::*member) {
  return {name, false,
          [member](const Cursor& at, T& out) {
            bool value = false;
            if (read_boolean(at, value)) out.*member = value;
          },
          schema::boolean()};
}

/// Amounts by name, kept as written, because the kubelet parses them. A key that it does not know is an error.
Field<NodeClassKubelet> amounts(std::string_view name, std::map<std::string, std::string> NodeClassKubelet::*member,
                                std::vector<std::string_view> keys, bool percent) {
  return {name, false,
          [=](const Cursor& at, NodeClassKubelet& out) {
            if (!is_object(at)) return;
            for (const auto& [key, value] : at.value->members()) {
              const Cursor amount = at.member(key);
              if (std::ranges::find(keys, key) == keys.end()) {
                amount.error(fmt::format("{} is not one of its keys", key),
                             fmt::format("use one of {}", fmt::join(keys, ", ")));
                continue;
              }
              const std::string& text = value.string();
              if (percent && text.ends_with('%')) {
                (out.*member)[key] = text;
              } else if (Quantity quantity; read_quantity(amount, quantity)) {
                (out.*member)[key] = value.is_string() ? text : quantity.to_string();
              }
            }
          },
          schema::map_of(schema::anything())};
}

Field<NodeClassKubelet> grace_periods(const std::vector<std::string_view>& keys) {
  return {"evictionSoftGracePeriod", false,
          [keys](const Cursor& at, NodeClassKubelet& out) {
            if (!is_object(at)) return;
            for (const auto& [key, value] : at.value->members()) {
              const Cursor period = at.member(key);
              Duration duration{};
              if (std::ranges::find(keys, key) == keys.end()) {
                period.error(fmt::format("{} is not an eviction signal", key),
                             fmt::format("use one of {}", fmt::join(keys, ", ")));
              } else if (read_duration(period, duration)) {
                out.eviction_soft_grace[key] = value.string();
              }
            }
          },
          schema::map_of(schema::duration(false))};
}

/// The size of a volume in GiB, rounded up.
Field<NodeClassVolume> volume_size() {
  return {"volumeSize", false,
          [](const Cursor& at, NodeClassVolume& out) {
            Quantity size;
            if (!read_quantity(at, size)) return;
            const std::int64_t gib = size <= Quantity::of(64'000 * kGib) ? (size.units() + kGib - 1) / kGib : 0;
            if (gib < 1) return at.error(fmt::format("{} is out of range", size.to_string()), "use 1Gi to 64Ti");
            out.size_gib = gib;
          },
          schema::quantity()};
}

// ---- selectors ----

/// The fields of which a term needs one, and those that exclude all others.
struct TermRules {
  std::vector<std::string_view> any_of, alone;
  bool required = true;
};

void check_term(const Cursor& item, const TermRules& rules) {
  if (!item.value->is_object()) return;
  const auto has = [&](std::string_view field) { return !(*item.value)[field].is_null(); };
  if (std::ranges::none_of(rules.any_of, has)) {
    return item.error("selects nothing", fmt::format("set one of {}", fmt::join(rules.any_of, ", ")));
  }
  for (const auto field : rules.alone) {
    const auto other = std::ranges::find_if(
        item.value->members(), [&](const auto& member) { return member.first != field && !member.second.is_null(); });
    if (has(field) && other != item.value->members().end()) {
      return item.error(fmt::format("{} cannot be combined with {}", field, other->first),
                        fmt::format("remove one of them, or write a second term for {}", other->first));
    }
  }
}

Field<NodeClass> terms(std::string_view name, std::vector<NodeClassTerm> NodeClass::*member, Table<NodeClassTerm> table,
                       TermRules rules) {
  Json schema = schema::list_of(object_schema(table)).set("maxItems", static_cast<std::int64_t>(kMostTerms));
  if (rules.required) schema.set("minItems", 1);
  return {name, rules.required,
          [member, table = std::move(table), rules = std::move(rules)](const Cursor& at, NodeClass& out) {
            if (rules.required && at.value->is_array() && at.value->size() == 0)
              return at.error("must not be empty", "add a term, for example with tags");
            if (at.value->is_array() && at.value->size() > kMostTerms) {
              return at.error(fmt::format("has {} terms, at most {} are allowed", at.value->size(), kMostTerms),
                              "select by a tag instead of ids");
            }
            each_item(at, [&](const Cursor& item) {
              NodeClassTerm term;
              read_object(item, table, term);
              check_term(item, rules);
              (out.*member).push_back(std::move(term));
            });
          },
          std::move(schema)};
}

/// An id such as "ami-0a1b": the prefix, then digits and lower-case letters.
Field<NodeClassTerm> resource_id(std::string_view prefix) {
  return {"id", false,
          [prefix](const Cursor& at, NodeClassTerm& out) {
            std::string id;
            if (!read_text(at, id)) return;
            const bool fits = id.starts_with(prefix) && id.size() > prefix.size() &&
                              id.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz", prefix.size()) == id.npos;
            if (!fits)
              return at.error(fmt::format("\"{}\" is not an id", id), fmt::format("write it as {}0a1b", prefix));
            out.id = id;
          },
          schema::pattern(fmt::format("^{}[0-9a-z]+$", prefix))};
}

void read_alias(const Cursor& at, NodeClassTerm& out) {
  constexpr std::array<std::string_view, 5> kAliases{"al2", "al2023", "bottlerocket", "windows2019", "windows2022"};
  std::string alias;
  if (!read_text(at, alias)) return;
  const auto mark = alias.find('@');
  if (mark == std::string::npos || mark == 0 || mark + 1 == alias.size() || alias.size() > 30)
    return at.error(fmt::format("\"{}\" is not an alias", alias), "write family@version, for example al2023@latest");
  const std::string family = alias.substr(0, mark);
  if (std::ranges::find(kAliases, family) == kAliases.end()) {
    return at.error(fmt::format("{} is not a family of images", family),
                    fmt::format("use one of {}", fmt::join(kAliases, ", ")));
  }
  if (family.starts_with("windows") && alias.substr(mark + 1) != "latest")
    return at.error(fmt::format("{} has no versions", family), fmt::format("use {}@latest", family));
  out.alias = alias;
}

Table<NodeClassTerm> image_terms(bool beta) {
  using T = NodeClassTerm;
  Table<T> table{tags("tags", &T::tags, false), resource_id("ami-"), text("name", &T::name), text("owner", &T::owner)};
  if (beta) return table;
  table.push_back(custom<T>("alias", read_alias, schema::pattern("^[a-zA-Z0-9]+@.+$")));
  table.push_back(text("ssmParameter", &T::ssm_parameter));
  return table;
}

// ---- parts of the spec ----

const Table<NodeClassVolume>& volume_table() {
  using V = NodeClassVolume;
  static const Table<V> table{
      text("deviceName", &V::device), boolean("rootVolume", &V::root),
      group<V>("ebs",
               {volume_size(), one_of("volumeType", &V::type, {"standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"}),
                integer("iops", &V::iops, 100, 256'000), integer("throughput", &V::throughput_mib, 125, 2000),
                maybe("encrypted", &V::encrypted), maybe("deleteOnTermination", &V::delete_on_termination),
                text("kmsKeyID", &V::kms_key), text("snapshotID", &V::snapshot),
                integer("volumeInitializationRate", &V::initialization_mib, 100, 300)})};
  return table;
}

void read_volumes(const Cursor& at, NodeClass& out) {
  std::set<std::string> devices;
  each_item(at, [&](const Cursor& item) {
    NodeClassVolume volume;
    read_object(item, volume_table(), volume);
    const Cursor ebs = item.member("ebs");
    if (item.value->is_object() && ebs.value->is_object()) {
      if ((*ebs.value)["snapshotID"].is_null() && (*ebs.value)["volumeSize"].is_null())
        ebs.error("has neither snapshotID nor volumeSize", "add volumeSize, for example 100Gi");
      if (volume.initialization_mib > 0 && volume.snapshot.empty())
        ebs.member("volumeInitializationRate").error("needs snapshotID", "remove it, or name the snapshot");
    }
    if (volume.root && std::ranges::any_of(out.volumes, &NodeClassVolume::root))
      item.member("rootVolume").error("is true for two mappings", "keep one root volume");
    if (!volume.device.empty() && !devices.insert(volume.device).second)
      item.member("deviceName").error(fmt::format("{} is mapped twice", volume.device), "keep one of them");
    out.volumes.push_back(std::move(volume));
  });
}

const Table<NodeClassKubelet>& kubelet_table() {
  using K = NodeClassKubelet;
  static const std::vector<std::string_view> reserved{"cpu", "memory", "ephemeral-storage", "pid"};
  static const std::vector<std::string_view> signals{"memory.available",  "nodefs.available",   "nodefs.inodesFree",
                                                     "imagefs.available", "imagefs.inodesFree", "pid.available"};
  static const Table<K> table{texts("clusterDNS", &K::cluster_dns),
                              integer("maxPods", &K::max_pods, 0, 10'000),
                              integer("podsPerCore", &K::pods_per_core, 0, 10'000),
                              amounts("systemReserved", &K::system_reserved, reserved, false),
                              amounts("kubeReserved", &K::kube_reserved, reserved, false),
                              amounts("evictionHard", &K::eviction_hard, signals, true),
                              amounts("evictionSoft", &K::eviction_soft, signals, true),
                              grace_periods(signals),
                              integer("evictionMaxPodGracePeriod", &K::eviction_max_grace_s, 0, 1'000'000),
                              integer("imageGCHighThresholdPercent", &K::image_gc_high, 0, 100),
                              integer("imageGCLowThresholdPercent", &K::image_gc_low, 0, 100),
                              maybe("cpuCFSQuota", &K::cpu_cfs_quota)};
  return table;
}

void read_kubelet(const Cursor& at, NodeClass& out) {
  NodeClassKubelet& kubelet = out.kubelet;
  read_object(at, kubelet_table(), kubelet);
  if (!at.value->is_object()) return;
  if (kubelet.image_gc_high >= 0 && kubelet.image_gc_low >= 0 && kubelet.image_gc_high <= kubelet.image_gc_low) {
    at.member("imageGCHighThresholdPercent")
        .error(
            fmt::format("{} is not above imageGCLowThresholdPercent {}", kubelet.image_gc_high, kubelet.image_gc_low),
            "raise it, or lower the other one");
  }
  const auto pairs = [&](const auto& from, const auto& to, std::string_view field, std::string_view other) {
    for (const auto& [key, value] : from) {
      if (!to.contains(key))
        at.member(field).member(key).error(fmt::format("has no {}", other), fmt::format("add {} to {}", key, other));
    }
  };
  pairs(kubelet.eviction_soft, kubelet.eviction_soft_grace, "evictionSoft", "evictionSoftGracePeriod");
  pairs(kubelet.eviction_soft_grace, kubelet.eviction_soft, "evictionSoftGracePeriod", "evictionSoft");
}

const Table<NodeClassMetadata>& metadata_table() {
  using M = NodeClassMetadata;
  static const Table<M> table{one_of("httpEndpoint", &M::endpoint, {"enabled", "disabled"}),
                              one_of("httpProtocolIPv6", &M::ipv6, {"enabled", "disabled"}),
                              integer("httpPutResponseHopLimit", &M::hop_limit, 1, 64),
                              one_of("httpTokens", &M::tokens, {"required", "optional"})};
  return table;
}

const Table<NodeClass>& placement_group_table() {
  static const Table<NodeClass> table{text("id", &NodeClass::placement_group_id),
                                      text("name", &NodeClass::placement_group_name)};
  return table;
}

void read_placement_group(const Cursor& at, NodeClass& out) {
  read_object(at, placement_group_table(), out);
  if (at.value->is_object() && out.placement_group_id.empty() == out.placement_group_name.empty())
    at.error("needs exactly one of id and name", "keep the one that identifies the group");
}

/// Tags that the controllers set themselves.
void check_tags(const Cursor& at) {
  constexpr std::array<std::string_view, 4> kOurs{"eks:eks-cluster-name", "karpenter.sh/nodepool",
                                                  "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"};
  if (!at.value->is_object()) return;
  for (const auto& [key, value] : at.value->members()) {
    const bool reserved = std::ranges::find(kOurs, key) != kOurs.end() || key.starts_with("kubernetes.io/cluster") ||
                          key.starts_with("aws:");
    if (reserved) at.member(key).error(fmt::format("the tag {} is reserved", key), "remove it: it is set at launch");
  }
}

/// The family that an alias implies.
std::string family_of_alias(std::string_view alias) {
  const std::string_view family = alias.substr(0, alias.find('@'));
  if (family == "bottlerocket") return "Bottlerocket";
  if (family.starts_with("windows")) return "Windows" + std::string(family.substr(7));
  return family == "al2" ? "AL2" : "AL2023";
}

void check_node_class(const Cursor& spec, NodeClass& out) {
  const Cursor family = spec.member("amiFamily");
  const auto aliased = std::ranges::find_if(out.images, [](const auto& term) { return !term.alias.empty(); });
  if (aliased != out.images.end()) {
    if (out.images.size() > 1)
      spec.member("amiSelectorTerms").error("has an alias and other terms", "keep the alias only, or none");
    const std::string implied = family_of_alias(aliased->alias);
    if (out.ami_family.empty()) {
      out.ami_family = implied;
    } else if (out.ami_family != implied && out.ami_family != "Custom") {
      family.error(fmt::format("{} is not the family of the alias {}", out.ami_family, aliased->alias),
                   fmt::format("use {} or Custom, or remove the field", implied));
    }
  } else if (out.ami_family.empty()) {
    family.error("is missing, and no alias implies it", "add it, for example AL2023, or use an alias");
  }
  if (out.role.empty() == out.instance_profile.empty()) {
    spec.member("role").error(
        out.role.empty() ? "is missing, and so is instanceProfile" : "is set, and instanceProfile too",
        "set exactly one of role and instanceProfile");
  }
}

Table<NodeClass> node_class_table(bool beta) {
  using C = NodeClass;
  using T = NodeClassTerm;
  Field<C> tag_row = tags("tags", &C::tags, true);
  tag_row.read = [read = std::move(tag_row.read)](const Cursor& at, C& out) {
    read(at, out);
    check_tags(at);
  };
  std::vector<std::string> families = kFamilies;
  if (beta) families.emplace_back("Ubuntu");
  Table<C> spec{
      terms("subnetSelectorTerms", &C::subnets, {tags("tags", &T::tags, false), resource_id("subnet-")},
            {{"tags", "id"}, {"id"}}),
      terms("securityGroupSelectorTerms", &C::security_groups,
            {tags("tags", &T::tags, false), resource_id("sg-"), text("name", &T::name)},
            {{"tags", "id", "name"}, {"id", "name"}}),
      terms("amiSelectorTerms", &C::images, image_terms(beta),
            beta ? TermRules{{"tags", "id", "name"}, {"id"}, false}
                 : TermRules{{"tags", "id", "name", "alias", "ssmParameter"}, {"id", "alias", "ssmParameter"}}),
      beta ? required(one_of("amiFamily", &C::ami_family, families)) : one_of("amiFamily", &C::ami_family, families),
      text("role", &C::role),
      text("instanceProfile", &C::instance_profile),
      text("userData", &C::user_data),
      std::move(tag_row),
      at_most(50, custom<C>("blockDeviceMappings", read_volumes, schema::list_of(object_schema(volume_table())))),
      custom<C>(
          "instanceStorePolicy",
          [](const Cursor& at, C& out) {
            std::string policy;
            if (!read_text(at, policy)) return;
            if (policy != "RAID0") return at.error(fmt::format("{} is not a policy", policy), "use RAID0");
            out.raid0 = true;
          },
          schema::one_of({"RAID0"})),
      maybe("detailedMonitoring", &C::detailed_monitoring),
      maybe("associatePublicIPAddress", &C::public_ip),
      custom<C>(
          "metadataOptions", [](const Cursor& at, C& out) { read_object(at, metadata_table(), out.metadata); },
          object_schema(metadata_table())),
      text("context", &C::context)};
  if (!beta) {
    spec.push_back(terms("capacityReservationSelectorTerms", &C::reservations,
                         {tags("tags", &T::tags, false), resource_id("cr-"), text("ownerID", &T::owner),
                          one_of("instanceMatchCriteria", &T::match_criteria, {"open", "targeted"})},
                         {{"tags", "id", "instanceMatchCriteria"}, {"id"}, false}));
    spec.push_back(custom<C>("kubelet", read_kubelet, object_schema(kubelet_table())));
    spec.push_back(custom<C>("placementGroupSelector", read_placement_group, object_schema(placement_group_table())));
    spec.push_back(group<C>("enclaveOptions", {boolean("enabled", &C::enclave)}));
    spec.push_back(kept<C>("ipPrefixCount"));
    spec.push_back(kept<C>("networkInterfaces"));
  }
  return with_identity<C>({required(group<C>("spec", std::move(spec)))});
}

Typed read_node_class(const Cursor& root, std::string_view version) {
  static const Table<NodeClass> v1 = node_class_table(false);
  static const Table<NodeClass> v1beta1 = node_class_table(true);
  NodeClass out;
  out.api_version = std::string(version);
  if (version == "v1beta1") out.metadata.hop_limit = 2;
  read_object(root, version == "v1" ? v1 : v1beta1, out);
  if (!root.scope->failed()) check_node_class(root.member("spec"), out);
  return out;
}

}  // namespace

KindReader node_class_kind() { return {"karpenter.k8s.aws", {"v1", "v1beta1"}, "EC2NodeClass", read_node_class}; }

Json node_class_schema(std::string_view version) {
  const auto table = node_class_table(version == "v1beta1");
  return object_schema(table)["properties"]["spec"];
}

}  // namespace qm::config
