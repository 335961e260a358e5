#include "qm/testing/table.hpp"

#include "qm/testing/text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace qm::testing {

std::string run_table(const std::string& text,
                      const std::function<std::vector<std::string>(const std::string& line)>& execute) {
  std::string seen;
  bool same = true;
  std::vector<std::string> got;
  std::size_t next = 0;
  const auto flush = [&] {
    for (; next < got.size(); ++next) {
      seen += "  => " + got[next] + "     <- came, not written\n";
      same = false;
    }
  };
  for (const std::string& raw : split(text, '\n')) {
    const std::string line = trimmed(raw);
    if (line.empty() || line.starts_with("--")) continue;
    if (!line.starts_with("=>")) {
      flush();
      seen += line + "\n";
      got = execute(line);
      next = 0;
      continue;
    }
    const std::string want = trimmed(line.substr(2));
    const bool came = next < got.size() && got[next] == want;
    seen += "  => " + want;
    if (!came) seen += "     <- written; came: " + (next < got.size() ? got[next] : "nothing");
    seen += "\n";
    same = same && came;
    ++next;
  }
  flush();
  return same ? "" : seen;
}

int expect_one_end(std::vector<std::string> facts, const std::function<std::uint64_t(const std::string&)>& end_of) {
  std::ranges::sort(facts);
  std::optional<std::uint64_t> end;
  std::string first;
  int orders = 0;
  do {
    std::string lines;
    for (const auto& fact : facts) lines += fact + "\n";
    const auto digest = end_of(lines);
    if (!end) {
      end = digest;
      first = lines;
    }
    ++orders;
    if (digest == *end) continue;
    ADD_FAILURE() << lines << "ends elsewhere than\n" << first;
    break;
  } while (std::next_permutation(facts.begin(), facts.end()));
  return orders;
}

}  // namespace qm::testing
