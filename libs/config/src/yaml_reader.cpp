// YAML events become JSON values directly, so that every bound is checked while parsing: an alias costs the nodes
// that it expands to before any of them is copied, and an oversized text is refused at the bound, not after it.
#include "qm/config/yaml_reader.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <istream>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>

namespace qm::config {
namespace {

/// Fields with longer paths report the line of their parent.
constexpr std::size_t kLongestPath = 512;

struct Refusal {
  int line;
  std::string field, message, remedy;
};

bool all_digits(std::string_view text, std::string_view digits) {
  return !text.empty() && text.find_first_not_of(digits) == std::string_view::npos;
}

std::optional<Json> integer(std::string_view text) {
  const bool minus = text[0] == '-';
  std::string_view rest = minus || text[0] == '+' ? text.substr(1) : text;
  int base = 10;
  if (rest.starts_with("0x") || rest.starts_with("0X")) {
    base = 16;
  } else if (rest.starts_with("0o")) {
    base = 8;
  } else if (rest.starts_with("0b")) {
    base = 2;
  }
  if (base != 10) {
    rest.remove_prefix(2);
  } else if (rest.size() > 1 && rest[0] == '0') {
    base = 8;
  }
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  const std::size_t many = base == 16 ? kDigits.size() : static_cast<std::size_t>(base);
  if (!all_digits(rest, kDigits.substr(0, many))) return std::nullopt;
  std::uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), magnitude, base);
  if (error != std::errc() || end != rest.data() + rest.size()) return std::nullopt;
  constexpr std::uint64_t kMost = std::uint64_t{1} << 63;
  if (magnitude > kMost || (magnitude == kMost && !minus))
    return Json(static_cast<double>(magnitude) * (minus ? -1 : 1));
  return Json(static_cast<std::int64_t>(minus ? -magnitude : magnitude));
}

std::optional<Json> real(std::string_view text) {
  const std::string_view rest = text[0] == '-' || text[0] == '+' ? text.substr(1) : text;
  if (rest.empty() || rest.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  if (rest[0] != '.' && (rest[0] < '0' || rest[0] > '9')) return std::nullopt;
  const std::string_view number = text[0] == '+' ? rest : text;
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return Json(value);
}

/// Parses as Kubernetes does, including single letters and underscores in numbers.
Json plain_scalar(const std::string& text) {
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"}) {
    if (text == yes) return Json(true);
  }
  for (const char* no : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"}) {
    if (text == no) return Json(false);
  }
  if (const char c = text[0]; c == '-' || c == '+' || c == '.' || (c >= '0' && c <= '9')) {
    std::string number = text;
    std::erase(number, '_');
    if (auto value = integer(number)) return std::move(*value);
    if (auto value = real(number)) return std::move(*value);
  }
  return Json(text);
}

class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(const std::string& file) : file_(file) {}

  std::vector<Document> documents;

  void OnDocumentStart(const YAML::Mark& mark) override {
    document_ = Document{};
    document_.file = file_;
    document_.line = mark.line + 1;
    anchors_.clear();
  }
  void OnDocumentEnd() override {
    if (!document_.content.is_null()) documents.push_back(std::move(document_));
  }
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor, Json(), "null", true); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool plain = tag == "?" && !text.empty();
    leaf(mark, anchor, plain ? plain_scalar(text) : Json(text), text, plain);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (++aliases_ > kMaxAliases) {
      refuse(mark, fmt::format("more than {} aliases", kMaxAliases), "write the values out");
    }
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) refuse(mark, "an alias is inside the node that it names", "write the value out");
    const Anchored& target = found->second;
    grow(mark, target.size);
    if (!wants_key()) return attach(mark, Json(target.value), target.size);
    if (!target.value.is_string()) refuse(mark, "a key is not a string", "quote it");
    take_key(mark, target.value.string(), false);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, Json(Json::Array()));
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, Json(Json::Object()));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  /// The size of a value with its aliases expanded.
  struct Size {
    std::size_t nodes = 1;
    std::size_t height = 0;
  };
  struct Anchored {
    Json value;
    Size size;
  };
  struct Frame {
    Json value;
    YAML::anchor_t anchor = 0;
    YAML::Mark mark;
    Size size{1, 1};
    std::string path;
    std::optional<std::string> key;  ///< of a map: parsed, its value follows
    bool merge = false;              ///< the next value belongs to "<<"
    YAML::Mark key_mark;
    std::unordered_map<std::string, int> seen;
    Json::Object merged;  ///< members from "<<", which the members of the map itself override
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string message, std::string remedy) const {
    throw Refusal{mark.line + 1, stack_.empty() ? std::string() : place(stack_.back()), std::move(message),
                  std::move(remedy)};
  }
  void grow(const YAML::Mark& mark, Size size) {
    nodes_ += size.nodes;
    if (nodes_ > kMaxNodes) refuse(mark, fmt::format("more than {} values", kMaxNodes), "split the file");
    if (stack_.size() + size.height > kMaxDepth) {
      refuse(mark, fmt::format("nested deeper than {} levels", kMaxDepth), "flatten the document");
    }
  }
  static std::string place(const Frame& frame) {
    if (frame.value.is_array()) return fmt::format("{}[{}]", frame.path, frame.value.size());
    if (!frame.key) return frame.path;
    return frame.path.empty() ? *frame.key : fmt::format("{}.{}", frame.path, *frame.key);
  }
  [[nodiscard]] bool wants_key() const {
    return !stack_.empty() && stack_.back().value.is_object() && !stack_.back().key;
  }

  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor, Json value, const std::string& text, bool plain) {
    grow(mark, {1, 0});
    if (anchor != 0) anchors_[anchor] = {value, {1, 0}};
    if (wants_key()) return take_key(mark, text, plain);
    attach(mark, std::move(value), {1, 0});
  }

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Json empty) {
    grow(mark, {1, 1});
    if (wants_key()) refuse(mark, "a key is a list or a map", "quote keys that hold brackets or braces");
    Frame frame;
    frame.value = std::move(empty);
    frame.anchor = anchor;
    frame.mark = mark;
    if (!stack_.empty()) frame.path = note_line(mark);
    stack_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    for (auto& [key, value] : frame.merged) {
      if (frame.seen.emplace(key, 0).second) frame.value.members_mut().emplace_back(std::move(key), std::move(value));
    }
    if (frame.anchor != 0) anchors_[frame.anchor] = {frame.value, frame.size};
    attach(frame.mark, std::move(frame.value), frame.size);
  }

  void take_key(const YAML::Mark& mark, const std::string& text, bool plain) {
    Frame& map = stack_.back();
    map.key = text;
    map.key_mark = mark;
    map.merge = plain && text == "<<";
    if (map.merge) return;
    const auto [seen, fresh] = map.seen.emplace(text, mark.line + 1);
    if (!fresh) refuse(mark, fmt::format("given twice, first on line {}", seen->second), "keep one of them");
  }

  /// The path of the next value; records its line.
  std::string note_line(const YAML::Mark& mark) {
    const Frame& parent = stack_.back();
    std::string path = place(parent);
    if (path.size() > kLongestPath) return path.substr(0, kLongestPath);
    document_.lines.emplace(path, (parent.value.is_object() ? parent.key_mark : mark).line + 1);
    return path;
  }

  void attach(const YAML::Mark& mark, Json value, Size size) {
    if (stack_.empty()) {
      document_.content = std::move(value);
      document_.line = mark.line + 1;
      return;
    }
    Frame& parent = stack_.back();
    parent.size.nodes += size.nodes;
    parent.size.height = std::max(parent.size.height, size.height + 1);
    if (parent.value.is_array()) {
      if (size.height == 0) note_line(mark);
      parent.value.push_back(std::move(value));
      return;
    }
    if (parent.merge) {
      merge(parent, mark, value);
    } else {
      note_line(mark);
      // Keys are known to be unique, so this may skip the search in set().
      parent.value.members_mut().emplace_back(std::move(*parent.key), std::move(value));
    }
    parent.key.reset();
    parent.merge = false;
  }

  /// "<<: *base", or a list of bases of which the first has precedence.
  void merge(Frame& into, const YAML::Mark& mark, const Json& base) {
    if (base.is_array()) {
      for (const Json& item : base.items()) merge(into, mark, item);
      return;
    }
    if (!base.is_object()) refuse(mark, "\"<<\" needs a map or a list of maps", "name an anchor of a map");
    into.merged.insert(into.merged.end(), base.members().begin(), base.members().end());
  }

  const std::string& file_;
  Document document_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t aliases_ = 0;
  std::size_t nodes_ = 0;
};

Diagnostic error_at(const std::string& file, int line, std::string field, std::string message, std::string remedy) {
  return Diagnostic{Diagnostic::Severity::kError, file, line, std::move(field), std::move(message), std::move(remedy)};
}

/// Whether the value is within the bounds of a text, `depth` levels down, without duplicate keys in a map.
bool within_bounds(const Json& value, std::size_t depth, std::size_t& nodes) {
  if (value.is_array() || value.is_object()) ++depth;
  if (++nodes > kMaxNodes || depth > kMaxDepth) return false;
  for (const Json& item : value.items()) {
    if (!within_bounds(item, depth, nodes)) return false;
  }
  const auto& members = value.members();
  nodes += members.size();
  std::vector<std::string_view> keys;
  keys.reserve(members.size());
  for (const auto& [key, member] : members) {
    keys.push_back(key);
    if (!within_bounds(member, depth, nodes)) return false;
  }
  std::ranges::sort(keys);
  return std::ranges::adjacent_find(keys) == keys.end();
}

/// Parses JSON in one line, as programs send it: the same document in a small part of the time, because all of it is
/// on line 1. Returns nothing for any other text, and for invalid JSON: the general parser reports its errors.
std::optional<Document> read_line_of_json(std::string_view text, const std::string& file) {
  if (!text.starts_with('{') || text.find_first_of("\r\n") < text.find_last_not_of(" \r\n")) return std::nullopt;
  auto json = Json::parse(text);
  std::size_t nodes = 0;
  if (!json || !within_bounds(*json, 0, nodes)) return std::nullopt;
  Document out;
  out.file = file;
  out.line = 1;
  out.content = std::move(*json);
  return out;
}

}  // namespace

YamlText read_yaml(std::string_view text, const std::string& file) {
  YamlText out;
  if (text.size() > kMaxBytes) {
    out.diagnostics.push_back(error_at(file, 1, {}, fmt::format("the file has {} bytes, more than 1 MiB", text.size()),
                                       "split it into several files"));
    return out;
  }
  if (auto document = read_line_of_json(text, file)) {
    out.documents.push_back(std::move(*document));
    return out;
  }
  std::istringstream in{std::string(text)};
  Builder builder(file);
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refusal) {
    out.diagnostics.push_back(error_at(file, refusal.line, refusal.field, refusal.message, refusal.remedy));
  } catch (const YAML::Exception& error) {
    const int line = error.mark.is_null() ? 1 : error.mark.line + 1;
    out.diagnostics.push_back(error_at(file, line, {}, fmt::format("not valid YAML: {}", error.msg),
                                       "check indentation, quotes and brackets near here"));
  }
  out.documents = std::move(builder.documents);
  return out;
}

}  // namespace qm::config
