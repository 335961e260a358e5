#include "qm/config/manifest.hpp"
#include "src/table.hpp"
#include "src/yaml.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace qm::cli {
namespace format_test {

TEST(TableText, ColumnsAlignAndNothingTrails) {
  Table table({{"NAME"}, {"GPUS", true}, {"REASON"}});
  table.row({"a", "128", ""});
  table.row({"größer", "8", "two\nlines\x1b[2J"});
  EXPECT_EQ(table.text(),
            "NAME    GPUS  REASON\n"
            "a        128  -\n"
            "größer     8  two lines [2J\n");
}

Json example() {
  return Json::object(
      {{"name", "train"},
       {"empty", ""},
       {"number", "12"},
       {"yes", "yes"},
       {"date", "2026-11-21"},
       {"text", "a: b # c"},
       {"count", 3},
       {"none", nullptr},
       {"on", true},
       {"list", Json::array({1, "b", Json::object({{"k", "v"}, {"deep", Json::array({Json::array({1, 2})})}})})},
       {"map", Json::object({{"a/b", Json::object({{"x", 1.5}})}})},
       {"nothing", Json::object()},
       {"noitems", Json::array()}});
}

TEST(YamlText, IsBlockStyleWithQuotesWhereTheyMatter) {
  EXPECT_EQ(to_yaml(example()),
            "name: train\n"
            "empty: \"\"\n"
            "number: \"12\"\n"
            "\"yes\": \"yes\"\n"
            "date: \"2026-11-21\"\n"
            "text: \"a: b # c\"\n"
            "count: 3\n"
            "none: null\n"
            "\"on\": true\n"
            "list:\n"
            "- 1\n"
            "- b\n"
            "- k: v\n"
            "  deep:\n"
            "  -\n"
            "    - 1\n"
            "    - 2\n"
            "map:\n"
            "  a/b:\n"
            "    x: 1.5\n"
            "nothing: {}\n"
            "noitems: []\n");
  EXPECT_EQ(to_yaml(Json("x")), "x\n");
}

/// Parses it with our own YAML reader. An object of an unknown kind is kept whole.
Json read_back(const Json& value) {
  const auto loaded = config::load_text(
      to_yaml(Json::object({{"apiVersion", "example.com/v1"}, {"kind", "Carried"}, {"value", value}})), "t");
  if (!loaded.ok() || loaded.objects.size() != 1) return "not read";
  return loaded.objects[0].document.content["value"];
}

TEST(YamlText, ReadsBackAsTheSameValue) { EXPECT_EQ(read_back(example()), example()); }

RC_GTEST_PROP(YamlProp, AnyStringReadsBack, ()) {
  const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>(0x20, 0x7f));
  RC_ASSERT(read_back(Json(text)) == Json(text));
  RC_ASSERT(read_back(Json::object({{"k" + text, 1}})) == Json::object({{"k" + text, 1}}));
}

}  // namespace format_test
}  // namespace qm::cli
