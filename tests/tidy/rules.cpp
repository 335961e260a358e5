// The house rules. If a rule prevents a change, change the rule here and give the reason in an ADR, or use what it
// names.
#include "rules.hpp"

#include "words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace qm::tidy {

std::string Finding::to_string() const {
  return line == 0 ? fmt::format("{}: {}", path, what) : fmt::format("{}:{}: {}", path, line, what);
}

namespace {

using Findings = std::vector<Finding>;

struct Include {
  std::string name;
  bool quoted = false;
};
std::optional<Include> include_of(std::string_view line) {
  if (!line.starts_with("#include ")) return std::nullopt;
  line.remove_prefix(9);
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return std::nullopt;
  const bool quoted = line[0] == '"';
  const auto end = line.find(quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return Include{std::string(line.substr(1, end - 1)), quoted};
}

/// A word that is written with a bar in it, because otherwise the rule would find it in this file.
std::string whole(std::string_view cut) {
  std::string out(cut);
  std::erase(out, '|');
  return out;
}

template <class Fn>
Findings each_line(const SourceFile& file, Fn&& fn) {
  Findings out;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    if (std::string what = fn(file.lines[i]); !what.empty()) out.push_back({file.path, i + 1, std::move(what)});
  }
  return out;
}

template <class Fn>
Findings each_include(const SourceFile& file, Fn&& fn) {
  if (!file.is_code()) return {};
  return each_line(file, [&](const std::string& line) -> std::string {
    const auto include = include_of(line);
    return include ? fn(*include) : std::string();
  });
}

// services/<name>/<rest>, with "*" for a name.
bool matches(std::string_view path, std::string_view pattern) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return path.starts_with(pattern);
  if (!path.starts_with(pattern.substr(0, star))) return false;
  path.remove_prefix(star);
  const auto slash = path.find('/');
  if (slash == std::string_view::npos) return pattern.size() == star + 1;
  return matches(path.substr(slash), pattern.substr(star + 1));
}

// ---- vendors: one module includes each ----

struct Vendor {
  std::vector<std::string_view> headers;  // prefixes
  std::vector<std::string_view> allowed;  // path prefixes, "*" = one folder
  bool in_headers = false;                // may be included by an .hpp
  std::string_view instead;
};

const std::vector<Vendor>& vendors() {
  static const std::vector<Vendor> all = {
      {{"pqxx/", "libpq-fe.h"}, {"libs/pg/", "tests/support/"}, false, "qm/pg/connection.hpp, or qm/store/store.hpp"},
      {{"librdkafka/", "rdkafka"}, {"libs/bus/src/"}, false, "qm/bus/bus.hpp"},
      {{"boost/"}, {"libs/http/src/"}, false, "qm/http/http.hpp"},
      {{"curl/"}, {}, false, "qm/http/http.hpp"},
      {{"grpcpp/", "grpc/"},
       {"libs/rpc/", "libs/replica/", "services/*/src/shell/", "services/*/include/qm/*/api.hpp", "services/*/main.cpp",
        "services/*/test/shell/", "agent/", "cli/", "demo/", "tests/", "bench/admission/"},
       true,
       "qm/rpc/server.hpp, or the api.hpp of the service"},
      {{"hiredis/"}, {"services/telemetry/src/shell/"}, false, "the RedisMirror of telemetry's shell"},
      {{"spdlog/"}, {"libs/base/src/log.cpp"}, false, "qm/base/log.hpp"},
      {{"CLI/"},
       {"libs/rpc/src/settings.cpp", "fleet/main.cpp", "demo/checker/main.cpp", "demo/driver/src/options.cpp",
        "demo/philly/main.cpp", "demo/headroom/main.cpp", "cli/", "replay/main.cpp",
        "services/placement/openb/main.cpp", "services/autoscaler/qm_pack/main.cpp",
        "services/autoscaler/replicas/main.cpp"},
       false,
       "qm::rpc::parse_settings of qm/rpc/process.hpp"},
      {{"absl/"}, {"libs/calendar/src/"}, false, "qm/calendar/zone.hpp"},
      {{"yaml-cpp/"}, {"libs/config/src/"}, false, "qm/config/manifest.hpp"},
      {{"re2/"}, {"libs/node_groups/src/"}, false, "qm/node_groups/priorities.hpp"},
      {{"simdjson"}, {"libs/base/src/"}, false, "qm/base/json.hpp"},
      {{"nlohmann/"}, {}, false, "qm/base/json.hpp"},
      {{"prometheus/"}, {"libs/metrics/src/"}, false, "qm/metrics/metrics.hpp"},
      {{"openssl/"},
       {"libs/base/src/digest.cpp", "libs/bus/src/kafka_security.cpp", "libs/http/", "libs/cloud/src/", "fleet/src/",
        "bench/webhook/plain_server.cpp"},
       false,
       "qm/base/digest.hpp, or qm/http/http.hpp"},
      {{"tl/"}, {"libs/base/include/qm/base/result.hpp", "fleet/src/aws_wire.hpp"}, true, "qm/base/result.hpp"},
      {{"gtest/", "gmock/", "rapidcheck"},
       {"tests/", "libs/*/test/", "services/*/test/", "fleet/test/", "agent/test/", "cli/test/", "demo/*/test/"},
       true,
       "a test binary: product code knows no test framework"},
  };
  return all;
}

Findings vendor_headers(const SourceFile& file) {
  return each_include(file, [&](const Include& include) -> std::string {
    for (const Vendor& v : vendors()) {
      if (std::ranges::none_of(v.headers, [&](auto h) { return include.name.starts_with(h); })) continue;
      if (std::ranges::none_of(v.allowed, [&](auto p) { return matches(file.path, p); })) {
        return fmt::format("<{}> is not for this place; use {}", include.name, v.instead);
      }
      if (!v.in_headers && !file.ends(".cpp")) {
        return fmt::format("<{}> stands in a header; move it to a .cpp behind {}", include.name, v.instead);
      }
    }
    return {};
  });
}

// ---- engines: pure ----

std::string service_of(std::string_view path) {
  if (!path.starts_with("services/")) return {};
  path.remove_prefix(9);
  return std::string(path.substr(0, path.find('/')));
}

bool is_engine_source(const SourceFile& file) {
  return matches(file.path, "services/*/src/engine/") || matches(file.path, "services/*/src/data/") ||
         matches(file.path, "services/admission/src/queries/") ||
         matches(file.path, "services/admission/src/scheduler/") || matches(file.path, "services/placement/src/mig/") ||
         matches(file.path, "services/placement/src/relayout/") || (file.under("libs/kube_rules/") && !file.is_test());
}

// The public headers that engine sources include: they belong to the engine too.
const std::set<std::string>& engine_headers() {
  static const std::set<std::string> all = [] {
    std::set<std::string> out;
    std::vector<const SourceFile*> todo;
    for (const SourceFile& file : tree()) {
      if (is_engine_source(file)) todo.push_back(&file);
    }
    while (!todo.empty()) {
      const SourceFile* file = todo.back();
      todo.pop_back();
      const std::string service = service_of(file->path);
      for (const auto& line : file->lines) {
        const auto include = include_of(line);
        if (!include || !include->name.starts_with("qm/" + service + "/")) continue;
        const SourceFile* header = find_file("services/" + service + "/include/" + include->name);
        if (header != nullptr && out.insert(header->path).second) todo.push_back(header);
      }
    }
    return out;
  }();
  return all;
}

bool is_engine(const SourceFile& file) { return is_engine_source(file) || engine_headers().contains(file.path); }

Findings engines_include_values_only(const SourceFile& file) {
  if (!is_engine(file)) return {};
  static constexpr std::array kImpure = {"thread",        "mutex",        "shared_mutex", "condition_variable",
                                         "atomic",        "future",       "random",       "iostream",
                                         "fstream",       "filesystem",   "cstdio",       "ctime",
                                         "unordered_map", "unordered_set"};
  const std::string own = "qm/" + service_of(file.path) + "/";
  return each_include(file, [&](const Include& include) -> std::string {
    const std::string& name = include.name;
    if (name.starts_with("qm/base/log.hpp") || name.starts_with("qm/base/json.hpp")) {
      return fmt::format("an engine does not use {}; return the fact in its Output, the shell says it", name);
    }
    // kube_rules and topology are libraries over values, which placement and admission share.
    if (std::ranges::any_of(std::array{"qm/base/", "qm/kube_rules/", "qm/model/", "qm/topology/"},
                            [&](const char* library) { return name.starts_with(library); }) ||
        name.starts_with(own)) {
      return {};
    }
    // A built-in table may use the catalog, which is also values only.
    if (name == "qm/catalog/catalog.hpp" && matches(file.path, "services/*/src/data/")) return {};
    if (name == "qm/calendar/cron.hpp") return {};  // zone.hpp reads the files of time zones
    if (name == "qm/catalog/mig.hpp" || name == "qm/catalog/xid.hpp") return {};  // only tables
    if (name.starts_with("qm/") || name.starts_with("quartermaster/")) {
      return fmt::format(
          "an engine sees only qm/base, qm/kube_rules, qm/model, qm/topology and its own headers; {} belongs to the shell",
          name);
    }
    if (include.quoted) return {};  // next to the source
    if (std::ranges::find(kImpure, name) != kImpure.end()) {
      return fmt::format("<{}> has no place in an engine: time comes as an argument, order is total, IO is the shell's",
                         name);
    }
    const bool standard = name.find_first_of("./") == std::string::npos;
    if (!standard && !name.starts_with("fmt/"))
      return fmt::format("<{}> is neither the standard library nor fmt", name);
    return {};
  });
}

Findings engines_read_no_clock(const SourceFile& file) {
  if (!is_engine(file)) return {};
  return each_line(file, [](const std::string& line) -> std::string {
    if (line.find("clock::now(") != std::string::npos || line.find("std::getenv") != std::string::npos) {
      return "an engine reads no clock and no environment: `now` is an argument of step";
    }
    return {};
  });
}

// ---- allowed dependencies between our own modules ----

std::string module_of_include(const std::string& name) {
  if (name.starts_with("quartermaster/")) return "proto";
  if (!name.starts_with("qm/")) return {};
  return name.substr(3, name.find('/', 3) - 3);
}

Findings arrows_point_one_way(const SourceFile& file) {
  const Arrows* row = nullptr;
  for (const Arrows& a : arrows()) {
    if (matches(file.path, a.module)) row = &a;
  }
  if (row == nullptr) {
    if (!file.is_code()) return {};
    return {{file.path, 0,
             "this folder is not in the table of arrows; add it to tests/tidy/rules.cpp and docs/architecture.md"}};
  }
  std::string own(row->module.substr(0, row->module.size() - 1));  // "libs/base/" -> "base", "cli/" -> "cli"
  own = own.substr(own.find('/') + 1);
  if (own == "*") own = service_of(file.path);
  return each_include(file, [&](const Include& include) -> std::string {
    const std::string module = module_of_include(include.name);
    if (module.empty() || module == own) return {};
    if (module == "testing" && file.is_test()) return {};
    if (std::ranges::find(row->may, module) != row->may.end()) return {};
    return fmt::format("{} does not look at {}: {}", row->module, module,
                       row->module.starts_with("services/") ? "services meet only in proto/ and libs/model"
                                                            : "see the table of arrows in docs/architecture.md");
  });
}

Findings product_knows_no_simulation(const SourceFile& file) {
  const bool product = (file.under("libs/") || file.under("services/") || file.under("agent/") || file.under("cli/") ||
                        file.under("proto/")) &&
                       !file.is_test();
  if (!product || file.ends(".md")) return {};
  return each_line(file, [](const std::string& line) -> std::string {
    if (line.find("fleet.quartermaster.dev") == std::string::npos && line.find(whole("fleet:/|/")) == std::string::npos)
      return {};
    return "the product knows no simulation: the fleet's own annotations and addresses stay in fleet/, demo/ and tests";
  });
}

// ---- the format of a file ----

Findings no_include_upwards(const SourceFile& file) {
  return each_include(file, [](const Include& include) -> std::string {
    return include.name.starts_with("../") ? "name the header from an include root" : "";
  });
}

Findings headers_begin_with_pragma_once(const SourceFile& file) {
  if (!file.ends(".hpp") || (!file.lines.empty() && file.lines[0] == "#pragma once")) return {};
  return {{file.path, 1, "a header begins with #pragma once"}};
}

constexpr std::size_t kMostLines = 600;

Findings files_stay_short(const SourceFile& file) {
  const bool counted = file.is_code() || file.ends(".proto") || file.ends(".sh") || file.ends(".cmake") ||
                       file.ends(".py") || file.path == "qm";
  if (!counted || file.lines.size() <= kMostLines) return {};
  return {{file.path, file.lines.size(),
           fmt::format("{} lines; split what has more than {} by subject", file.lines.size(), kMostLines)}};
}

Findings no_unfinished_work(const SourceFile& file) {
  static const std::array<std::string, 4> kWords = {whole("TO|DO"), whole("FIX|ME"), whole("XX|X"), whole("HA|CK")};
  return each_line(file, [](const std::string& line) -> std::string {
    for (const auto& word : kWords) {
      if (has_word(line, word))
        return word + " stands in the tree; do it, or open an issue and say what the code does now";
    }
    return {};
  });
}

Findings tests_do_not_sleep(const SourceFile& file) {
  // The only function that waits by polling.
  if (!file.is_test() || !file.is_code() || file.path == "tests/support/src/testing.cpp") return {};
  static const std::array<std::string, 5> kCalls = {whole("sleep|_for("), whole("sleep|_until("), whole("::u|sleep("),
                                                    whole("nano|sleep("), whole(" ::sl|eep(")};
  return each_line(file, [](const std::string& line) -> std::string {
    for (const auto& call : kCalls) {
      if (line.find(call) != std::string::npos)
        return "a test does not sleep; use qm::testing::wait_until or a manual clock";
    }
    return {};
  });
}

Findings portable_subset(const SourceFile& file) {
  if (!file.is_code()) return {};
  struct Word {
    std::string text, instead;
  };
  static const std::vector<Word> kWords = {
      {whole("std::for|mat("), "fmt::format"},
      {whole("#include <for|mat>"), "<fmt/format.h>"},
      {whole("std::vi|ews::"), "a loop or an algorithm of std::ranges"},
      {whole("std::ranges::vi|ews::"), "a loop or an algorithm of std::ranges"},
      {whole("#include <ran|ges>"), "<algorithm>"},
      {whole("source_|location"), "QM_ASSERT, which knows its place"},
  };
  return each_line(file, [](const std::string& line) -> std::string {
    for (const Word& w : kWords) {
      if (line.find(w.text) != std::string::npos)
        return fmt::format("{} is outside what both compilers take; use {}", w.text, w.instead);
    }
    return {};
  });
}

Findings no_machine_paths(const SourceFile& file) {
  static const std::array<std::string, 14> kPlaces = {whole("/wo|rk/"),
                                                      whole("/tm|p/qm/"),
                                                      whole("/ro|ot/"),
                                                      whole("/ho|me/"),
                                                      whole("pypi|.org"),
                                                      whole("files.python|hosted.org"),
                                                      whole("repo1.mav|en.org"),
                                                      whole("repo.mav|en.apache.org"),
                                                      whole("deb.deb|ian.org"),
                                                      whole("proxy.gol|ang.org"),
                                                      whole("registry.np|mjs.org"),
                                                      whole("dock|er.io"),
                                                      whole("ghc|r.io"),
                                                      whole("qua|y.io")};
  return each_line(file, [](const std::string& line) -> std::string {
    for (const auto& place : kPlaces) {
      if (line.find(place) != std::string::npos)
        return fmt::format("\"{}\" is a place of one machine or one mirror; take it from a setting", place);
    }
    return {};
  });
}

Findings no_tabs(const SourceFile& file) {
  return each_line(file, [](const std::string& line) -> std::string {
    return line.find('\t') == std::string::npos ? "" : "a tab; use spaces, or \\t in a string";
  });
}

Findings markdown_links_lead_somewhere(const SourceFile& file) {
  if (!file.ends(".md")) return {};
  const std::string folder =
      file.path.find('/') == std::string::npos ? "" : file.path.substr(0, file.path.rfind('/') + 1);
  return each_line(file, [&](const std::string& line) -> std::string {
    for (auto at = line.find("]("); at != std::string::npos; at = line.find("](", at + 1)) {
      std::string target = line.substr(at + 2, line.find(')', at) - at - 2);
      target = target.substr(0, target.find('#'));
      if (target.empty() || target.find("://") != std::string::npos) continue;
      std::string path = folder + target;
      for (auto up = path.find("/../"); up != std::string::npos; up = path.find("/../")) {
        const auto before = path.rfind('/', up - 1);
        path.erase(before == std::string::npos ? 0 : before + 1,
                   up + 4 - (before == std::string::npos ? 0 : before + 1));
      }
      while (path.ends_with("/")) path.pop_back();
      const bool there = std::ranges::any_of(
          tree(), [&](const SourceFile& f) { return f.path == path || f.path.starts_with(path + "/"); });
      if (!there && path != "LICENSE") return fmt::format("the link to {} leads nowhere", target);
    }
    return {};
  });
}

}  // namespace

const std::vector<Arrows>& arrows() {
  // The last row with a matching folder applies, so a more specific row is further down.
  static const std::vector<Arrows> all = {
      {"libs/base/", {}},
      {"libs/clock/", {"base"}},
      {"libs/calendar/", {"base"}},
      {"libs/model/", {"base"}},
      {"libs/apiserver/", {"base", "model"}},
      {"libs/catalog/", {"base", "model"}},
      {"libs/kube_rules/", {"base", "model"}},
      {"libs/simplex/", {"base"}},
      {"libs/topology/", {"base", "kube_rules", "model"}},
      {"libs/metrics/", {"base"}},
      {"libs/http/", {"base"}},
      {"libs/pg/", {"base"}},
      {"libs/wire/", {"base", "model", "proto"}},
      {"libs/config/", {"base", "catalog", "model"}},
      {"libs/settings/", {"base", "config"}},
      {"libs/node_groups/", {"base", "catalog", "config", "model", "settings"}},
      {"libs/kube/", {"base", "config", "http"}},
      {"libs/kube_objects/", {"base", "config", "kube", "kube_rules", "model"}},
      {"libs/admission_policy/", {"base", "catalog", "config", "kube", "model", "settings"}},
      {"libs/cloud/", {"base", "http", "model"}},
      {"libs/store/", {"base", "pg"}},
      {"libs/bus/", {"base", "pg"}},
      {"libs/service/", {"base", "bus", "clock", "store", "proto"}},
      {"libs/rpc/", {"base", "clock", "config", "http", "kube", "metrics", "service", "settings", "proto", "wire"}},
      {"libs/replica/", {"base", "http", "kube", "metrics", "proto", "rpc", "service", "store"}},
      {"services/*/", {"admission_policy", "base",  "bus",      "calendar",     "catalog",    "clock",   "cloud",
                       "config",           "http",  "kube",     "kube_objects", "kube_rules", "metrics", "model",
                       "node_groups",      "pg",    "proto",    "replica",      "rpc",        "service", "settings",
                       "simplex",          "store", "topology", "wire"}},
      {"agent/",
       {"base", "catalog", "clock", "cloud", "config", "http", "kube", "metrics", "model", "proto", "rpc", "settings",
        "wire"}},
      {"cli/",
       {"admission_policy", "autoscaler", "base", "calendar", "catalog", "clock", "config", "http", "kube", "model",
        "node_groups", "proto", "rpc", "wire"}},
      {"fleet/", {"apiserver", "base", "clock", "cloud", "config", "http", "model"}},
      {"fleet/test/", {"apiserver", "base", "clock", "cloud", "config", "http", "kube", "model"}},
      {"demo/trace/", {"base"}},
      {"demo/philly/", {"base", "placement", "trace"}},
      {"demo/headroom/", {"autoscaler", "base", "trace"}},
      {"demo/checker/", {"base"}},
      {"demo/witness/", {"base", "checker", "model"}},
      {"demo/driver/",
       {"base", "checker", "clock", "config", "http", "kube", "model", "proto", "rpc", "testing", "trace", "witness"}},
      {"replay/",
       {"base", "pg", "proto", "service", "settings", "admission", "placement", "autoscaler", "telemetry", "cost"}},
      {"tests/support/", {"base"}},
      {"tests/budgets/", {"base", "bus", "proto", "service", "admission", "cost"}},
      {"tests/elastic/", {"base", "bus", "kube", "proto", "service", "admission", "placement", "cost"}},
      {"tests/proposals/", {"base", "bus", "config", "proto", "service", "admission", "placement"}},
      {"tests/settings/", {"base", "settings", "testing", "admission", "placement", "autoscaler", "cost"}},
      {"tests/adoption/",
       {"autoscaler", "base", "catalog", "cloud", "config", "http", "kube", "pg", "proto", "testing"}},
      {"tests/cluster/", {"base", "testing"}},
      {"tests/contract/",
       {"apiserver", "autoscaler", "base", "bus", "clock", "cloud", "config", "http", "kube", "model", "pg", "service",
        "store", "testing"}},
      {"tests/e2e/",
       {"base", "bus", "checker", "clock", "config", "http", "kube", "model", "pg", "proto", "rpc", "testing",
        "trace"}},
      {"tests/sim/",
       {"base", "bus", "catalog", "clock", "config", "kube", "model", "proto", "service", "store", "testing", "wire",
        "admission", "placement", "autoscaler", "telemetry", "cost"}},
      {"tests/tidy/", {"base", "testing", "telemetry"}},
      {"tests/deploy/", {"base", "config", "http", "kube", "model", "pg", "testing", "admission"}},
      {"tests/hostile/",
       {"admission_policy", "base", "clock", "proto", "rpc", "service", "store", "testing", "admission", "placement",
        "autoscaler", "telemetry", "cost"}},
      {"tests/leaders/", {"base", "pg", "replica", "service", "store", "testing"}},
      {"tests/golden/", {"base", "golden", "proto", "testing"}},
      {"tests/hardening/", {"base", "http", "testing"}},
      {"tests/images/", {"base", "testing"}},
      {"bench/",
       {"admission_policy", "base", "bus", "clock", "http", "kube", "metrics", "model", "proto", "rpc", "service",
        "store", "testing", "admission", "placement", "autoscaler", "telemetry", "cost"}},
  };
  return all;
}

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      {"vendor headers", vendor_headers},
      {"engines include values only", engines_include_values_only},
      {"engines read no clock", engines_read_no_clock},
      {"arrows point one way", arrows_point_one_way},
      {"the product knows no simulation", product_knows_no_simulation},
      {"no include upwards", no_include_upwards},
      {"headers begin with pragma once", headers_begin_with_pragma_once},
      {"files stay short", files_stay_short},
      {"no unfinished work", no_unfinished_work},
      {"tests do not sleep", tests_do_not_sleep},
      {"portable subset", portable_subset},
      {"no machine paths", no_machine_paths},
      {"no tabs", no_tabs},
      {"links lead somewhere", markdown_links_lead_somewhere},
      {"standard words", standard_words},
      {"short sentences", short_sentences},
  };
  return all;
}

}  // namespace qm::tidy
