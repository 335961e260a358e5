// Mistakes of a first day: each file is refused before anything is sent, with its file and line, the field and a
// remedy, or accepted as Kubernetes and Kueue accept it. The expected result follows from the rules of this test.
#include "fake_suite.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

namespace qm::cli {
namespace first_day_test {

/// An invalid line of a manifest, and the field that the refusal must name.
struct Mistake {
  const char* line;  ///< a regular expression for the text after the indent
  const char* field;
};
constexpr Mistake kMistakes[] = {{"apiVersion: (batch/v2|.*/v1beta3)", "apiVersion"},
                                 {"kind: Jobb", "kind"},
                                 {"name: [a-z]{64,}", "metadata.name"},
                                 {"name: .*[A-Z_].*", "metadata.name"},
                                 {"metadata: .*name: [A-Z].*", "metadata.name"},
                                 {"name: [a-z]*[^ -~].*", "metadata.name"},
                                 {"paralelism: .*", "spec.paralelism"},
                                 {"namespaceSelecter: .*", "spec.namespaceSelecter"},
                                 {"parallelism: \".*", "spec.parallelism"},
                                 {"queueingStrategy: FIFO", "spec.queueingStrategy"},
                                 {".*nominalQuota: (-|\"?[0-9]{19,}|[0-9]+GB).*", "nominalQuota"},
                                 {".*nvidia.com/gpu: (-|\"?0\\.5|[0-9]{12,}).*", "nvidia.com/gpu"},
                                 {".*nvidia.com/gpus: .*", "nvidia.com/gpus"},
                                 {".*memory: \"?[0-9]+GB.*", "memory"},
                                 {"limits: \\{\\}", "nvidia.com/gpu"},
                                 {"limits: \\{nvidia.com/gpu: 2\\}", "nvidia.com/gpu"},
                                 {".*lendingLimit: .*", "resources"}};

struct Line {
  int number;
  std::string text;
};
std::vector<Line> lines_of(const std::string& text) {
  std::vector<Line> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const auto from = line.find_first_not_of(" -");
    out.push_back({static_cast<int>(out.size()) + 1, from == std::string::npos ? "" : line.substr(from)});
  }
  return out;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// True if the field has another name in the other API version.
bool is_of_other_version(const std::string& text) {
  return (has(text, "/v1beta1") && has(text, "cohortName:")) || (has(text, "/v1beta2") && has(text, " cohort:"));
}

class FirstDay : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto shared = testing::shared_dir();
    if (!shared) GTEST_SKIP() << testing::no_shared();
    for (const auto& entry : std::filesystem::directory_iterator(*shared + "/field/n-newuser"))
      files_.push_back(entry.path().string());
    std::ranges::sort(files_);
    ASSERT_GE(files_.size(), 39U);
  }
  std::vector<std::string> files_;
};

TEST_F(FirstDay, EachFileIsRefusedByNameOrAccepted) {
  std::size_t refused = 0;
  for (const auto& file : files_) {
    SCOPED_TRACE(file);
    FakeSuite suite;
    populate(suite.state);
    const auto text = testing::read_file(file);
    const bool queues = has(text, "kueue.x-k8s.io/v1");
    const auto ran = qmctl(suite, {queues ? "apply" : "submit", "-f", file});
    bool wrong = text.empty();
    for (const auto& [number, line] : lines_of(text)) {
      for (const auto& mistake : kMistakes) {
        if (!std::regex_match(line, std::regex(mistake.line))) continue;
        wrong = true;
        EXPECT_TRUE(has(ran.err, mistake.field)) << line << "\n" << ran.err;
        // A missing field of a Job is reported at the line of its counterpart.
        const bool here = has(ran.err, fmt::format("{}:{}: ", file, number));
        EXPECT_TRUE(here || line.starts_with("limits: ") || has(line, "lendingLimit")) << line << "\n" << ran.err;
      }
    }
    // The YAML parser refuses the rest: indentation, tabs, brackets and duplicate keys.
    const auto name = file.substr(file.rfind('/') + 1);
    wrong = wrong || is_of_other_version(text) || has(text, "\t") || !has(text, "\n") || name == "bad-indent.yaml" ||
            name == "bad.json" || name == "dupkey.yaml";
    if (!wrong) {
      EXPECT_EQ(ran.code, kDone) << ran.err;
      EXPECT_EQ(suite.state.applied.size() + suite.state.submitted.size(), 1U);
      continue;
    }
    ++refused;
    EXPECT_EQ(ran.code, text.empty() ? kUsage : kFailed) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(has(ran.err, file)) << ran.err;
    EXPECT_TRUE(text.empty() || std::regex_search(ran.err, std::regex(":[0-9]+: "))) << ran.err;
    const bool several = std::ranges::count(ran.err, ';') > 1;
    EXPECT_TRUE(has(ran.err, "remedy: ") || several) << ran.err;
    EXPECT_TRUE(suite.state.applied.empty() && suite.state.submitted.empty()) << "it was sent";
    // A limit that repeats a wrong request is not a second error.
    EXPECT_LE(std::ranges::count(ran.err, '\n'), 3) << ran.err;
    // `admit` refuses what `submit` refuses.
    EXPECT_NE(qmctl(suite, {"admit", "-f", file}).code, kDone);
  }
  EXPECT_GE(refused, 28U);
}

TEST_F(FirstDay, UnknownFieldsAreKeptWhereThatIsAskedFor) {
  for (const auto& file : files_) {
    const auto text = testing::read_file(file);
    if (!has(text, "paralelism") && !has(text, "namespaceSelecter")) continue;
    FakeSuite suite;
    populate(suite.state);
    const char* verb = has(text, "kind: Job") ? "submit" : "apply";
    const auto refused = qmctl(suite, {verb, "-f", file});
    EXPECT_TRUE(has(refused.err, "did you mean parallelism?") || has(refused.err, "did you mean namespaceSelector?"))
        << refused.err;
    EXPECT_TRUE(has(refused.err, "--allow-unknown")) << refused.err;
    EXPECT_EQ(qmctl(suite, {verb, "-f", file, "--allow-unknown"}).code, kDone);
  }
}

TEST(FirstDayNames, AreCheckedBeforeTheyAreSent) {
  FakeSuite suite;
  const std::vector<std::string> names{"Bad Name", "größe", std::string(64, 'a'), "a_b", "-a"};
  for (const auto& name : names) {
    const auto ran = qmctl(suite, {"submit", "--name=" + name, "--queue", "q"});
    EXPECT_EQ(ran.code, kFailed) << name << ran.err;
    EXPECT_TRUE(has(ran.err, "metadata.name")) << ran.err;
    EXPECT_TRUE(has(ran.err, "remedy: use at most 63 ")) << ran.err;
  }
  EXPECT_TRUE(suite.state.submitted.empty());
}

}  // namespace first_day_test
}  // namespace qm::cli
