// Splits a script into commands and words, as POSIX shells do for commands without expansions.
#include "shell_words.hpp"

#include <algorithm>

namespace qm::node_groups {
namespace {

class Splitter {
 public:
  explicit Splitter(std::string_view script) : rest_(script) {}

  Result<std::vector<std::vector<std::string>>> run() {
    while (!rest_.empty()) {
      const char c = next();
      if (c == '\\') {
        if (!rest_.empty()) escaped(next());
      } else if (c == '\'' || c == '"') {
        QM_TRY(quoted(c));
      } else if (c == '#' && !in_word_) {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (c == ' ' || c == '\t' || c == '\r') {
        end_word();
      } else if (c == '\n' || c == ';' || c == '&' || c == '|') {
        end_command();
      } else {
        word_.push_back(c);
        in_word_ = true;
      }
    }
    end_command();
    return std::move(commands_);
  }

 private:
  char next() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }
  void escaped(char c) {
    if (c == '\n') return;  // the command goes on in the next line
    word_.push_back(c);
    in_word_ = true;
  }
  Status quoted(char quote) {
    const auto end = rest_.find(quote);
    if (end == std::string_view::npos)
      return fail(Error{Code::kInvalid, fmt::format("a quote {} has no end", quote), {}, "close it"});
    word_ += rest_.substr(0, end);
    in_word_ = true;
    rest_.remove_prefix(end + 1);
    return {};
  }
  void end_word() {
    if (in_word_) words_.push_back(std::exchange(word_, {}));
    in_word_ = false;
  }
  void end_command() {
    end_word();
    if (!words_.empty()) commands_.push_back(std::exchange(words_, {}));
  }

  std::string_view rest_;
  std::string word_;
  bool in_word_ = false;
  std::vector<std::string> words_;
  std::vector<std::vector<std::string>> commands_;
};

}  // namespace

Result<std::vector<std::vector<std::string>>> shell_commands(std::string_view script) { return Splitter(script).run(); }

}  // namespace qm::node_groups
