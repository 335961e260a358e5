// Limits for classes, headers and folders of services, and the rule itself.
#include "limits.hpp"

#include <gtest/gtest.h>

namespace qm::tidy {
namespace limits_test {

TEST(Limits, ServicesKeepThem) {
  for (const Finding& f : beyond_limits(tree(), limit_exceptions())) ADD_FAILURE() << f.to_string();
}

TEST(Limits, ExceptionsGiveAReason) {
  for (const auto& e : limit_exceptions()) EXPECT_NE(e.reason, "") << e.place;
}

TEST(Limits, MemberFunctionsOfEachClassAreCounted) {
  const auto sizes = class_sizes(make_file("services/cost/include/qm/cost/a.hpp", R"(#pragma once
namespace qm::cost {
int free_function(int x);
/// A comment (with parentheses).
template <class T>
class Ledger final : public Base<T> {
 public:
  explicit Ledger(int size) : size_(size) {}
  ~Ledger();
  Ledger& operator=(const Ledger&) = default;
  friend bool operator==(const Ledger&, const Ledger&) = default;
  [[nodiscard]] int add(int line);
  [[nodiscard]] int add(int line, int amount) const { return add(line) + amount; }
  template <class Fn>
  void each(Fn&& fn);
  struct Row {
    int amount = sum(1);
    int twice() const { return 2 * amount; }
  };

 private:
  static bool valid(const Row& row);
  std::function<void(int)> hook_;
  int size_ = 0;
};
enum class Kind { kOne };
class Forward;
}  // namespace qm::cost
)"));
  ASSERT_EQ(sizes.size(), 2U);
  EXPECT_EQ(sizes[0].name, "Ledger");
  EXPECT_EQ(sizes[0].methods, 4U);  // add twice, each, valid
  EXPECT_EQ(sizes[0].line, 6U);
  EXPECT_EQ(sizes[1].name, "Row");
  EXPECT_EQ(sizes[1].methods, 1U);
}

std::string class_of(std::size_t methods) {
  std::string text = "#pragma once\nclass Large {\n";
  for (std::size_t i = 0; i < methods; ++i) text += "  void f();\n";
  return text + "};\n";
}

TEST(Limits, EachLimitFindsItsFault) {
  const auto found = [](std::string path, std::string text) {
    return beyond_limits({make_file(std::move(path), text)}, {});
  };
  EXPECT_TRUE(found("services/cost/include/qm/cost/a.hpp", class_of(kMostMethods)).empty());
  const auto large = found("services/cost/include/qm/cost/a.hpp", class_of(kMostMethods + 1));
  ASSERT_EQ(large.size(), 1U);
  EXPECT_EQ(large[0].line, 2U);
  EXPECT_TRUE(found("libs/base/include/qm/base/a.hpp", class_of(kMostMethods + 1)).empty()) << "services only";
  EXPECT_TRUE(found("services/cost/test/engine/a_test.cpp", class_of(kMostMethods + 1)).empty()) << "not tests";

  const std::string filled(kMostHeaderLines, '\n');
  EXPECT_EQ(found("services/cost/include/qm/cost/a.hpp", class_of(1) + filled).size(), 1U);
  EXPECT_TRUE(found("services/cost/include/qm/cost/a.hpp", "#pragma once\nint f();\n" + filled).empty());
  EXPECT_TRUE(found("services/cost/src/engine/a.cpp", class_of(1) + filled).empty());
}

TEST(Limits, AFolderHasFewFiles) {
  std::vector<SourceFile> files;
  for (std::size_t i = 0; i < kMostFiles; ++i) {
    files.push_back(make_file("services/cost/src/engine/a" + std::to_string(i) + ".cpp", "int x;\n"));
  }
  EXPECT_TRUE(beyond_limits(files, {}).empty());
  files.push_back(make_file("services/cost/src/engine/sub/b.cpp", "int x;\n"));
  EXPECT_TRUE(beyond_limits(files, {}).empty());
  files.push_back(make_file("services/cost/src/engine/b.hpp", "#pragma once\n"));
  ASSERT_EQ(beyond_limits(files, {}).size(), 1U);
  EXPECT_EQ(beyond_limits(files, {})[0].path, "services/cost/src/engine");
  EXPECT_TRUE(beyond_limits(files, {{"services/cost/src/engine", "for now"}}).empty());
}

TEST(Limits, AnExceptionThatNothingNeedsIsFound) {
  const auto found = beyond_limits({}, {{"services/cost/src/engine", "for now"}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].path, "services/cost/src/engine");
}

}  // namespace limits_test
}  // namespace qm::tidy
