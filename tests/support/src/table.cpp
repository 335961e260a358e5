#include "qm/testing/table.hpp"

#include "qm/testing/text.hpp"

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

}  // namespace qm::testing
