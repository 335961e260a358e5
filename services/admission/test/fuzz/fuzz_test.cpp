// Every fuzz target with valid inputs that are corrupted, a bounded number of times and in the same way in each run.
#include "targets.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace qm::admission::fuzz {
namespace fuzz_test {

constexpr int kRuns = 20'000;

/// Words that replace a part of the input or are inserted.
constexpr std::string_view kWords[] = {
    "null",      "{}",   "[]",       "\"\"",     "-1",      "1e400", "9223372036854775808",
    "\"9Ei\"",   "true", "\n---\n",  ": ",       "- ",      "&a",    "*a",
    "!!binary ", "\xff", "\xc3\x28", "metadata", "{\"a\":", "kind",  "\x12\x7f"};
/// Texts that replace a text, so that JSON stays valid.
constexpr std::string_view kTexts[] = {"",          "u1",
                                       "u2",        "q",
                                       "team",      "-1",
                                       "1",         "99999999999999999999",
                                       "1e9",       "0.5",
                                       "9Ei",       "2026-02-30T25:00:00Z",
                                       "Succeeded", "nvidia.com/gpu",
                                       "true",      "a/b/c"};

std::string damaged(const std::vector<std::string>& seeds, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random() % n); };
  auto out = seeds[below(seeds.size())];
  for (auto wounds = below(6); wounds > 0; --wounds) {
    const auto at = below(out.size());
    switch (below(8)) {
      case 0:
        if (!out.empty()) out[at] = static_cast<char>(below(256));
        break;
      case 1:
        if (!out.empty()) out[at] = static_cast<char>(out[at] ^ (1 << below(8)));
        break;
      case 2:
        out.resize(at);
        break;
      case 3:
        out.erase(at, below(40));
        break;
      case 4:
        out.insert(at, kWords[below(std::size(kWords))]);
        break;
      case 5:
        out.insert(at, out.substr(below(out.size()), below(200)));
        break;
      case 6: {  // replaces a quoted text
        const auto open = out.find('"', at);
        const auto close = open == std::string::npos ? open : out.find('"', open + 1);
        if (close == std::string::npos) break;
        out.replace(open + 1, close - open - 1, kTexts[below(std::size(kTexts))]);
        break;
      }
      default: {  // joins the start of this input and the end of another
        const auto& other = seeds[below(seeds.size())];
        out = out.substr(0, at) + other.substr(below(other.size()));
      }
    }
  }
  return out;
}

void run(std::string_view name) {
  const auto all = targets();
  const auto target = std::ranges::find(all, name, &Target::name);
  ASSERT_NE(target, all.end());
  const auto seeds = target->seeds();
  ASSERT_GE(seeds.size(), 2U);
  for (const auto& seed : seeds) EXPECT_TRUE(target->feed(seed)) << "refused as it is: " << seed;
  std::mt19937_64 random(2'026);
  for (int i = 0; i < kRuns; ++i) target->feed(damaged(seeds, random));
}

TEST(Fuzz, Manifests) { run("manifest"); }
TEST(Fuzz, Reviews) { run("review"); }
TEST(Fuzz, Inputs) { run("input"); }

}  // namespace fuzz_test
}  // namespace qm::admission::fuzz
