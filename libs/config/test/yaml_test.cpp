// The text layer: scalars, lines, aliases and bounds, tested through load_text.
#include "qm/config/manifest.hpp"

#include <gtest/gtest.h>

#include <ctime>

namespace qm::config {
namespace yaml_test {

std::string only_error(std::string_view text) {
  const Loaded loaded = load_text(text, "f.yaml");
  EXPECT_TRUE(loaded.objects.empty());
  std::string out;
  for (const Diagnostic& diagnostic : loaded.diagnostics) {
    if (diagnostic.severity == Diagnostic::Severity::kError) out += (out.empty() ? "" : "\n") + diagnostic.to_string();
  }
  return out;
}

Json content(std::string_view text) {
  const Loaded loaded = load_text(text, "f.yaml");
  EXPECT_TRUE(loaded.ok()) << loaded.diagnostics[0].to_string();
  return loaded.objects.size() == 1 ? loaded.objects[0].document.content : Json();
}

TEST(Yaml, ScalarsAreTypedAsKubernetesDoes) {
  const std::vector<std::pair<const char*, Json>> rows{{"5", 5},
                                                       {"-5", -5},
                                                       {"+5", 5},
                                                       {"0", 0},
                                                       {"0644", 420},
                                                       {"0x1F", 31},
                                                       {"0o17", 15},
                                                       {"0b101", 5},
                                                       {"089", 89.0},
                                                       {"1.5", 1.5},
                                                       {"-.5", -0.5},
                                                       {"1e3", 1000.0},
                                                       {"9223372036854775807", std::int64_t{9223372036854775807}},
                                                       {"-9223372036854775808", std::int64_t{-9223372036854775807} - 1},
                                                       {"18446744073709551616", 18446744073709551616.0},
                                                       {"true", true},
                                                       {"yes", true},
                                                       {"On", true},
                                                       {"false", false},
                                                       {"no", false},
                                                       {"OFF", false},
                                                       {"~", nullptr},
                                                       {"null", nullptr},
                                                       {"\"\"", ""},
                                                       {"'5'", "5"},
                                                       {"\"true\"", "true"},
                                                       {"!!str 5", "5"},
                                                       {"8Gi", "8Gi"},
                                                       {"1.2.3", "1.2.3"},
                                                       {"720h", "720h"},
                                                       {"2026-11-21", "2026-11-21"},
                                                       {"e5", "e5"},
                                                       {"n", false},
                                                       {"Y", true},
                                                       {"+", "+"},
                                                       {"1_000", 1000},
                                                       {"a_1", "a_1"},
                                                       {".", "."},
                                                       {".inf", ".inf"},
                                                       {"nan", "nan"},
                                                       {"'0 0 * * *'", "0 0 * * *"}};
  for (const auto& [text, value] : rows) {
    const Json got = content(fmt::format("kind: X\nv: {}\n", text))["v"];
    EXPECT_EQ(got, value) << text << " gave " << got.dump();
    EXPECT_EQ(got.is_int(), value.is_int()) << text;
  }
}

TEST(Yaml, KeepsLinesAndOrder) {
  const Loaded loaded = load_text("# head\nkind: A\nb: 1\na:\n- x\n- y: 2\n\n---\n\n---\nkind: B\n", "f.yaml");
  ASSERT_EQ(loaded.objects.size(), 2u) << "an empty document is none";
  const Document& first = loaded.objects[0].document;
  EXPECT_EQ(first.line, 2);
  EXPECT_EQ(first.content.dump(), R"({"kind":"A","b":1,"a":["x",{"y":2}]})");
  EXPECT_EQ(first.lines.at("b"), 3);
  EXPECT_EQ(first.lines.at("a"), 4);
  EXPECT_EQ(first.lines.at("a[0]"), 5);
  EXPECT_EQ(first.lines.at("a[1]"), 6);
  EXPECT_EQ(first.lines.at("a[1].y"), 6);
  EXPECT_EQ(loaded.objects[1].document.line, 11);
  EXPECT_TRUE(load_text("", "f.yaml").objects.empty());
  EXPECT_TRUE(load_text("# nothing\n", "f.yaml").ok());
}

TEST(Yaml, ReadsJsonToo) {
  EXPECT_EQ(content("{\n\t\"kind\": \"X\",\n\t\"v\": [1, -2.5, \"a\\u00e9\\/\\n\", null, true]\n}\n")["v"].dump(),
            "[1,-2.5,\"aé/\\n\",null,true]");
}

// JSON in one line has a parser of its own; the results must be equal.
TEST(Yaml, JsonInOneLineReadsAsSpreadOverMany) {
  for (const char* line :
       {R"({"a":"yes","b":"0644","c":"<<","<<":{"d":"null"},"e":"\u00e9\n\t\"\\","":1,"f":"2026-01-02"})",
        R"({"a":-0,"b":1.0,"c":1e3,"d":9223372036854775807,"e":-9223372036854775808,"f":18446744073709551615,"g":0.1})",
        R"({"a":[],"b":{},"c":[[],[{}],null,true,false],"d":[1,"1",{"e":[2]}]})", R"({})",
        R"({"a":{"a":{"a":"a"}}})"}) {
    const auto read = content(line);
    EXPECT_EQ(read, content(" " + std::string(line))) << line;
    EXPECT_EQ(read, content(Json::parse(line)->pretty())) << line;
  }
  // With a leading blank it is parsed as any file.
  const auto reported = [](const std::string& text) {
    std::string out;
    for (const auto& diagnostic : load_text(text, "f.yaml").diagnostics) out += diagnostic.to_string() + "\n";
    return out;
  };
  std::string deep = "1";
  for (int i = 0; i < 64; ++i) deep = "{\"a\":" + deep + "}";
  for (const auto& line : {std::string(R"({"a":1,"a":2})"), std::string(R"({"a":{"b":1,"b":[2]}})"),
                           std::string(R"({"a":1)"), std::string(R"({"a":"\x"} {"b":2})"), deep, "{\"a\":" + deep + "}",
                           std::string(R"({"apiVersion":"batch/v1","kind":"Job","spec":{"parallelism":"many"}})")}) {
    EXPECT_EQ(reported(line), reported(" " + line)) << line;
  }
  EXPECT_NE(reported("{\"a\":" + deep + "}").find("deeper"), std::string::npos);
}

TEST(Yaml, AListIsItsItems) {
  const Loaded loaded = load_text(
      "apiVersion: v1\nkind: List\nitems:\n- apiVersion: scheduling.k8s.io/v1\n  kind: PriorityClass\n  metadata: {name: a}\n"
      "  value: 1\n- apiVersion: scheduling.k8s.io/v1\n  kind: PriorityClass\n  metadata: {name: b}\n  value: x\n",
      "f.yaml");
  ASSERT_EQ(loaded.objects.size(), 1u);
  EXPECT_EQ(loaded.objects[0].document.name, "a");
  ASSERT_EQ(loaded.diagnostics.size(), 1u);
  EXPECT_EQ(loaded.diagnostics[0].line, 11);
  EXPECT_EQ(loaded.diagnostics[0].field, "value");
}

TEST(Yaml, AliasesAndMergeKeys) {
  const Json value = content(
      "kind: X\nbase: &b {x: 1, y: 2}\nsame: *b\nmore:\n  y: 9\n  <<: *b\n  z: 3\nlist:\n  <<: [*b, {x: 5, w: 6}]\n");
  EXPECT_EQ(value["same"].dump(), R"({"x":1,"y":2})");
  EXPECT_EQ(value["more"].dump(), R"({"y":9,"z":3,"x":1})");
  EXPECT_EQ(value["list"].dump(), R"({"x":1,"y":2,"w":6})");
  EXPECT_EQ(content("kind: &k X\n*k : 5\n")["X"].integer(), 5);
}

TEST(Yaml, ErrorsNameTheLine) {
  EXPECT_EQ(only_error("kind: X\na: 1\nb: 2\na: 3\n"), "f.yaml:4: a: given twice, first on line 2; keep one of them");
  EXPECT_EQ(
      only_error("kind: X\na: [1, 2\nb: 3\n"),
      "f.yaml:3: not valid YAML: end of sequence flow not found; check indentation, quotes and brackets near here");
  EXPECT_EQ(
      only_error("kind: X\na: *none\n"),
      "f.yaml:2: not valid YAML: the referenced anchor is not defined; check indentation, quotes and brackets near here");
  EXPECT_EQ(only_error("kind: X\n? [a, b]\n: 1\n"),
            "f.yaml:2: a key is a list or a map; quote keys that hold brackets or braces");
  EXPECT_EQ(only_error("kind: X\na: &a [1, *a]\n"),
            "f.yaml:2: a[1]: an alias is inside the node that it names; write the value out");
  EXPECT_EQ(only_error("kind: X\na:\n  <<: 5\n"),
            "f.yaml:3: a.<<: \"<<\" needs a map or a list of maps; name an anchor of a map");
  EXPECT_EQ(only_error("kind: X\nm: &m {a: 1}\n*m : 1\n"), "f.yaml:3: a key is not a string; quote it");
}

TEST(Yaml, WhatPrecedesAnErrorIsRead) {
  const Loaded loaded = load_text("kind: A\n---\nkind: B\nx: [\n", "f.yaml");
  ASSERT_EQ(loaded.objects.size(), 1u);
  EXPECT_EQ(loaded.objects[0].document.kind, "A");
  EXPECT_FALSE(loaded.ok());
}

TEST(YamlBounds, AreTakenExactly) {
  const auto nested = [](int depth) {
    return "k: " + std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(load_text(nested(63), "f.yaml").ok());
  EXPECT_EQ(only_error(nested(64)).substr(0, 9), "f.yaml:1:");
  EXPECT_NE(only_error(nested(64)).find("nested deeper than 64 levels; flatten the document"), std::string::npos);

  const auto aliases = [](int n) {
    std::string text = "a: &a 1\nb:\n";
    for (int i = 0; i < n; ++i) text += "- *a\n";
    return text;
  };
  EXPECT_TRUE(load_text(aliases(50), "f.yaml").ok());
  EXPECT_EQ(only_error(aliases(51)), "f.yaml:53: b[50]: more than 50 aliases; write the values out");

  const auto values = [](int n) {
    std::string text = "[";
    for (int i = 0; i < n; ++i) text += "1,";
    return text + "]";
  };
  EXPECT_TRUE(load_text(values(99'999), "f.yaml").ok());
  EXPECT_EQ(only_error(values(100'000)), "f.yaml:1: [99999]: more than 100000 values; split the file");

  const std::string mebibyte(1 << 20, '#');
  EXPECT_TRUE(load_text(mebibyte, "f.yaml").ok());
  EXPECT_EQ(only_error(mebibyte + "#"),
            "f.yaml:1: the file has 1048577 bytes, more than 1 MiB; split it into several files");
}

TEST(YamlBounds, GrowingTextsAreRefusedQuickly) {
  std::string laughs = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n";
  for (int i = 1; i < 9; ++i) {
    laughs += fmt::format("a{0}: &a{0} [", i);
    for (int j = 0; j < 5; ++j) laughs += fmt::format("*a{},", i - 1);
    laughs += "]\n";
  }
  std::string tower = "a0: &a0 [" + std::string(20, '[') + std::string(20, ']') + "]\n";
  for (int i = 1; i < 9; ++i) tower += fmt::format("a{0}: &a{0} [*a{1}]\n", i, i - 1);
  tower = "x: " + std::string(45, '[') + "&d " + std::string(15, '[') + std::string(60, ']') +
          "\ny: [[[[[[[*d]]]]]]]\n" + tower;
  std::string deep_alias = "a: &a " + std::string(40, '[') + std::string(40, ']') + "\nb: " + std::string(40, '[') +
                           "*a" + std::string(40, ']');
  const std::clock_t start = std::clock();
  EXPECT_NE(only_error(laughs).find("more than"), std::string::npos);
  EXPECT_NE(only_error(deep_alias).find("nested deeper than 64"), std::string::npos);
  EXPECT_TRUE(load_text(tower, "f.yaml").ok()) << "aliases of modest height are fine";
  for (const char* open : {"[", "{", "- ", "? ", "a: {"}) {
    std::string text;
    while (text.size() < (1 << 20) - 8) text += open;
    EXPECT_FALSE(only_error(text).empty()) << open;
  }
  // A long key above many values: their lines are not worth a gigabyte of paths.
  std::string wide = std::string(1000, 'k') + ":\n";
  for (int i = 0; i < 50'000; ++i) wide += "- 1\n";
  EXPECT_TRUE(load_text(wide, "f.yaml").ok());
  // Processor time, so that other load on the host does not count.
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 30);
}

TEST(LoadPath, ReportsWhatCannotBeRead) {
  const Loaded loaded = load_path("/no/such/file.yaml");
  ASSERT_EQ(loaded.diagnostics.size(), 1u);
  EXPECT_EQ(loaded.diagnostics[0].to_string(),
            "/no/such/file.yaml:1: cannot be read; check the path and its permissions");
}

}  // namespace yaml_test
}  // namespace qm::config
