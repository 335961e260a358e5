// The document of the priority expander, and what may be misread in it.
#include "qm/node_groups/priorities.hpp"

#include "qm/base/parse.hpp"
#include "qm/config/yaml_reader.hpp"

#include <re2/re2.h>

#include <algorithm>
#include <cctype>

namespace qm::node_groups {

/// One number with its expressions.
struct Priorities::Row {
  std::int64_t number = 0;
  std::vector<std::shared_ptr<const RE2>> expressions;
};

namespace {

tl::unexpected<Error> bad_document(std::string message, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(message), std::string(kPriorities), std::move(remedy)});
}

Result<std::shared_ptr<const RE2>> expression_of(const std::string& number, const Json& text) {
  RE2::Options options;
  options.set_log_errors(false);
  auto out = std::make_shared<const RE2>(text.string(), options);
  if (!text.is_string() || text.string().empty())
    return bad_document(fmt::format("priority {} has an expression that is no text", number), "quote it");
  if (!out->ok()) {
    return bad_document(
        fmt::format("the expression '{}' of priority {} cannot be read: {}", text.string(), number, out->error()),
        "correct it; the syntax is that of RE2");
  }
  return out;
}

bool names(const RE2& expression, std::string_view word) {
  std::string letters;
  for (const char c : expression.pattern()) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return letters.find(word) != std::string::npos;
}

}  // namespace

Priorities::Priorities() = default;
Priorities::Priorities(const Priorities&) = default;
Priorities::Priorities(Priorities&&) noexcept = default;
Priorities& Priorities::operator=(const Priorities&) = default;
Priorities& Priorities::operator=(Priorities&&) noexcept = default;
Priorities::~Priorities() = default;

Result<Priorities> Priorities::parse(std::string_view text) {
  const auto yaml = config::read_yaml(text, std::string(kPriorities));
  for (const auto& d : yaml.diagnostics) {
    if (d.severity == config::Diagnostic::Severity::kError) return bad_document(d.to_string(), d.remedy);
  }
  constexpr const char* kForm = "write a map of numbers, each with a list of expressions: 10: [.*-ondemand.*]";
  if (yaml.documents.size() != 1 || !yaml.documents.front().content.is_object())
    return bad_document("it is not a map of priorities", kForm);
  Priorities out;
  for (const auto& [key, list] : yaml.documents.front().content.members()) {
    const auto number = whole_number(key);
    if (!number || *number < 0) return bad_document(fmt::format("'{}' is not a priority", key), kForm);
    if (!list.is_array() || list.size() == 0)
      return bad_document(fmt::format("priority {} has no list of expressions", key), kForm);
    Row row{*number, {}};
    for (const Json& each : list.items()) {
      QM_ASSIGN(auto expression, expression_of(key, each));
      row.expressions.push_back(std::move(expression));
    }
    out.rows_.push_back(std::move(row));
  }
  std::ranges::sort(out.rows_, {}, &Row::number);
  return out;
}

std::optional<std::int64_t> Priorities::number_of(const std::string& group, PriorityOrder order) const {
  std::optional<std::int64_t> out;
  for (const Row& row : rows_) {
    const bool matches =
        std::ranges::any_of(row.expressions, [&](const auto& each) { return RE2::PartialMatch(group, *each); });
    if (!matches) continue;
    out = row.number;
    if (order == PriorityOrder::kLowestWins) break;
  }
  return out;
}

std::vector<std::string> Priorities::lint(PriorityOrder order) const {
  std::vector<std::string> out;
  if (rows_.size() < 2) return out;
  const auto first_with = [&](std::string_view word) {
    return std::ranges::find_if(rows_, [&](const Row& row) {
      return std::ranges::any_of(row.expressions, [&](const auto& each) { return names(*each, word); });
    });
  };
  const auto spot = first_with("spot"), reliable = first_with("ondemand");
  const bool spot_is_higher = spot != rows_.end() && reliable != rows_.end() && reliable->number < spot->number;
  if (order == PriorityOrder::kHighestWins && spot_is_higher) {
    out.push_back(
        fmt::format("spot capacity (priority {}) is preferred to on-demand capacity (priority {}), because the highest "
                    "number wins, as in Cluster Autoscaler; if the lowest number is to win, set "
                    "expander-priority-order=lowest-wins",
                    spot->number, reliable->number));
  }
  if (order == PriorityOrder::kLowestWins) {
    const auto& upstream = rows_.back();
    out.push_back(
        fmt::format("Cluster Autoscaler would choose priority {} ({}) first, because its highest number wins; here the "
                    "lowest number wins, by expander-priority-order",
                    upstream.number, upstream.expressions.front()->pattern()));
  }
  return out;
}

}  // namespace qm::node_groups
