#include "qm/admission/kueue_configuration.hpp"

#include "qm/base/json.hpp"
#include "qm/base/log.hpp"
#include "qm/config/manifest.hpp"

#include <fstream>
#include <set>
#include <sstream>

namespace qm::admission {
namespace {

Error wrong(const std::string& field, const std::string& what, const std::string& remedy) {
  return {Code::kInvalid, what, "waitForPodsReady." + field, remedy};
}

Status duration(const Json& from, const std::string& field, Duration& into) {
  const auto& value = from[field];
  if (value.is_null()) return {};
  const auto read = config::parse_duration(value.string());
  if (!read || *read < Duration{0}) return fail(wrong(field, "is not a duration", "write for example 5m"));
  into = *read;
  return {};
}

Status whole_seconds(const Json& from, const std::string& field, Duration& into) {
  const auto& value = from[field];
  if (value.is_null()) return {};
  if (!value.is_int() || value.integer() < 0 || value.integer() > 1'000'000'000) {
    return fail(wrong("requeuingStrategy." + field, "is not a number of seconds", "write for example 60"));
  }
  into = std::chrono::seconds(value.integer());
  return {};
}

Result<PodsReady> pods_ready_from(const Json& from) {
  PodsReady out;
  QM_TRY(duration(from, "timeout", out.timeout));
  if (out.timeout == Duration{0}) return fail(wrong("timeout", "is zero", "set the time limit for pods"));
  // As in Kueue, recoveryTimeout defaults to the timeout of the start.
  out.recovery_timeout = out.timeout;
  QM_TRY(duration(from, "recoveryTimeout", out.recovery_timeout));
  out.block_admission = from["blockAdmission"].boolean();
  const auto& strategy = from["requeuingStrategy"];
  const auto& since = strategy["timestamp"].string();
  if (!since.empty() && since != "Eviction" && since != "Creation") {
    return fail(wrong("requeuingStrategy.timestamp", since + " is not a known value", "use Eviction or Creation"));
  }
  out.keeps_age = since == "Creation";
  QM_TRY(whole_seconds(strategy, "backoffBaseSeconds", out.backoff));
  QM_TRY(whole_seconds(strategy, "backoffMaxSeconds", out.backoff_most));
  if (const auto& most = strategy["backoffLimitCount"]; !most.is_null()) {
    if (!most.is_int() || most.integer() < 0 || most.integer() > 1'000'000) {
      return fail(wrong("requeuingStrategy.backoffLimitCount", "is not a count", "write for example 5"));
    }
    out.most_requeues = static_cast<std::int32_t>(most.integer());
  }
  return out;
}

}  // namespace

Result<KueueConfiguration> kueue_configuration_from(const std::string& text, const std::string& source) {
  const auto loaded = config::load_text(text, source);
  const Json* found = nullptr;
  for (const auto& object : loaded.objects) {
    const auto& doc = object.document;
    if (doc.kind == "Configuration" && doc.api_version.starts_with("config.kueue.x-k8s.io/")) found = &doc.content;
  }
  if (found == nullptr) {
    return fail({Code::kInvalid, fmt::format("{} holds no Configuration of config.kueue.x-k8s.io", source),
                 "kueue-configuration", "name the file that Kueue's controller is started with"});
  }
  KueueConfiguration out;
  static const std::set<std::string, std::less<>> kRead{"apiVersion", "kind", "metadata", "waitForPodsReady"};
  for (const auto& [field, value] : found->members()) {
    if (!kRead.contains(field)) out.left.push_back(field);
  }
  const auto& wait = (*found)["waitForPodsReady"];
  // v1beta1 has an additional `enable` field.
  const bool off = !wait["enable"].is_null() && !wait["enable"].boolean();
  if (!wait.is_object() || off) return out;
  QM_ASSIGN(out.pods_ready, pods_ready_from(wait));
  return out;
}

Result<KueueConfiguration> read_kueue_configuration(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return fail(
        {Code::kNotFound, fmt::format("{} cannot be read", path), "kueue-configuration", "name a file that exists"});
  }
  std::stringstream text;
  text << in.rdbuf();
  QM_ASSIGN(auto out, kueue_configuration_from(text.str(), path));
  if (!out.left.empty()) {
    log::info("kueue configuration: these fields are ignored",
              {{"file", path}, {"fields", fmt::format("{}", fmt::join(out.left, ", "))}});
  }
  return out;
}

}  // namespace qm::admission
