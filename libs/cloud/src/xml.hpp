#pragma once
#include "qm/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace qm::cloud {

/// Reads XML incrementally, the subset that the services use: elements, text, CDATA, the five named entities and
/// character references. Attributes, comments and processing instructions are skipped, prefixes removed. A DOCTYPE
/// is refused, so that no response can define an entity.
///
/// Threads  one. Fails: kInvalid with the offset; depth is bound to kMaxDepth.
class XmlReader {
 public:
  static constexpr std::size_t kMaxDepth = 64;
  enum class Kind { kStart, kEnd, kText, kDone };
  struct Event {
    Kind kind = Kind::kDone;
    std::string text;  ///< the element's name, or the unescaped text
  };

  explicit XmlReader(std::string_view text) : text_(text) {}
  Result<Event> next();

 private:
  Result<Event> next_text();
  Result<Event> next_tag();
  Status skip_past(std::string_view end);
  [[nodiscard]] tl::unexpected<Error> broken(std::string_view what) const;

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  std::string pending_end_;  ///< of <a/>: its end follows its start
  bool seen_root_ = false;
};

/// An element with its children. Lookup of an absent child returns the empty element, so chains are safe.
struct XmlNode {
  static constexpr std::size_t kMaxNodes = 2'000'000;
  std::string name, text;
  std::vector<XmlNode> children;

  [[nodiscard]] const XmlNode& operator[](std::string_view child) const;  ///< the first of that name
  [[nodiscard]] std::string value(std::string_view child) const { return (*this)[child].text; }
  [[nodiscard]] std::int64_t integer(std::string_view child) const;  ///< 0 if absent or not a number
  [[nodiscard]] bool flag(std::string_view child) const { return (*this)[child].text == "true"; }
  /// The members of a list: <item> in EC2, <member> in the other services.
  [[nodiscard]] std::vector<const XmlNode*> items(std::string_view child) const;
};

/// Returns the root element of the document. kInvalid if it is not XML, has more than one root, or exceeds the
/// bounds.
[[nodiscard]] Result<XmlNode> parse_xml(std::string_view text);

}  // namespace qm::cloud
