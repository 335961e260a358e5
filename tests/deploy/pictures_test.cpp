// The pictures of the README, rendered by a browser: each text is readable, inside of its box and inside of the picture.
#include "qm/testing/testing.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace qm {
namespace pictures_test {

const std::string kRoot = QM_SOURCE_DIR;

/// Paths of the pictures that the page shows, from the root of the tree.
std::vector<std::string> pictures_of(const std::string& page) {
  const std::string text = testing::read_file(kRoot + "/" + page);
  static const std::regex kImage(R"rx((?:src="|!\[[^\]]*\]\()([^")]+\.svg))rx");
  std::vector<std::string> out;
  for (std::sregex_iterator it(text.begin(), text.end(), kImage), end; it != end; ++it) out.push_back((*it)[1]);
  return out;
}

/// A page with the picture and a script that prints a line for each text that is not readable, and their number at the end.
/// Tolerance: one pixel, since fonts differ.
std::string page_of(const std::string& svg) {
  return "<!doctype html><meta charset=utf-8><body>" + svg + R"(<pre id=result></pre><script>
    const out = [], svg = document.querySelector('svg'), all = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
    const boxes = [...svg.querySelectorAll('rect')].map(r => r.getBoundingClientRect());
    const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    texts.forEach(([text, r], i) => {
      if (r.height < 9) out.push('small: ' + text);
      if (!inside(r, all)) out.push('outside of the picture: ' + text);
      for (const b of boxes) if (meet(r, b) && !inside(r, b)) out.push('crosses the border of a box: ' + text);
      for (let j = 0; j < i; ++j) if (meet(r, texts[j][1])) out.push('overlaps "' + texts[j][0] + '": ' + text);
    });
    out.push('texts ' + texts.length);
    document.getElementById('result').textContent = out.join('\n');
  </script>)";
}

/// What the script printed; empty if the browser failed.
std::vector<std::string> rendered(const std::string& browser, const std::string& svg) {
  const testing::TempDir folder;
  const auto page = folder.path() + "/page.html", output = folder.path() + "/dom";
  std::ofstream(page) << page_of(svg);
  testing::Process::Options options;
  options.argv = {
      browser,      "--headless",    "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder.path() + "/profile",
      "--dump-dom", "file://" + page};
  options.output = output;
  auto process = testing::Process::start(options);
  if (!process || (*process)->wait(std::chrono::minutes(2)).value_or(-1) != 0) return {};
  const std::string dom = testing::read_file(output);
  const auto begin = dom.find("<pre id=\"result\">"), end = dom.find("</pre>");
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<std::string> out(1);
  for (const char c : dom.substr(begin + 17, end - begin - 17)) {
    if (c == '\n') {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

TEST(PictureSources, GiveThePicturesOfTheTree) {
  const std::pair<const char*, const char*> sources[] = {{"diagram.py", "architecture.txt"},
                                                         {"terminal.py", "demo.txt"}};
  for (const auto& [tool, source] : sources) {
    testing::Process::Options options;
    options.argv = {"python3", kRoot + "/tools/" + tool, "--check", kRoot + "/docs/images/" + source};
    auto process = testing::Process::start(options);
    ASSERT_TRUE(process);
    EXPECT_EQ((*process)->wait(std::chrono::seconds(60)).value_or(-1), 0) << source;
  }
}

class Pictures : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("QM_CHROMIUM");
    if (named == nullptr) GTEST_SKIP() << "no Chromium: run ./qm peers chromium";
    browser_ = named;
  }
  std::string browser_;
};

TEST_F(Pictures, OfTheReadmeAreReadable) {
  const auto pictures = pictures_of("README.md");
  ASSERT_FALSE(pictures.empty());
  for (const std::string& path : pictures) {
    const auto found = rendered(browser_, testing::read_file(kRoot + "/" + path));
    ASSERT_FALSE(found.empty()) << path << " is not rendered";
    EXPECT_GT(std::stoi(found.back().substr(std::string("texts ").size())), 5) << path;
    for (std::size_t i = 0; i + 1 < found.size(); ++i) ADD_FAILURE() << path << ": " << found[i];
  }
}

TEST_F(Pictures, AnUnreadableTextIsFound) {
  const auto found =
      rendered(browser_, R"(<svg xmlns="http://www.w3.org/2000/svg" width="300" height="100" viewBox="0 0 300 100">
    <rect x="10" y="10" width="60" height="40" fill="none"/><text x="12" y="30" font-size="14">much wider than its box</text>
    <text x="12" y="80" font-size="4">tiny</text><text x="280" y="95" font-size="14">beyond the edge</text>
    <text x="12" y="34" font-size="14">over it</text></svg>)");
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(found[0], "crosses the border of a box: much wider than its box");
  EXPECT_EQ(found[1], "small: tiny");
  EXPECT_EQ(found[2], "outside of the picture: beyond the edge");
  EXPECT_EQ(found[3], "overlaps \"much wider than its box\": over it");
  EXPECT_EQ(found[4], "texts 4");
}

}  // namespace pictures_test
}  // namespace qm
