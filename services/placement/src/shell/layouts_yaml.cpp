#include "shell/layouts_yaml.hpp"

#include "qm/config/manifest.hpp"

namespace qm::placement {
namespace {

/// Upper bounds: no GPU has more instances, and no node has more GPUs.
constexpr std::int64_t kMostInstances = 64, kMostDevices = 64;

tl::unexpected<Error> wrong(std::string field, std::string message, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(message), std::move(field), std::move(remedy)});
}

Result<mig::Part> part_of(const Json& json, const std::string& field) {
  mig::Part out;
  const Json& devices = json["devices"];
  if (devices.is_array() && devices.size() > 0) {
    for (const Json& device : devices.items()) {
      const auto index = device.integer(-1);
      if (!device.is_int() || index < 0 || index >= kMostDevices)
        return wrong(field + ".devices", fmt::format("{} is not a device", device.dump()),
                     "write indexes from 0, or all");
      out.devices.push_back(static_cast<std::int32_t>(index));
    }
  } else if (devices.string() != "all") {
    return wrong(field + ".devices", "names no devices", "write all, or a list of indexes");
  }
  if (!json["mig-enabled"].is_bool()) return wrong(field + ".mig-enabled", "is not true or false", "write one of both");
  out.enabled = json["mig-enabled"].boolean();
  for (const auto& [profile, count] : json["mig-devices"].members()) {
    if (!count.is_int() || count.integer() < 0 || count.integer() > kMostInstances)
      return wrong(field + ".mig-devices." + profile, fmt::format("{} is not a number of instances", count.dump()),
                   "write how many each device gets");
    out.instances[profile] = static_cast<std::int32_t>(count.integer());
  }
  if (!out.enabled && !out.instances.empty())
    return wrong(field + ".mig-devices", "there are no instances without mig-enabled", "set mig-enabled: true");
  return out;
}

Status read_list(const Json& configs, const std::string& field, ReadLayouts& out) {
  for (const auto& [name, parts] : configs.members()) {
    mig::Definition definition;
    bool filtered = false;
    for (const Json& part : parts.items()) {
      filtered = filtered || !part["device-filter"].is_null();
      QM_ASSIGN(auto read, part_of(part, field + "." + name));
      definition.push_back(std::move(read));
    }
    if (filtered) {
      out.warnings.push_back(fmt::format("layout {} has a device-filter, which is not supported; it is skipped", name));
    } else {
      out.order.definitions[name] = std::move(definition);
    }
  }
  return {};
}

Status read_default(const Json& layout, const std::string& field, bool override_label, ReadLayouts& out) {
  if (layout.string().empty()) return wrong(field, "is not the name of a layout", "name one, for example all-1g.10gb");
  if (out.order.otherwise && out.order.otherwise->layout != layout.string())
    return wrong(field, "two different defaults", "name one layout for all nodes");
  const bool both = override_label || (out.order.otherwise && out.order.otherwise->override_label);
  out.order.otherwise = DefaultLayout{layout.string(), both};
  return {};
}

Status read(const config::Document& document, bool inside, ReadLayouts& out);

/// `inside`: the text comes from a ConfigMap.
Status read_text(const std::string& text, const std::string& file, bool inside, ReadLayouts& out) {
  const auto loaded = config::load_text(text, file);
  for (const auto& problem : loaded.diagnostics) {
    if (problem.severity == config::Diagnostic::Severity::kError)
      return wrong(problem.field, problem.to_string(), problem.remedy);
  }
  for (const auto& object : loaded.objects) QM_TRY(read(object.document, inside, out));
  return {};
}

Status read(const config::Document& document, bool inside, ReadLayouts& out) {
  const Json& content = document.content;
  const auto at = [&](const Error& error) {
    Error named = error;
    named.message = fmt::format("{}:{}: {}: {}", document.file, document.line, error.field, error.message);
    return fail(std::move(named));
  };
  const auto here = [&](Status status) -> Status { return status ? Status() : at(status.error()); };
  if (document.kind == "Node") {
    const std::string& layout = content["metadata"]["labels"][std::string(kMigConfig)].string();
    if (document.name.empty() || layout.empty())
      return at({Code::kInvalid, "the node names no layout", "metadata.labels",
                 fmt::format("label it {}=LAYOUT", kMigConfig)});
    out.order.nodes[NodeName(document.name)] = layout;
    return {};
  }
  if (document.kind == "ConfigMap" && !inside) {
    bool any = false;
    for (const auto& [key, text] : content["data"].members()) {
      any = true;
      QM_TRY(read_text(text.string(), document.file + "#" + key, true, out));
    }
    return any ? Status() : at({Code::kInvalid, "has no list of layouts", "data", "give mig-parted's config.yaml"});
  }
  if (!document.kind.empty()) {
    return at({Code::kInvalid, fmt::format("a {} has no MIG layouts", document.kind), "kind",
               "give Nodes with the label, mig-parted's list, or values of the GPU Operator"});
  }
  if (content["mig-configs"].is_object()) return here(read_list(content["mig-configs"], "mig-configs", out));
  const Json &everywhere = content["mig"]["config"], &otherwise = content["migManager"]["config"]["default"];
  if (everywhere.is_null() && otherwise.is_null())
    return at({Code::kInvalid, "names no layout", "mig.config",
               "give mig.config or migManager.config.default, or mig-parted's list"});
  if (!everywhere.is_null()) QM_TRY(here(read_default(everywhere, "mig.config", true, out)));
  if (!otherwise.is_null()) QM_TRY(here(read_default(otherwise, "migManager.config.default", false, out)));
  return {};
}

}  // namespace

Result<ReadLayouts> layouts_from_manifest(const std::string& text, const std::string& source) {
  ReadLayouts out;
  QM_TRY(read_text(text, source.empty() ? "manifest" : source, false, out));
  return out;
}

}  // namespace qm::placement
