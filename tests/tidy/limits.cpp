#include "limits.hpp"

#include "statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

namespace qm::tidy {
namespace {

/// Counts the member functions of each class.
class ClassScan final : private StatementReader {
 public:
  explicit ClassScan(std::string_view text) : StatementReader(text) {}

  std::vector<ClassSize> run() {
    read_all();
    return std::move(out_);
  }

 private:
  bool open_scope(bool type) override {
    const Token* name = type && !has("operator") ? class_name() : nullptr;
    if (name != nullptr) {
      scopes_.push_back(out_.size());
      out_.push_back({std::string(name->text), 0, name->line});
      return true;
    }
    if (!type || !has("namespace")) return false;
    scopes_.push_back(std::nullopt);
    return true;
  }
  void close_scope() override {
    if (!scopes_.empty()) scopes_.pop_back();
  }
  void access(std::string_view) override {}
  void declare(const Token& function) override {
    if (scopes_.empty() || !scopes_.back()) return;
    for (const auto word : {"friend", "using", "typedef", "operator", "~"}) {
      if (has(word)) return;
    }
    auto& owner = out_[*scopes_.back()];
    if (function.text != owner.name) ++owner.methods;
  }

  /// The name of the class that the statement begins; empty if it begins none.
  [[nodiscard]] const Token* class_name() const {
    int angles = 0;
    const Token* name = nullptr;
    bool found = false;
    for (std::size_t i = 0; i < statement().size(); ++i) {
      const auto text = statement()[i]->text;
      angles += text == "<" ? 1 : text == ">" ? -1 : 0;
      if (angles > 0) continue;
      if (text == "enum" || text == "union") return nullptr;
      if (!found) {
        found = text == "class" || text == "struct";
        continue;
      }
      if (text == ":") {
        const bool qualified = i + 1 < statement().size() && statement()[i + 1]->text == ":";
        if (!qualified) break;
        ++i;
      } else if (text == "final") {
        break;
      } else if (statement()[i]->is_name() && text != "nodiscard") {
        name = statement()[i];
      }
    }
    return name;
  }

  std::vector<std::optional<std::size_t>> scopes_;  ///< a class of `out_`, or a namespace
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
