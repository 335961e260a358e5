// Declarations and calls are found in tokens, without a parser: a statement at namespace or class level declares the
// first name before a parenthesis, and a definition in a .cpp begins in the first column.
#include "callers.hpp"

#include "statements.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace qm::tidy {
namespace {

struct Found {
  Declaration declaration;
  std::size_t at = 0;  ///< in the text
};

/// The functions that a header declares publicly.
class Scan final : private StatementReader {
 public:
  explicit Scan(std::string_view text) : StatementReader(text) {}

  std::vector<Found> run() {
    read_all();
    return std::move(out_);
  }

 private:
  struct Scope {
    bool visible = true, parent_visible = true;
  };

  bool open_scope(bool type) override {
    if (type && has("namespace")) {
      scopes_.push_back({});
      return true;
    }
    if (!type || has("enum") || has("operator") || (!has("class") && !has("struct"))) return false;
    const bool visible = scopes_.back().visible;
    scopes_.push_back({visible && has("struct"), visible});
    return true;
  }
  void close_scope() override {
    if (scopes_.size() > 1) scopes_.pop_back();
  }
  void access(std::string_view word) override {
    scopes_.back().visible = scopes_.back().parent_visible && word == "public";
  }
  void declare(const Token& function) override {
    if (!scopes_.back().visible) return;
    for (const auto word : {"friend", "using", "typedef", "override", "operator"}) {
      if (has(word)) return;
    }
    if (std::islower(static_cast<unsigned char>(function.text[0])) == 0) return;
    out_.push_back({{std::string(function.text), function.line}, function.at});
  }

  std::vector<Scope> scopes_{{}};
  std::vector<Found> out_;
};

bool is_public_header(const SourceFile& file) {
  return (file.under("libs/") || file.under("services/")) && file.path.find("/include/") != std::string::npos &&
         file.ends(".hpp");
}

bool is_production(const SourceFile& file) {
  static constexpr std::array kFolders = {"libs/", "services/", "agent/", "cli/", "fleet/", "demo/", "replay/"};
  static constexpr std::array kReplays = {"services/admission/vectors/", "services/admission/forecast_trace/",
                                          "services/placement/openb/"};
  return file.is_code() && !file.is_test() &&
         std::ranges::any_of(kFolders, [&](const char* folder) { return file.under(folder); }) &&
         std::ranges::none_of(kReplays, [&](const char* folder) { return file.under(folder); });
}

/// The name that a line in the first column defines; empty if it defines none.
std::string_view defined_in(std::string_view line) {
  if (line.empty() || !is_letter(line[0])) return {};
  int angles = 0;
  const auto tokens = tokens_of(line);
  for (std::size_t i = 0; i + 1 < tokens.size() && tokens[i].text != "="; ++i) {
    angles += tokens[i].text == "<" ? 1 : tokens[i].text == ">" ? -1 : 0;
    if (angles == 0 && tokens[i].is_name() && tokens[i + 1].text == "(") return tokens[i].text;
  }
  return {};
}

/// The names that the code of a file calls.
void collect_calls(const SourceFile& file, std::set<std::string, std::less<>>& calls) {
  const auto code = code_of(file, false);
  std::set<std::size_t> declared;
  if (is_public_header(file)) {
    for (const auto& found : Scan(code_of(file, true)).run()) declared.insert(found.at);
  }
  std::string_view definition;
  for (std::size_t start = 0; start < code.size();) {
    const auto end = code.find('\n', start);
    const auto line = std::string_view(code).substr(start, end - start);
    if (file.ends(".cpp") && !line.empty() && line[0] != ' ') definition = defined_in(line);
    for (const auto& token : tokens_of(line)) {
      if (token.is_name() && token.text != definition && !declared.contains(start + token.at))
        calls.emplace(token.text);
    }
    start = end + 1;
  }
}

std::string stem_of(std::string_view path) {
  const auto name = path.substr(path.rfind('/') + 1);
  return std::string(name.substr(0, name.rfind('.')));
}

}  // namespace

std::vector<Declaration> declarations(const SourceFile& header) {
  std::vector<Declaration> out;
  for (auto& found : Scan(code_of(header, true)).run()) out.push_back(std::move(found.declaration));
  return out;
}

std::vector<Finding> uncalled(const std::vector<SourceFile>& files, const std::vector<Uncalled>& known) {
  std::set<std::string, std::less<>> calls = {"main"}, included;
  for (const auto& file : files) {
    if (!is_production(file)) continue;
    collect_calls(file, calls);
    for (const auto& line : file.lines) {
      if (!line.starts_with("#include \"")) continue;
      const auto name = line.substr(10, line.find('"', 10) - 10);
      if (!file.ends(".cpp") || stem_of(file.path) != stem_of(name)) included.insert(name);
    }
  }
  std::vector<Finding> out;
  std::set<std::pair<std::string_view, std::string>> needed;  // header, and function or nothing
  const auto report = [&](const SourceFile& header, std::size_t line, const std::string& name, std::string what) {
    for (const auto& entry : known) {
      if (entry.header != header.path || (!entry.names.empty() && !entry.names.contains(name))) continue;
      needed.emplace(entry.header, entry.names.empty() ? std::string() : name);
      return;
    }
    out.push_back({header.path, line, std::move(what)});
  };
  for (const auto& header : files) {
    if (!is_public_header(header)) continue;
    if (!included.contains(header.path.substr(header.path.find("/include/") + 9)))
      report(header, 0, {}, "no production code includes this header; delete it with its source and tests");
    for (const auto& [name, line] : declarations(header)) {
      if (!calls.contains(name))
        report(header, line, name, fmt::format("no production code calls {}; delete it with its tests", name));
    }
  }
  for (const auto& entry : known) {
    auto names = entry.names;
    if (names.empty()) names.insert("");
    for (const auto name : names) {
      if (!needed.contains({entry.header, std::string(name)}))
        out.push_back({std::string(entry.header), 0, fmt::format("the exception \"{}\" is not needed", name)});
    }
  }
  return out;
}

const std::vector<Uncalled>& known_uncalled() {
  static const std::vector<Uncalled> all = {
      {"libs/base/include/qm/base/assert.hpp",
       {"set_assertion_hook"},
       "the simulation reports a failed assertion as a violated law"},
      {"libs/base/include/qm/base/crash_point.hpp",
       {"arm_crash_point", "crash_points", "disarm_crash_points"},
       "tests end a process at a point that production passes"},
      {"libs/bus/include/qm/bus/bus.hpp", {"plant_publish"}, "tests plant faults of a bus"},
      {"libs/bus/include/qm/bus/memory.hpp", {}, "faults and contents of the bus in memory, for the simulation"},
      {"libs/store/include/qm/store/memory.hpp", {}, "contents of the store in memory, for the simulation"},
      {"libs/store/include/qm/store/store.hpp",
       {"appended", "copy_disk", "make_memory_disk", "open_memory", "plant_outcome", "plant_rollback", "restore_disk",
        "set_server_now"},
       "the store in memory and its faults, for tests and the simulation"},
      {"libs/cloud/include/qm/cloud/aws.hpp",
       {"create_group", "delete_message", "describe_instance_types", "send_message"},
       "contract tests compare the simulated AWS with others by these calls"},
      {"libs/config/include/qm/config/manifest.hpp", {"typed_kinds"}, "tests compare the kinds with the CRDs"},
      {"libs/rpc/include/qm/rpc/rules.hpp",
       {"rules_as_markdown"},
       "a test compares the access rules with docs/security.md"},
      {"libs/service/include/qm/service/host.hpp",
       {"execute_once"},
       "tests and the simulation execute intents one by one, without threads"},
      {"services/admission/include/qm/admission/kueue/cycle.hpp",
       {"admission_failed", "place_again", "preemption_failed"},
       "replays of Kueue's own tests: failed writes to its API server, and failed nodes"},
      {"services/admission/include/qm/admission/kueue/objects.hpp",
       {"add_check", "add_flavor", "add_topology"},
       "replays of Kueue's own tests read its objects"},
      {"services/admission/include/qm/admission/kueue/requeue.hpp",
       {"conditions_of"},
       "replays of Kueue's own tests compare conditions"},
      {"services/admission/include/qm/admission/kueue/topology_objects.hpp",
       {"replacement_of"},
       "replays of Kueue's own tests: replacement of a failed node"},
      {"libs/admission_policy/include/qm/admission_policy/resource_quota.hpp",
       {"beyond_quota"},
       "a test compares ResourceQuota with an API server by it"},
      {"services/placement/include/qm/placement/pack/inventory.hpp",
       {"distinct_states"},
       "bound of the memory, which a test and a benchmark report"},
      {"services/placement/include/qm/placement/plan/plan.hpp",
       {"apply_plan"},
       "tests and a benchmark replay plans; production executes them through admission"},
      {"libs/kube_rules/include/qm/kube_rules/rule_book.hpp",
       {"drop_namespace"},
       "labels of namespaces, a rule of kube-scheduler whose input placement does not watch yet"},
  };
  return all;
}

}  // namespace qm::tidy
