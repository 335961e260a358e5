// Every function of a public header has a production caller, and a planted function without one is found.
#include "callers.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace qm::tidy {
namespace callers_test {

constexpr const char* kHeader = "libs/bus/include/qm/bus/a.hpp";

std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> out;
  for (const auto& one : declarations(make_file(kHeader, text))) out.push_back(one.name);
  return out;
}

std::vector<std::string> found(const std::vector<SourceFile>& files, const std::vector<Uncalled>& known = {}) {
  std::vector<std::string> out;
  for (const Finding& finding : uncalled(files, known)) out.push_back(finding.to_string());
  return out;
}

TEST(Callers, EveryFunctionOfAPublicHeaderHasAProductionCaller) {
  for (const Finding& finding : uncalled(tree(), known_uncalled())) ADD_FAILURE() << finding.to_string();
}

TEST(Callers, ExceptionsAreFewAndHaveAReason) {
  EXPECT_LE(known_uncalled().size(), 20U);
  for (const Uncalled& one : known_uncalled()) EXPECT_GT(one.reason.size(), 20U) << one.header;
}

TEST(Callers, ReadsDeclarations) {
  EXPECT_EQ(names_of("#pragma once\n"
                     "#define MACRO(x) hidden_in_macro(x)\n"
                     "namespace qm {\n"
                     "/// a_comment(x)\n"
                     "[[nodiscard]] std::map<int, std::function<int(int)>> plain(int a, int b = other(3));\n"
                     "template <class T, int N = 1'000>\n"
                     "Result<T> generic(const T& value) { return called_inside(value); }\n"
                     "inline constexpr auto kValue = initial(\"text(\");\n"
                     "enum class Kind : std::uint8_t { kOne, kTwo };\n"
                     "class A final : public B {\n"
                     "  void hidden();\n"
                     " public:\n"
                     "  explicit A(int x) : x_(x), y_{x} {}\n"
                     "  ~A() override;\n"
                     "  A(const A&) = delete;\n"
                     "  void first() noexcept;\n"
                     "  [[nodiscard]] bool second() const { return x_ < 3; }\n"
                     "  void inherited(int) override;\n"
                     "  virtual int third(std::function<void()> f) = 0;\n"
                     "  bool operator==(const A&) const = default;\n"
                     "  friend bool known(const A&);\n"
                     "  struct Inner {\n"
                     "    int fourth() const;\n"
                     "    int x = computed(1), y{2};\n"
                     "  };\n"
                     " private:\n"
                     "  struct Secret {\n"
                     "    void hidden_too();\n"
                     "  };\n"
                     "  std::function<void(int)> handler_;\n"
                     "};\n"
                     "}  // namespace qm\n"),
            (std::vector<std::string>{"plain", "generic", "first", "second", "third", "fourth"}));
}

// A function that only a test, a benchmark and a replay program call.
TEST(Callers, FindsAFunctionWithoutAProductionCaller) {
  std::vector<SourceFile> files = {
      make_file(kHeader, "#pragma once\nint used();\nint unused();\n"),
      make_file("libs/bus/src/a.cpp",
                "#include \"qm/bus/a.hpp\"\n// calls unused()\nint used() {\n  return text(\"unused()\");\n}\n"
                "int unused() {\n  return unused();\n}\n"),
      make_file("libs/bus/test/a_test.cpp", "int x = unused();\n"),
      make_file("bench/bus/a.cpp", "int x = unused();\n"),
      make_file("services/admission/vectors/a.cpp", "int x = unused();\n"),
      make_file("services/cost/src/shell/b.cpp", "#include \"qm/bus/a.hpp\"\nvoid f() {\n  used();\n}\n"),
  };
  const std::string message = std::string(kHeader) + ":3: no production code calls unused; delete it with its tests";
  EXPECT_EQ(found(files), std::vector<std::string>{message});
  EXPECT_TRUE(found(files, {{kHeader, {"unused"}, "a reason"}}).empty());
  EXPECT_TRUE(found(files, {{kHeader, {}, "a reason"}}).empty());
  files.push_back(make_file("demo/driver/src/a.cpp", "int g() { return unused(); }\n"));
  EXPECT_TRUE(found(files).empty());
}

TEST(Callers, FindsAHeaderThatOnlyItsOwnSourceIncludes) {
  std::vector<SourceFile> files = {
      make_file(kHeader, "#pragma once\nstruct A {};\n"),
      make_file("libs/bus/src/a.cpp", "#include \"qm/bus/a.hpp\"\n"),
      make_file("libs/bus/test/b_test.cpp", "#include \"qm/bus/a.hpp\"\n"),
  };
  ASSERT_EQ(found(files).size(), 1U);
  EXPECT_NE(found(files)[0].find("no production code includes this header"), std::string::npos);
  files.push_back(make_file("libs/bus/src/b.cpp", "#include \"qm/bus/a.hpp\"\n"));
  EXPECT_TRUE(found(files).empty());
}

TEST(Callers, FindsAnExceptionThatIsNotNeeded) {
  const std::vector<SourceFile> files = {
      make_file(kHeader, "#pragma once\nint used();\n"),
      make_file("libs/bus/src/b.cpp", "#include \"qm/bus/a.hpp\"\nint f() { return used(); }\n"),
  };
  EXPECT_EQ(found(files, {{kHeader, {"used"}, "a reason"}}),
            std::vector<std::string>{std::string(kHeader) + ": the exception \"used\" is not needed"});
}

}  // namespace callers_test
}  // namespace qm::tidy
