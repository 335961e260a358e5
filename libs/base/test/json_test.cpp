#include "qm/base/json.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm {
namespace json_test {

Json parsed(std::string_view text) {
  auto value = Json::parse(text);
  EXPECT_TRUE(value) << text;
  return value ? *value : Json();
}

TEST(Json, ReadsChangesAndWrites) {
  Json pod = parsed(R"({"metadata":{"name":"a","labels":{"x":"1"}},"spec":{"n":3,"f":1.5,"on":true,"none":null}})");
  EXPECT_EQ(pod.path("metadata.labels.x").string(), "1");
  EXPECT_EQ(pod["spec"]["n"].integer(), 3);
  EXPECT_EQ(pod["spec"]["missing"]["deeper"].string(), "");
  EXPECT_TRUE(pod.path("spec.none").is_null());
  pod.set("metadata").set("name", "b");
  EXPECT_TRUE(pod.set("spec").erase("none"));
  EXPECT_EQ(pod.dump(), R"({"metadata":{"name":"b","labels":{"x":"1"}},"spec":{"n":3,"f":1.5,"on":true}})");
  EXPECT_EQ(parsed(pod.pretty()), pod);
}

TEST(Json, MergePatchFollowsRfc7386) {
  struct Case {
    const char *target, *patch, *result;
  };
  for (const auto& c :
       {Case{R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
        Case{R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
        Case{R"({"a":["b"]})", R"({"a":"c"})", R"({"a":"c"})"},
        Case{R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})", R"({"a":{"b":"d"}})"},
        Case{R"({"a":"foo"})", R"("bar")", R"("bar")"}, Case{R"([1,2])", R"({"a":"b","c":null})", R"({"a":"b"})"},
        Case{R"({})", R"({"a":{"bb":{"ccc":null}}})", R"({"a":{"bb":{}}})"}}) {
    Json target = parsed(c.target);
    target.merge_patch(parsed(c.patch));
    EXPECT_EQ(target, parsed(c.result)) << c.target << " + " << c.patch;
  }
}

TEST(Json, RefusesWhatIsNoJsonAndTooDeep) {
  for (const char* bad : {"", "{", "{\"a\":}", "nul", "[1,]", "\"\\ud800\""}) EXPECT_FALSE(Json::parse(bad)) << bad;
  EXPECT_TRUE(Json::parse(std::string(64, '[') + std::string(64, ']')));
  const auto deep = Json::parse(std::string(65, '[') + std::string(65, ']'));
  ASSERT_FALSE(deep);
  EXPECT_EQ(deep.error().message, "JSON is nested deeper than 64 levels");
}

TEST(Json, EscapesAndRepairsText) {
  std::string out;
  append_json_string(out, "a\"\\\n\x01\xff\xc3\xa9");
  EXPECT_EQ(out, "\"a\\\"\\\\\\n\\u0001\xef\xbf\xbd\xc3\xa9\"");
}

TEST(Json, IntegersStayIntegers) {
  EXPECT_EQ(parsed("9223372036854775807").integer(), INT64_MAX);
  EXPECT_EQ(parsed("9223372036854775807").dump(), "9223372036854775807");
  EXPECT_EQ(parsed("1.0").dump(), "1");
  EXPECT_EQ(parsed("1"), parsed("1.0"));
}

RC_GTEST_PROP(JsonProp, ReadsWhatItWrites,
              (const std::map<std::string, std::vector<std::int64_t>>& content, const std::string& text)) {
  Json value = Json::object();
  for (const auto& [key, numbers] : content) {
    Json list = Json::array();
    for (const auto n : numbers) list.push_back(n);
    value.set(key, list);
  }
  value.set("text", text);
  const std::string once = value.dump();
  RC_ASSERT(Json::parse(once)->dump() == once);
}

TEST(Json, ParsedBytesAreThoseOfEveryTextAlsoOfInvalidOnes) {
  const auto before = Json::parsed_bytes();
  ASSERT_TRUE(Json::parse(R"({"kind":"Pod"})"));
  ASSERT_FALSE(Json::parse("{"));
  EXPECT_EQ(Json::parsed_bytes() - before, 15);
}

}  // namespace json_test
}  // namespace qm
