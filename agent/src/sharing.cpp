#include "sharing.hpp"

#include "qm/config/manifest.hpp"
#include "qm/model/resources.hpp"

namespace qm::agent {
namespace {

constexpr int kMostShares = 128;

Result<int> replicas_of(const Json& value, const std::string& field) {
  const auto replicas = value.integer(0);
  if (!value.is_int() || replicas < 1 || replicas > kMostShares) {
    return fail(Error{Code::kInvalid, fmt::format("{} is not a valid number of shares", value.dump()), field,
                      fmt::format("write a number from 1 to {}", kMostShares)});
  }
  return static_cast<int>(replicas);
}

Result<Json> content_of(std::string_view text, const std::string& file) {
  const auto loaded = config::load_text(text, file);
  for (const auto& problem : loaded.diagnostics) {
    if (problem.severity == config::Diagnostic::Severity::kError) {
      return fail(Error{Code::kInvalid, problem.to_string(), problem.field, problem.remedy});
    }
  }
  if (loaded.objects.size() != 1) {
    return fail(Error{Code::kInvalid, fmt::format("{} documents where one is meant", loaded.objects.size()), file, {}});
  }
  const Json& content = loaded.objects[0].document.content;
  if (content["kind"].string() != "ConfigMap") return content;
  const auto& data = content["data"];
  const std::string key = data.contains("any")         ? "any"
                          : data.members().size() == 1 ? data.members().begin()->first
                                                       : std::string();
  if (key.empty()) {
    return fail(Error{Code::kInvalid, "it has several configurations and names no default", "data",
                      "give one of them the name any"});
  }
  return content_of(data[key].string(), file + "#" + key);
}

}  // namespace

int Sharing::of(const std::string& resource) const {
  const auto known = shares.find(resource);
  return known == shares.end() ? 1 : known->second;
}

Result<Sharing> sharing_of(std::string_view text, const std::string& file) {
  QM_ASSIGN(const Json content, content_of(text, file));
  Sharing out;
  out.single = content.path("flags.migStrategy").string() == "single";
  const Json& sharing = content["sharing"];
  if (sharing.contains("mps") && sharing.contains("timeSlicing")) {
    return fail(Error{Code::kInvalid, "GPUs are shared by time or by MPS, not by both", "sharing", "leave one out"});
  }
  // The GPU Operator's own values use two fields for this.
  if (const Json& values = content["mps"]; values["enabled"].boolean()) {
    out.mps = true;
    QM_ASSIGN(out.shares["nvidia.com/gpu"], replicas_of(values["replicas"], "mps.replicas"));
    return out;
  }
  out.mps = sharing.contains("mps");
  const std::string way = out.mps ? "sharing.mps" : "sharing.timeSlicing";
  const Json& shared = sharing[out.mps ? "mps" : "timeSlicing"];
  out.renamed = shared["renameByDefault"].boolean();
  for (const Json& resource : shared["resources"].items()) {
    const std::string& name = resource["name"].string();
    if (name.empty()) {
      return fail(Error{Code::kInvalid, "a resource has no name", way + ".resources.name", "name it"});
    }
    if (out.mps && name.starts_with(words::kMigPrefix)) {
      return fail(Error{Code::kInvalid, fmt::format("{} cannot be shared by MPS", name), way + ".resources.name",
                        "use time-slicing for MIG instances, and MPS for GPUs without MIG"});
    }
    QM_ASSIGN(out.shares[name], replicas_of(resource["replicas"], way + ".resources.replicas"));
  }
  if (shared.contains("replicas")) {
    out.warnings.push_back(fmt::format("{}.replicas has no list of resources; it applies to nvidia.com/gpu", way));
    QM_ASSIGN(out.shares["nvidia.com/gpu"], replicas_of(shared["replicas"], way + ".replicas"));
  }
  return out;
}

}  // namespace qm::agent
