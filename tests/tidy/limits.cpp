#include "limits.hpp"

#include "tokens.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

namespace qm::tidy {
namespace {

/// Reads the statements of namespaces and classes.
class ClassScan {
 public:
  explicit ClassScan(std::string_view text) : tokens_(tokens_of(text)) {}

  std::vector<ClassSize> run() {
    for (; next_ < tokens_.size(); ++next_) read(tokens_[next_]);
    return std::move(out_);
  }

 private:
  void read(const Token& token) {
    const auto text = token.text;
    if (text == "(") {
      if (depth_++ == 0 && angles_ == 0 && !assigned_ && function_ == nullptr && !statement_.empty()) name_function();
    } else if (text == ")") {
      --depth_;
    } else if (text == "{") {
      open();
    } else if (depth_ > 0) {
      return;
    } else if (text == ";") {
      count();
      reset();
    } else if (text == "}") {
      if (!scopes_.empty()) scopes_.pop_back();
      reset();
    } else if (text == ":" && statement_.size() == 1 && is_access(statement_[0]->text)) {
      reset();
    } else {
      angles_ += text == "<" ? 1 : text == ">" && angles_ > 0 ? -1 : 0;
      assigned_ = assigned_ || (text == "=" && angles_ == 0);
      statement_.push_back(&token);
    }
  }

  static bool is_access(std::string_view word) { return word == "public" || word == "private" || word == "protected"; }
  [[nodiscard]] bool has(std::string_view word) const {
    return std::ranges::find(statement_, word, &Token::text) != statement_.end();
  }

  void name_function() {
    static const std::set<std::string_view> kWords = {"alignas",       "decltype", "explicit", "noexcept", "requires",
                                                      "static_assert", "void",     "bool",     "int",      "double"};
    const Token* last = statement_.back();
    if (last->is_name() && !kWords.contains(last->text)) function_ = last;
  }

  /// The name of the class that the statement begins; empty if it begins none.
  [[nodiscard]] const Token* class_name() const {
    int angles = 0;
    const Token* name = nullptr;
    bool found = false;
    for (std::size_t i = 0; i < statement_.size(); ++i) {
      const auto text = statement_[i]->text;
      angles += text == "<" ? 1 : text == ">" ? -1 : 0;
      if (angles > 0) continue;
      if (text == "enum" || text == "union") return nullptr;
      if (!found) {
        found = text == "class" || text == "struct";
        continue;
      }
      if (text == ":") {
        const bool qualified = i + 1 < statement_.size() && statement_[i + 1]->text == ":";
        if (!qualified) break;
        ++i;
      } else if (text == "final") {
        break;
      } else if (statement_[i]->is_name() && text != "nodiscard") {
        name = statement_[i];
      }
    }
    return name;
  }

  void open() {
    const bool type = function_ == nullptr && !assigned_ && depth_ == 0;
    const Token* name = type && !has("operator") ? class_name() : nullptr;
    if (name != nullptr) {
      scopes_.push_back(out_.size());
      out_.push_back({std::string(name->text), 0, name->line});
      reset();
    } else if (type && has("namespace")) {
      scopes_.push_back(std::nullopt);
      reset();
    } else {
      const bool body = (function_ != nullptr || has("operator")) && depth_ == 0;
      if (body) count();
      skip_braces();
      if (body) reset();
    }
  }

  void skip_braces() {
    int open = 0;
    do {
      open += tokens_[next_].text == "{" ? 1 : tokens_[next_].text == "}" ? -1 : 0;
    } while (open > 0 && ++next_ < tokens_.size());
  }

  void count() {
    if (function_ == nullptr || scopes_.empty() || !scopes_.back()) return;
    for (const auto word : {"friend", "using", "typedef", "operator", "~"}) {
      if (has(word)) return;
    }
    auto& owner = out_[*scopes_.back()];
    if (function_->text != owner.name) ++owner.methods;
  }

  void reset() {
    statement_.clear();
    function_ = nullptr;
    angles_ = depth_ = 0;
    assigned_ = false;
  }

  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::vector<std::optional<std::size_t>> scopes_;  ///< a class of `out_`, or a namespace
  std::vector<const Token*> statement_;
  const Token* function_ = nullptr;
  int angles_ = 0, depth_ = 0;
  bool assigned_ = false;
  std::vector<ClassSize> out_;
};

}  // namespace

std::vector<ClassSize> class_sizes(const SourceFile& file) {
  const auto code = code_of(file, true);
  return ClassScan(code).run();
}

std::vector<Finding> beyond_limits(const std::vector<SourceFile>& files, const std::vector<LimitException>& known) {
  std::vector<Finding> out;
  std::set<std::string_view> needed;
  const auto report = [&](const std::string& place, std::string path, std::size_t line, std::string what) {
    const auto entry = std::ranges::find(known, place, &LimitException::place);
    if (entry != known.end()) {
      needed.insert(entry->place);
    } else {
      out.push_back({std::move(path), line, std::move(what)});
    }
  };
  std::map<std::string, std::size_t> folders;
  for (const auto& file : files) {
    if (!file.under("services/") || !file.is_code() || file.is_test()) continue;
    ++folders[file.path.substr(0, file.path.rfind('/'))];
    const auto classes = class_sizes(file);
    for (const auto& one : classes) {
      if (one.methods <= kMostMethods) continue;
      report(file.path + " " + one.name, file.path, one.line,
             fmt::format("{} has {} member functions; split what has more than {} by subject", one.name, one.methods,
                         kMostMethods));
    }
    if (!file.ends(".hpp") || classes.empty() || file.lines.size() <= kMostHeaderLines) continue;
    report(file.path, file.path, file.lines.size(),
           fmt::format("{} lines; give each class of a header with more than {} its own", file.lines.size(),
                       kMostHeaderLines));
  }
  for (const auto& [folder, count] : folders) {
    if (count <= kMostFiles) continue;
    report(folder, folder, 0,
           fmt::format("{} headers and sources; split a folder with more than {} by subject", count, kMostFiles));
  }
  for (const auto& entry : known) {
    if (!needed.contains(entry.place))
      out.push_back({std::string(entry.place), 0, "the exception to the limits is not needed"});
  }
  return out;
}

const std::vector<LimitException>& limit_exceptions() {
  static const std::vector<LimitException> all = {};
  return all;
}

}  // namespace qm::tidy
