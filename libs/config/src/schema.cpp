#include "schema.hpp"

namespace qm::config::schema {
namespace {

Json of_type(std::string_view type) { return Json::object({{"type", type}}); }

Json int_or_string(std::string_view expression) {
  return Json::object({{"x-kubernetes-int-or-string", true}, {"minimum", 0}, {"pattern", expression}});
}

}  // namespace

Json anything() { return Json::object({{"x-kubernetes-preserve-unknown-fields", true}}); }

Json text(int least_length) {
  Json out = of_type("string");
  if (least_length > 0) out.set("minLength", least_length);
  return out;
}

Json pattern(std::string_view expression) { return of_type("string").set("pattern", expression); }

Json integer(std::int64_t least, std::int64_t most) {
  return of_type("integer").set("format", "int64").set("minimum", least).set("maximum", most);
}

Json boolean() { return of_type("boolean"); }

Json one_of(const std::vector<std::string>& allowed) {
  Json words = Json::array();
  for (const std::string& word : allowed) words.push_back(word);
  return of_type("string").set("enum", std::move(words));
}

Json quantity() { return int_or_string(R"(^[0-9]*\.?[0-9]+([eE][-+]?[0-9]+|[numkMGTPE]|[KMGTPE]i)?$)"); }

Json money() { return int_or_string(R"(^[0-9]+(\.[0-9]{1,9})?$)"); }

Json duration(bool never) {
  const std::string go = R"(0|([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)";
  return pattern(never ? "^(Never|" + go + ")$" : "^(" + go + ")$");
}

Json object(Json properties, Json required) {
  Json out = of_type("object");
  if (required.size() > 0) out.set("required", std::move(required));
  if (properties.size() > 0) out.set("properties", std::move(properties));
  return out;
}

Json map_of(Json values) { return of_type("object").set("additionalProperties", std::move(values)); }

Json list_of(Json items) { return of_type("array").set("items", std::move(items)); }

Json described(std::string_view text, Json schema) {
  Json out = Json::object({{"description", text}});
  for (const auto& [key, value] : schema.members()) out.set(key, value);
  return out;
}

Json ruled(std::string_view rule, std::string_view message, Json schema) {
  schema.set("x-kubernetes-validations").push_back(Json::object({{"rule", rule}, {"message", message}}));
  return schema;
}

}  // namespace qm::config::schema
