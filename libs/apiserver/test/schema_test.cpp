// Validation of custom objects by their schema. tests/contract checks the same with a real API server.
#include "qm/apiserver/schema.hpp"

#include <gtest/gtest.h>

namespace qm::apiserver {
namespace schema_test {

Json json(std::string_view text) {
  auto read = Json::parse(text);
  EXPECT_TRUE(read) << text;
  return read ? *read : Json();
}

const Json& schema() {
  static const Json all = json(R"({"type":"object","required":["spec"],"properties":{
    "apiVersion":{"type":"string"},"metadata":{"type":"object"},
    "spec":{"type":"object","required":["unit"],"properties":{
      "unit":{"type":"string","enum":["A","B"]},
      "name":{"type":"string","minLength":1,"maxLength":3,"pattern":"^[a-z]*$"},
      "percent":{"type":"integer","format":"int32","minimum":0,"maximum":100,"default":7},
      "amount":{"x-kubernetes-int-or-string":true},
      "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"known":{"type":"boolean"}}},
      "labels":{"type":"object","additionalProperties":{"type":"string"}},
      "items":{"type":"array","minItems":1,"maxItems":2,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["key"],
        "items":{"type":"object","properties":{"key":{"type":"string"},"effect":{"type":"string","default":"none"}}}}}}}})");
  return all;
}

/// "field: message" of each cause.
std::vector<std::string> causes(std::string_view spec) {
  Causes found;
  check_schema(schema(),
               json(R"({"apiVersion":"x/v1","kind":"X","metadata":{"name":"a"},"spec":)" + std::string(spec) + "}"),
               found);
  std::vector<std::string> out;
  for (const auto& cause : found) out.push_back(cause.field + ": " + cause.message);
  return out;
}
using Texts = std::vector<std::string>;

TEST(Schema, UnknownAndEqualFieldsAreRemovedWhereTheyAreNotKept) {
  Json object = json(R"({"kind":"X","metadata":{"labels":{"a":"b"}},"extra":1,"spec":{"unit":"A","nme":"x","unit":"B",
      "free":{"any":{"thing":1}},"labels":{"k":"v"},"items":[{"key":"a"},{"key":"b","efect":"x"}]}})");
  EXPECT_EQ(prune(schema(), object), (Texts{"unknown field \"extra\"", "unknown field \"spec.nme\"",
                                            "duplicate field \"spec.unit\"", "unknown field \"spec.items[1].efect\""}));
  EXPECT_EQ(object, json(R"({"kind":"X","metadata":{"labels":{"a":"b"}},"spec":{"unit":"B","free":{"any":{"thing":1}},
      "labels":{"k":"v"},"items":[{"key":"a"},{"key":"b"}]}})"));
}

TEST(Schema, DefaultsAreFilledIn) {
  Json object = json(R"({"spec":{"unit":"A","items":[{"key":"a"},{"key":"b","effect":"some"}]}})");
  set_schema_defaults(schema(), object);
  EXPECT_EQ(
      object,
      json(R"({"spec":{"unit":"A","percent":7,"items":[{"key":"a","effect":"none"},{"key":"b","effect":"some"}]}})"));
}

TEST(Schema, EachFaultIsACause) {
  EXPECT_EQ(causes(R"({"unit":"A","amount":1,"percent":100,"name":"abc","items":[{"key":"a"}]})"), Texts{});
  EXPECT_EQ(causes(R"({"unit":"A","amount":"1"})"), Texts{});
  EXPECT_EQ(causes("{}"), (Texts{"spec.unit: Required value"}));
  EXPECT_EQ(causes(R"({"unit":"C"})"), (Texts{R"(spec.unit: Unsupported value: "C": supported values: "A", "B")"}));
  EXPECT_EQ(
      causes(R"({"unit":"A","percent":"1"})"),
      (Texts{R"(spec.percent: Invalid value: "string": spec.percent in body must be of type integer: "string")"}));
  EXPECT_EQ(causes(R"({"unit":"A","percent":101})"),
            (Texts{"spec.percent: Invalid value: 101: spec.percent in body should be less than or equal to 100"}));
  EXPECT_EQ(causes(R"({"unit":"A","percent":-1})"),
            (Texts{"spec.percent: Invalid value: -1: spec.percent in body should be greater than or equal to 0"}));
  EXPECT_EQ(causes(R"({"unit":"A","name":""})"),
            (Texts{R"(spec.name: Invalid value: "": spec.name in body should be at least 1 chars long)"}));
  EXPECT_EQ(causes(R"({"unit":"A","name":"abcd"})"), (Texts{"spec.name: Too long: may not be more than 3 bytes"}));
  EXPECT_EQ(causes(R"({"unit":"A","name":"A"})"),
            (Texts{R"(spec.name: Invalid value: "A": spec.name in body should match '^[a-z]*$')"}));
  EXPECT_EQ(causes(R"({"unit":"A","amount":[]})").size(), 1U);
  EXPECT_EQ(causes(R"({"unit":"A","free":{"known":"yes","other":1}})").size(), 1U);
  EXPECT_EQ(causes(R"({"unit":"A","labels":{"a":1}})").size(), 1U);
  EXPECT_EQ(causes(R"({"unit":"A","items":[]})").size(), 1U);
  EXPECT_EQ(causes(R"({"unit":"A","items":[{"key":"a"},{"key":"b"},{"key":"c"}]})").size(), 1U);
  EXPECT_EQ(causes(R"({"unit":"A","items":[{"key":"a"},{"key":"a"}]})"),
            (Texts{R"(spec.items[1]: Duplicate value: {"key":"a"})"}));
}

}  // namespace schema_test
}  // namespace qm::apiserver
