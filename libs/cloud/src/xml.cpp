#include "xml.hpp"

#include "text.hpp"

#include <charconv>

namespace qm::cloud {
namespace {

void append_utf8(std::string& out, std::uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

/// Appends the character of "&name;"; false if the name is not one of the five entities or a character reference.
bool append_entity(std::string& out, std::string_view name) {
  static constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  for (const auto& [known, c] : kNamed) {
    if (name == known) {
      out += c;
      return true;
    }
  }
  if (!name.starts_with('#')) return false;
  name.remove_prefix(1);
  int base = 10;
  if (name.starts_with('x')) {
    name.remove_prefix(1);
    base = 16;
  }
  std::uint32_t c = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), c, base);
  const bool whole = error == std::errc{} && end == name.data() + name.size();
  if (!whole || c == 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return false;
  append_utf8(out, c);
  return true;
}

}  // namespace

tl::unexpected<Error> XmlReader::broken(std::string_view what) const {
  return fail(Code::kInvalid, "the XML is broken at byte {}: {}", at_, what);
}

Status XmlReader::skip_past(std::string_view end) {
  const auto found = text_.find(end, at_);
  if (found == std::string_view::npos) return broken(fmt::format("no \"{}\" follows", end));
  at_ = found + end.size();
  return {};
}

Result<XmlReader::Event> XmlReader::next() {
  if (!pending_end_.empty()) {
    Event end{Kind::kEnd, std::move(pending_end_)};
    pending_end_.clear();
    return end;
  }
  while (at_ < text_.size()) {
    const auto rest = text_.substr(at_);
    if (rest.starts_with("<?")) {
      QM_TRY(skip_past("?>"));
    } else if (rest.starts_with("<!--")) {
      QM_TRY(skip_past("-->"));
    } else if (rest.starts_with("<![CDATA[")) {
      if (open_.empty()) return broken("text outside the root");
      const auto from = at_ + 9;
      QM_TRY(skip_past("]]>"));
      return Event{Kind::kText, std::string(text_.substr(from, at_ - 3 - from))};
    } else if (rest.starts_with("<!")) {
      return broken("a document type is refused");
    } else if (rest.starts_with('<')) {
      return next_tag();
    } else if (open_.empty()) {
      const auto until = std::min(text_.find('<', at_), text_.size());
      if (!trim(text_.substr(at_, until - at_)).empty()) return broken("text outside the root");
      at_ = until;
    } else {
      return next_text();
    }
  }
  if (!open_.empty()) return broken(fmt::format("the end comes before </{}>", open_.back()));
  if (!seen_root_) return broken("there is no element");
  return Event{};
}

Result<XmlReader::Event> XmlReader::next_text() {
  const auto until = std::min(text_.find('<', at_), text_.size());
  Event event{Kind::kText, {}};
  while (at_ < until) {
    if (text_[at_] != '&') {
      event.text += text_[at_++];
      continue;
    }
    constexpr std::size_t kLongest = 10;  // "&#x10FFFF;"
    const auto end = text_.substr(at_, kLongest).find(';');
    if (end == std::string_view::npos || !append_entity(event.text, text_.substr(at_ + 1, end - 1))) {
      return broken("an unknown entity");
    }
    at_ += end + 1;
  }
  return event;
}

Result<XmlReader::Event> XmlReader::next_tag() {
  const auto begin = at_;
  // A '>' inside an attribute's quotes does not end the tag.
  char quote = 0;
  std::size_t end = begin + 1;
  for (; end < text_.size(); ++end) {
    const char c = text_[end];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '>') {
      break;
    }
  }
  if (end >= text_.size()) return broken("a tag that does not end");
  auto inner = text_.substr(begin + 1, end - begin - 1);
  const bool closing = inner.starts_with('/');
  if (closing) inner.remove_prefix(1);
  const bool empty = !closing && inner.ends_with('/');
  if (empty) inner.remove_suffix(1);
  auto name = inner.substr(0, inner.find_first_of(" \t\r\n"));
  if (const auto colon = name.find(':'); colon != std::string_view::npos) name.remove_prefix(colon + 1);
  if (name.empty()) return broken("a tag without a name");
  if (closing) {
    if (open_.empty() || open_.back() != name) return broken(fmt::format("</{}> closes nothing", name));
    open_.pop_back();
    at_ = end + 1;
    return Event{Kind::kEnd, std::string(name)};
  }
  if (open_.empty() && seen_root_) return broken("a second root");
  if (open_.size() >= kMaxDepth) return broken(fmt::format("more than {} levels", kMaxDepth));
  seen_root_ = true;
  at_ = end + 1;
  if (empty) {
    pending_end_ = name;
  } else {
    open_.emplace_back(name);
  }
  return Event{Kind::kStart, std::string(name)};
}

const XmlNode& XmlNode::operator[](std::string_view child) const {
  static const XmlNode kAbsent;
  for (const auto& node : children) {
    if (node.name == child) return node;
  }
  return kAbsent;
}

std::int64_t XmlNode::integer(std::string_view child) const {
  const auto& digits = (*this)[child].text;
  std::int64_t out = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), out);
  return out;
}

std::vector<const XmlNode*> XmlNode::items(std::string_view child) const {
  std::vector<const XmlNode*> out;
  for (const auto& node : (*this)[child].children) {
    if (node.name == "item" || node.name == "member") out.push_back(&node);
  }
  return out;
}

Result<XmlNode> parse_xml(std::string_view text) {
  XmlReader reader(text);
  XmlNode document;  // its one child is the root
  std::vector<XmlNode*> path{&document};
  std::size_t nodes = 0;
  while (true) {
    QM_ASSIGN(auto event, reader.next());
    switch (event.kind) {
      case XmlReader::Kind::kStart:
        if (++nodes > XmlNode::kMaxNodes)
          return fail(Code::kInvalid, "the XML has over {} elements", XmlNode::kMaxNodes);
        path.back()->children.push_back(XmlNode{std::move(event.text), {}, {}});
        path.push_back(&path.back()->children.back());
        break;
      case XmlReader::Kind::kText:
        path.back()->text += event.text;
        break;
      case XmlReader::Kind::kEnd:
        // The whitespace between children is layout, not content.
        if (!path.back()->children.empty()) path.back()->text = trim(path.back()->text);
        path.pop_back();
        break;
      case XmlReader::Kind::kDone:
        return std::move(document.children.front());
    }
  }
}

}  // namespace qm::cloud
