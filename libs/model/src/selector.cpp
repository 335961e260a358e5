// Label selectors in the query form of the Kubernetes API.
//
//   selector    = [ requirement { "," requirement } ]
//   requirement = "!" key | key | key ("=" | "==" | "!=") [ value ] | key ("in" | "notin") "(" value { "," value } ")"
#include "qm/model/resources.hpp"

#include <algorithm>
#include <cctype>

namespace qm {
namespace {

using Op = LabelRequirement::Op;

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<LabelSelector> selector() {
    LabelSelector out;
    space();
    if (at_ == text_.size()) return out;
    for (;;) {
      QM_ASSIGN(LabelRequirement requirement, next());
      out.requirements.push_back(std::move(requirement));
      space();
      if (at_ == text_.size()) return out;
      if (!take(',')) return refuse("\",\" between requirements");
    }
  }

 private:
  Result<LabelRequirement> next() {
    LabelRequirement out;
    space();
    if (take('!')) {
      out.op = Op::kDoesNotExist;
      space();
      out.key = word();
      if (out.key.empty()) return refuse("a label's key");
      return out;
    }
    out.key = word();
    if (out.key.empty()) return refuse("a label's key");
    space();
    if (at_ == text_.size() || text_[at_] == ',') return out;
    if (take('=')) {
      take('=');
      out.op = Op::kIn;
    } else if (take('!')) {
      if (!take('=')) return refuse("\"=\" after \"!\"");
      out.op = Op::kNotIn;
    } else {
      const std::size_t start = at_;
      const std::string op = word();
      if (op != "in" && op != "notin") {
        at_ = start;
        return refuse("one of =, ==, !=, in, notin");
      }
      out.op = op == "in" ? Op::kIn : Op::kNotIn;
      QM_ASSIGN(out.values, set());
      return out;
    }
    space();
    out.values.push_back(word());
    return out;
  }

  Result<std::vector<std::string>> set() {
    space();
    if (!take('(')) return refuse("\"(\" before the values");
    std::vector<std::string> values;
    do {
      space();
      values.push_back(word());
      space();
    } while (take(','));
    if (!take(')')) return refuse("\")\" after the values");
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  std::string word() {
    const auto part = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
    };
    const std::size_t start = at_;
    while (at_ < text_.size() && part(text_[at_])) ++at_;
    return std::string(text_.substr(start, at_ - start));
  }
  void space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view expected) const {
    return fail(Error{Code::kInvalid,
                      fmt::format("label selector \"{}\": expected {} at position {}", text_, expected, at_ + 1),
                      {},
                      "write it as in a=b,c!=d,e in (f,g),h,!i"});
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool holds(const LabelRequirement& requirement, const Labels& labels) {
  const auto found = labels.find(requirement.key);
  const bool present = found != labels.end();
  const auto listed = [&] {
    return std::find(requirement.values.begin(), requirement.values.end(), found->second) != requirement.values.end();
  };
  switch (requirement.op) {
    case Op::kIn:
      return present && listed();
    case Op::kNotIn:
      return !present || !listed();
    case Op::kExists:
      return present;
    case Op::kDoesNotExist:
      return !present;
  }
  return false;
}

}  // namespace

bool LabelSelector::matches(const Labels& labels) const {
  return std::all_of(requirements.begin(), requirements.end(),
                     [&](const LabelRequirement& requirement) { return holds(requirement, labels); });
}

Result<LabelSelector> LabelSelector::parse(std::string_view text) { return Reader(text).selector(); }

}  // namespace qm
