#include "qm/config/crd.hpp"

#include "fields.hpp"

#include <algorithm>
#include <cctype>

namespace qm::config {
namespace {

constexpr std::string_view kGroup = "quartermaster.dev";

/// Conditions as Kubernetes writes them (meta/v1 Condition).
Json status_schema() {
  Json condition =
      schema::object(Json::object({{"type", schema::text()},
                                   {"status", schema::one_of({"True", "False", "Unknown"})},
                                   {"observedGeneration", Json::object({{"type", "integer"}, {"format", "int64"}})},
                                   {"lastTransitionTime", schema::text().set("format", "date-time")},
                                   {"reason", schema::text()},
                                   {"message", schema::text(0)}}),
                     Json::array({"type", "status"}));
  Json conditions = schema::list_of(std::move(condition));
  conditions.set("x-kubernetes-list-type", "map").set("x-kubernetes-list-map-keys", Json::array({"type"}));
  return schema::object(Json::object({{"conditions", std::move(conditions)}}), {});
}

Json columns_of(const Definition& definition) {
  Json out = Json::array();
  for (const auto& [header, path] : definition.columns) {
    const std::string_view type = path == ".spec.port" ? "integer" : "string";
    out.push_back(Json::object({{"name", header}, {"type", type}, {"jsonPath", path}}));
  }
  out.push_back(Json::object({{"name", "Age"}, {"type", "date"}, {"jsonPath", ".metadata.creationTimestamp"}}));
  return out;
}

Json crd(const Definition& definition) {
  // The API server defines identity; the remaining fields are those of the kind.
  Json properties = Json::object({{"apiVersion", schema::text()},
                                  {"kind", schema::text()},
                                  {"metadata", schema::object({}, {})},
                                  {"spec", definition.schema["properties"]["spec"]},
                                  {"status", status_schema()}});
  Json root = schema::described(definition.description, schema::object(std::move(properties), Json::array({"spec"})));
  Json version = Json::object({{"name", "v1alpha1"},
                               {"served", true},
                               {"storage", true},
                               {"subresources", Json::object({{"status", Json::object()}})},
                               {"additionalPrinterColumns", columns_of(definition)},
                               {"schema", Json::object({{"openAPIV3Schema", std::move(root)}})}});
  std::string singular(definition.kind);
  std::ranges::transform(singular, singular.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  Json names = Json::object({{"kind", definition.kind},
                             {"listKind", fmt::format("{}List", definition.kind)},
                             {"plural", definition.plural},
                             {"singular", singular},
                             {"shortNames", Json::array({definition.short_name})},
                             {"categories", Json::array({"quartermaster"})}});
  return Json::object({{"apiVersion", "apiextensions.k8s.io/v1"},
                       {"kind", "CustomResourceDefinition"},
                       {"metadata", Json::object({{"name", fmt::format("{}.{}", definition.plural, kGroup)}})},
                       {"spec", Json::object({{"group", kGroup},
                                              {"scope", "Cluster"},
                                              {"names", std::move(names)},
                                              {"versions", Json::array({std::move(version)})}})}});
}

Json open_object() { return schema::object({}, {}).set("x-kubernetes-preserve-unknown-fields", true); }

/// Lets each object of the schema have fields that it does not name.
void preserve(Json& schema) {
  Json kept = Json::object();
  for (const auto& [key, value] : schema.members()) {
    Json child = value;
    if (key == "properties") {
      Json fields = Json::object();
      for (const auto& [name, field] : value.members()) {
        Json one = field;
        preserve(one);
        fields.set(name, std::move(one));
      }
      child = std::move(fields);
    } else if (key == "items") {
      preserve(child);
    }
    kept.set(key, std::move(child));
  }
  if (!schema["properties"].is_null()) kept.set("x-kubernetes-preserve-unknown-fields", true);
  schema = std::move(kept);
}

/// Whether no YAML parser reads the text as a number, a boolean, a null or syntax.
bool is_plain(const std::string& text) {
  static constexpr std::string_view kWords[] = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"};
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !letter(text.front()) || text.back() == ' ') return false;
  const auto fine = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || std::string_view(" ._/-").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(text, fine)) return false;
  std::string lower = text;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return std::ranges::find(kWords, lower) == std::end(kWords);
}

void append_text(std::string& out, const std::string& text) {
  if (is_plain(text)) {
    out += text;
  } else {
    append_json_string(out, text);
  }
}

/// `first`: the output already ends with "- ", so the first key needs no indent.
void append_yaml(std::string& out, const Json& value, std::size_t indent, bool first) {
  const auto nested = [&](const Json& child, std::size_t deeper) {
    if (child.size() == 0) {
      out += ' ';
      if (child.is_string()) {
        append_text(out, child.string());
      } else {
        child.append_to(out);
      }
      out += '\n';
    } else {
      out += '\n';
      append_yaml(out, child, deeper, false);
    }
  };
  if (value.is_object()) {
    for (const auto& [key, child] : value.members()) {
      if (!first) out.append(indent, ' ');
      first = false;
      append_text(out, key);
      out += ':';
      nested(child, indent + (child.is_array() ? 0 : 2));
    }
    return;
  }
  for (const Json& item : value.items()) {
    if (!first) out.append(indent, ' ');
    first = false;
    out += '-';
    if (item.size() > 0) {
      out += ' ';
      append_yaml(out, item, indent + 2, true);
    } else {
      nested(item, indent + 2);
    }
  }
}

}  // namespace

std::vector<Json> own_crds() {
  std::vector<Json> out;
  for (const Definition& definition : own_definitions()) out.push_back(crd(definition));
  std::ranges::sort(out, {}, [](const Json& one) { return one["metadata"]["name"].string(); });
  return out;
}

std::string own_crds_text() {
  std::string out = "# Generated by qm-crds from the tables in libs/config; change those, then run it again.\n";
  for (const Json& one : own_crds()) out += "---\n" + to_yaml(one);
  return out;
}

Json node_class_crd() {
  const auto version_of = [](std::string_view name) {
    Json spec = node_class_schema(name);
    preserve(spec);
    Json root =
        schema::described("How instances are launched on AWS.",
                          schema::object(Json::object({{"spec", std::move(spec)}, {"status", open_object()}}), {}));
    root.set("x-kubernetes-preserve-unknown-fields", true);
    const auto column = [](const char* header, const char* type, const char* path) {
      return Json::object({{"name", header}, {"type", type}, {"jsonPath", path}});
    };
    return Json::object(
        {{"name", name},
         {"served", true},
         {"storage", name == "v1"},
         {"subresources", Json::object({{"status", Json::object()}})},
         {"additionalPrinterColumns",
          Json::array({column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
                       column("Role", "string", ".spec.role"), column("Age", "date", ".metadata.creationTimestamp")})},
         {"schema", Json::object({{"openAPIV3Schema", std::move(root)}})}});
  };
  return Json::object(
      {{"apiVersion", "apiextensions.k8s.io/v1"},
       {"kind", "CustomResourceDefinition"},
       {"metadata", Json::object({{"name", "ec2nodeclasses.karpenter.k8s.aws"},
                                  {"labels", Json::object({{"quartermaster.dev/read-side", "true"}})}})},
       {"spec", Json::object({{"group", "karpenter.k8s.aws"},
                              {"scope", "Cluster"},
                              {"names", Json::object({{"kind", "EC2NodeClass"},
                                                      {"listKind", "EC2NodeClassList"},
                                                      {"plural", "ec2nodeclasses"},
                                                      {"singular", "ec2nodeclass"},
                                                      {"shortNames", Json::array({"ec2nc"})},
                                                      {"categories", Json::array({"karpenter"})}})},
                              {"versions", Json::array({version_of("v1beta1"), version_of("v1")})}})}});
}

std::string to_yaml(const Json& value) {
  std::string out;
  if (value.size() > 0) {
    append_yaml(out, value, 0, false);
  } else if (value.is_string()) {
    append_text(out, value.string());
    out += '\n';
  } else {
    out = value.dump() + "\n";
  }
  return out;
}

}  // namespace qm::config
