#include "fields.hpp"
#include "known_kinds.hpp"
#include "qm/config/yaml_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

namespace qm::config {
namespace {

using Severity = Diagnostic::Severity;

const std::vector<KindReader>& kinds() {
  static const std::vector<KindReader> all = [] {
    std::vector<KindReader> out = kueue_kinds();
    for (auto& kind : karpenter_kinds()) out.push_back(std::move(kind));
    for (auto& kind : own_kinds()) out.push_back(std::move(kind));
    out.push_back(job_kind());
    return out;
  }();
  return all;
}

/// "kueue.x-k8s.io/v1beta1" -> group and version; "v1" has no group.
std::pair<std::string_view, std::string_view> split_api(std::string_view api) {
  const auto slash = api.find('/');
  if (slash == std::string_view::npos) return {std::string_view(), api};
  return {api.substr(0, slash), api.substr(slash + 1)};
}

void carry_whole(Object& object) {
  for (const auto& [key, value] : object.document.content.members()) object.document.carried.push_back(key);
}

/// The documents inside a List, each with its own lines.
std::vector<Document> unfold(Document document) {
  const Json& items = document.content["items"];
  if (!document.content["kind"].string().ends_with("List") || !items.is_array()) {
    std::vector<Document> one;
    one.push_back(std::move(document));
    return one;
  }
  std::vector<Document> out;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string prefix = fmt::format("items[{}]", i);
    Document item;
    item.file = document.file;
    item.content = items.at(i);
    const auto own = document.lines.find(prefix);
    item.line = own == document.lines.end() ? document.line : own->second;
    for (auto it = document.lines.lower_bound(prefix + "."); it != document.lines.end(); ++it) {
      if (!it->first.starts_with(prefix + ".")) break;
      item.lines.emplace(it->first.substr(prefix.size() + 1), it->second);
    }
    out.push_back(std::move(item));
  }
  return out;
}

void identify(Document& document) {
  const Json& content = document.content;
  document.api_version = content["apiVersion"].string();
  document.kind = content["kind"].string();
  document.ns = content["metadata"]["namespace"].string();
  document.name = content["metadata"]["name"].string();
}

/// The reader of the document's kind; null if it is carried unparsed, and then `scope` has the reason if it concerns
/// the author.
const KindReader* reader_of(const Document& document, Scope& scope) {
  if (!document.content.is_object()) {
    scope.warn("", "is not an object, it has no effect",
               "write a Kubernetes object with apiVersion and kind, or remove it");
    return nullptr;
  }
  if (document.kind.empty()) {
    if (!document.api_version.empty()) {
      scope.error("kind", "is missing", fmt::format("add the kind of this {} object", document.api_version));
      return nullptr;
    }
    scope.warn("", "has neither apiVersion nor kind, it has no effect", "add both if it is meant as an object");
    return nullptr;
  }
  const auto [group, version] = split_api(document.api_version);
  for (const KindReader& reader : kinds()) {
    if (reader.kind != document.kind || reader.group != group) continue;
    if (std::find(reader.versions.begin(), reader.versions.end(), version) != reader.versions.end()) return &reader;
  }
  if (auto fault = kind_fault(group, version, document.kind); !fault.message.empty())
    scope.error(fault.field, std::move(fault.message), std::move(fault.remedy));
  return nullptr;
}

void load_document(Document document, Origin origin, Loaded& out) {
  identify(document);
  Object object;
  object.document = std::move(document);
  Scope scope(object.document, origin);
  if (const KindReader* reader = reader_of(object.document, scope)) {
    object.typed =
        reader->read(Cursor{&scope, {}, &object.document.content}, split_api(object.document.api_version).second);
  } else {
    carry_whole(object);
  }
  std::move(scope.diagnostics().begin(), scope.diagnostics().end(), std::back_inserter(out.diagnostics));
  if (!scope.failed()) out.objects.push_back(std::move(object));
}

void warn_of_repeats(Loaded& loaded) {
  std::map<std::tuple<std::string, std::string, std::string, std::string>, const Document*> seen;
  for (const Object& object : loaded.objects) {
    const Document& document = object.document;
    if (std::holds_alternative<std::monostate>(object.typed) || document.name.empty()) continue;
    const std::string group(split_api(document.api_version).first);
    const auto [first, fresh] = seen.try_emplace({group, document.kind, document.ns, document.name}, &document);
    if (fresh) continue;
    loaded.diagnostics.push_back({Severity::kWarning, document.file, document.line, "metadata.name",
                                  fmt::format("{} {} is also given in {}:{}", document.kind, document.name,
                                              first->second->file, first->second->line),
                                  "keep one of them; the later one counts"});
  }
}

void add_text(std::string_view text, const std::string& file, Loaded& out, Origin origin = Origin::kAuthor) {
  YamlText yaml = read_yaml(text, file);
  for (Document& document : yaml.documents) {
    for (Document& item : unfold(std::move(document))) load_document(std::move(item), origin, out);
  }
  std::move(yaml.diagnostics.begin(), yaml.diagnostics.end(), std::back_inserter(out.diagnostics));
}

void load_file(const std::string& path, Loaded& out) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  std::ifstream in(path, std::ios::binary);
  if (error || !in) {
    out.diagnostics.push_back({Severity::kError, path, 1, {}, "cannot be read", "check the path and its permissions"});
    return;
  }
  // One byte more than allowed is enough for a refusal.
  std::string text(std::min<std::uintmax_t>(size, kMaxBytes + 1), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  add_text(text, path, out);
}

}  // namespace

std::string Diagnostic::to_string() const {
  return fmt::format("{}:{}: {}{}{}{}{}{}", file, line, severity == Severity::kWarning ? "warning: " : "", field,
                     field.empty() ? "" : ": ", message, remedy.empty() ? "" : "; ", remedy);
}

bool Loaded::ok() const {
  return std::none_of(diagnostics.begin(), diagnostics.end(),
                      [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

Loaded load_text(std::string_view text, const std::string& file) {
  Loaded out;
  add_text(text, file, out);
  warn_of_repeats(out);
  return out;
}

Loaded load_stored(std::string_view text, const std::string& file) {
  Loaded out;
  add_text(text, file, out, Origin::kStore);
  return out;
}

Status accept(const Loaded& loaded, UnknownFields unknown) {
  std::vector<const Diagnostic*> refused;
  for (const Diagnostic& d : loaded.diagnostics) {
    const bool refuses = d.severity == Severity::kError || (d.unknown_field && unknown == UnknownFields::kRefuse);
    if (refuses) refused.push_back(&d);
  }
  if (refused.empty()) return {};
  if (refused.size() == 1) {
    const auto& d = *refused.front();
    return fail(Error{Code::kInvalid, fmt::format("{}:{}: {}", d.file, d.line, d.message), d.field, d.remedy});
  }
  std::string lines;
  for (const Diagnostic* d : refused) {
    Diagnostic error = *d;
    error.severity = Severity::kError;
    lines += (lines.empty() ? "" : "\n") + error.to_string();
  }
  return fail(Error{Code::kInvalid, std::move(lines), {}, {}});
}

Loaded load_path(const std::string& path) {
  namespace fs = std::filesystem;
  Loaded out;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    load_file(path, out);
  } else {
    std::set<std::string> files;
    for (auto it = fs::recursive_directory_iterator(path, error); !error && it != fs::recursive_directory_iterator();
         it.increment(error)) {
      const std::string suffix = it->path().extension();
      if (it->is_regular_file() && (suffix == ".yaml" || suffix == ".yml" || suffix == ".json"))
        files.insert(it->path());
    }
    if (error) {
      out.diagnostics.push_back(
          {Severity::kError, path, 1, {}, "cannot be read: " + error.message(), "check its permissions"});
    }
    for (const std::string& file : files) load_file(file, out);
  }
  warn_of_repeats(out);
  return out;
}

std::vector<std::string> typed_kinds() {
  std::vector<std::string> out;
  for (const KindReader& reader : kinds()) {
    for (const std::string_view version : reader.versions) {
      out.push_back(fmt::format("{}/{} {}", reader.group, version, reader.kind));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace qm::config
