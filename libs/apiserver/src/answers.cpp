#include "qm/apiserver/answers.hpp"

#include "qm/apiserver/fields.hpp"
#include "qm/apiserver/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::apiserver {
namespace {

std::string in_group(std::string_view name, const Type& type) {
  return type.group.empty() ? std::string(name) : fmt::format("{}.{}", name, type.group);
}

Json details(const Type& type, std::string_view name, std::string_view called) {
  Json out = Json::object();
  if (!name.empty()) out.set("name", name);
  if (!type.group.empty()) out.set("group", type.group);
  return out.set("kind", called);
}

Answer about(const Type& type, std::string_view name, int code, std::string reason, std::string message) {
  return {code, std::move(reason), std::move(message), details(type, name, type.plural)};
}

/// Checks that the object's kind and version match the path; absent values match.
std::optional<Answer> check_type(const Type& type, const Json& object) {
  const auto &kind = object["kind"].string(), &version = object["apiVersion"].string();
  const auto wanted = type.group.empty() ? std::string(type.version) : fmt::format("{}/{}", type.group, type.version);
  if ((kind.empty() || kind == type.kind) && (version.empty() || version == wanted)) return {};
  return bad_request(
      fmt::format("{} in version \"{}\" cannot be handled as a {}: the object is a {} of {}, and here it is a {} of {}",
                  kind, version.substr(version.find('/') + 1), type.kind, kind, version, type.kind, wanted));
}

}  // namespace

Json status_of(const Answer& answer) {
  Json out = Json::object({{"kind", "Status"},
                           {"apiVersion", "v1"},
                           {"metadata", Json::object()},
                           {"status", "Failure"},
                           {"message", answer.message},
                           {"reason", answer.reason}});
  if (!answer.details.is_null()) out.set("details", answer.details);
  return out.set("code", answer.code);
}

Answer no_such_resource() {
  return {404, "NotFound", "the server could not find the requested resource", Json::object()};
}
Answer bad_request(std::string_view why) { return {400, "BadRequest", std::string(why)}; }
Answer not_found(const Type& type, std::string_view name) {
  return about(type, name, 404, "NotFound", fmt::format("{} \"{}\" not found", in_group(type.plural, type), name));
}
Answer forbidden(const Type& type, std::string_view name, std::string_view why) {
  return about(type, name, 403, "Forbidden",
               fmt::format("{} \"{}\" is forbidden: {}", in_group(type.plural, type), name, why));
}
Answer conflict(const Type& type, std::string_view name, std::string_view why) {
  return about(type, name, 409, "Conflict",
               fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", in_group(type.plural, type), name, why));
}
Answer already_exists(const Type& type, std::string_view name, bool is_being_deleted) {
  return about(type, name, 409, "AlreadyExists",
               fmt::format("{}{} \"{}\" already exists", is_being_deleted ? "object is being deleted: " : "",
                           in_group(type.plural, type), name));
}
Answer namespace_terminating(const Type& type, std::string_view name, std::string_view ns) {
  auto out = forbidden(type, name,
                       fmt::format("unable to create new content in namespace {} because it is being terminated", ns));
  out.details.set("causes", Json::array({Json::object({{"reason", "NamespaceTerminating"},
                                                       {"message", fmt::format("namespace {} is being terminated", ns)},
                                                       {"field", "metadata.namespace"}})}));
  return out;
}

Answer invalid(const Type& type, std::string_view name, const Causes& causes) {
  Json list = Json::array();
  for (const auto& cause : causes) {
    list.push_back(Json::object({{"reason", reason_of(cause)}, {"message", cause.message}, {"field", cause.field}}));
  }
  return {422, "Invalid", fmt::format("{} \"{}\" is invalid: {}", in_group(type.kind, type), name, text_of(causes)),
          details(type, name, type.kind).set("causes", std::move(list))};
}

std::optional<Answer> check_option(std::string_view options, std::string_view name, std::string_view given,
                                   const std::vector<std::string>& allowed) {
  if (given.empty() || std::ranges::find(allowed, given) != allowed.end()) return {};
  return invalid({"meta.k8s.io", "v1", "", options}, "",
                 {{std::string(name), fmt::format("Unsupported value: \"{}\": supported values: \"{}\"", given,
                                                  fmt::join(allowed, "\", \""))}});
}

Body decode_body(const Type& type, const Json* schema, bool is_patched, std::string_view validation, Json& object) {
  if (!is_patched) {
    if (auto other = check_type(type, object)) return {std::move(other), {}};
  }
  const Json given = is_patched ? object : Json();
  const auto decoded = schema == nullptr ? decode(type.kind, object) : Decoded{prune(*schema, object), {}};
  std::string fault = decoded.mistake;
  if (fault.empty() && validation == "Strict" && !decoded.strict.empty())
    fault = fmt::format("strict decoding error: {}", fmt::join(decoded.strict, ", "));
  if (!fault.empty() && is_patched) {
    return {invalid({}, "", {{"patch", fmt::format("Invalid value: \"{}\": {}", given.dump(), fault)}}), {}};
  }
  if (!fault.empty()) {
    return {bad_request(
                fmt::format("{0} in version \"{1}\" cannot be handled as a {0}: {2}", type.kind, type.version, fault)),
            {}};
  }
  Body out;
  if (validation == "Ignore") return out;
  for (const auto& text : decoded.strict) out.warnings.push_back(fmt::format("299 - {}", Json(text).dump()));
  return out;
}

}  // namespace qm::apiserver
