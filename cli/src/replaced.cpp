// What apply would replace: objects that exist with other content are shown as a difference, and need --replace.
#include "commands.hpp"
#include "print.hpp"
#include "qm/config/manifest.hpp"
#include "table.hpp"
#include "yaml.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <tuple>

namespace qm::cli {
namespace {

using Lines = std::vector<std::string>;
using Key = std::tuple<std::string, std::string, std::string>;  // kind, namespace, name

Lines lines_of(const std::string& text) {
  Lines out;
  for (std::size_t from = 0; from < text.size();) {
    const auto end = std::min(text.find('\n', from), text.size());
    out.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return out;
}

/// The object as a user writes it, with members in order of name, so that equal objects have equal texts.
Json sorted(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const auto& item : value.items()) out.push_back(sorted(item));
    return out;
  }
  if (!value.is_object()) return value;
  std::map<std::string, const Json*> by_name;
  for (const auto& [name, member] : value.members()) by_name.emplace(name, &member);
  Json out = Json::object();
  for (const auto& [name, member] : by_name) out.set(name, sorted(*member));
  return out;
}

/// Without what an API server adds.
Json written(const Json& object) {
  Json out = Json::object();
  for (const auto& [name, member] : object.members()) {
    if (name != "status" && name != "metadata") out.set(name, member);
  }
  Json& metadata = out.set("metadata");
  for (const auto& [name, member] : object["metadata"].members()) {
    const bool added = name == "uid" || name == "resourceVersion" || name == "generation" ||
                       name == "creationTimestamp" || name == "managedFields";
    if (!added) metadata.set(name, member);
  }
  return sorted(out);
}

/// The longest common subsequence of the lines between the common ends; removed lines come before added ones.
void put_difference(const Lines& before, const Lines& after, std::ostream& out) {
  std::vector<std::vector<std::uint32_t>> common(before.size() + 1, std::vector<std::uint32_t>(after.size() + 1, 0));
  for (std::size_t i = before.size(); i-- > 0;) {
    for (std::size_t j = after.size(); j-- > 0;) {
      common[i][j] = before[i] == after[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  for (std::size_t i = 0, j = 0; i < before.size() || j < after.size();) {
    if (i < before.size() && j < after.size() && before[i] == after[j]) {
      ++i, ++j;
    } else if (j == after.size() || (i < before.size() && common[i + 1][j] >= common[i][j + 1])) {
      out << "  - " << printable(before[i++]) << '\n';
    } else {
      out << "  + " << printable(after[j++]) << '\n';
    }
  }
}

/// The objects that admission has; a caller who may not list them learns how to apply without the comparison.
Result<std::map<Key, Json>> applied_objects(const Context& context) {
  const auto listed = context.client.objects({});
  if (!listed) {
    auto error = listed.error();
    if (error.code == Code::kPermissionDenied)
      error.remedy = "the objects that exist cannot be compared: pass --replace to apply without it";
    return fail(std::move(error));
  }
  std::map<Key, Json> out;
  for (const auto& object : listed->objects()) {
    const auto read = Json::parse(object.manifest());
    if (read) out[{object.kind(), object.namespace_(), object.name()}] = written(*read);
  }
  return out;
}

}  // namespace

Status check_replaced(const Context& context, bool dry_run) {
  constexpr std::size_t kMostLines = 2000;
  QM_ASSIGN(auto known, applied_objects(context));
  std::size_t replaced = 0, all = 0;
  for (const auto& manifest : context.manifests) {
    for (const auto& [document, typed] : config::load_text(manifest.text, manifest.source).objects) {
      ++all;
      const auto content = written(document.content);
      const auto [at, added] = known.emplace(Key{document.kind, document.ns, document.name}, content);
      const auto before = std::exchange(at->second, content);
      if (added || before == content) continue;
      ++replaced;
      const auto old_lines = lines_of(to_yaml(before)), new_lines = lines_of(to_yaml(content));
      context.err << fmt::format("{}:{}: {} {} exists with other content\n", document.file, document.line,
                                 document.kind, document.name);
      if (old_lines.size() < kMostLines && new_lines.size() < kMostLines)
        put_difference(old_lines, new_lines, context.err);
    }
  }
  if (replaced == 0 || dry_run) return {};
  return fail(Error{Code::kFailedPrecondition,
                    fmt::format("{} of {} objects would be replaced; nothing was applied", replaced, all),
                    {},
                    "compare the lines above, then pass --replace, or use another name"});
}

}  // namespace qm::cli
