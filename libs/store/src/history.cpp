#include "qm/store/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace qm::store {
namespace {

const TermEnd* find(const Ancestors& ancestors, std::uint64_t term) {
  const auto* found = std::ranges::find(ancestors, term, &TermEnd::term);
  return found == ancestors.end() ? nullptr : found;
}

Error bad(std::string_view text) {
  return {
      Code::kInvalid, fmt::format("\"{}\" is not a history position", text), {}, "write TERM/SEQUENCE TERM/END ..."};
}

Result<TermEnd> pair_of(std::string_view text) {
  TermEnd out;
  const char* const end = text.data() + text.size();
  auto parsed = std::from_chars(text.data(), end, out.term);
  if (parsed.ec != std::errc() || parsed.ptr == end || *parsed.ptr != '/' || out.term == 0) return fail(bad(text));
  parsed = std::from_chars(parsed.ptr + 1, end, out.end);
  if (parsed.ec != std::errc() || parsed.ptr != end) return fail(bad(text));
  return out;
}

/// Removes and returns the first word.
std::string_view first_of(std::string_view& text) {
  const auto space = std::min(text.find(' '), text.size());
  const auto word = text.substr(0, space);
  text.remove_prefix(std::min(space + 1, text.size()));
  return word;
}

}  // namespace

Ancestors ancestors_of_next(const HistoryPosition& last) {
  const auto published_until = last.ancestors.front().end;
  if (last.term == 0 || last.sequence <= published_until) return last.ancestors;
  Ancestors out{TermEnd{last.term, last.sequence}};
  std::copy_n(last.ancestors.begin(), kAncestors - 1, out.begin() + 1);
  return out;
}

Succession succession(const HistoryPosition& applied, const HistoryPosition& event) {
  if (applied.term == 0 || event.term == 0 || applied.term == event.term) return Succession::kSuccessor;
  if (const auto* its = find(applied.ancestors, event.term))
    return event.sequence <= its->end ? Succession::kEarlier : Succession::kAbandoned;
  if (const auto& before = applied.ancestors.front(); applied.sequence <= before.end) {
    // No event of its term was published, so no later term names it: the applied history ends with its newest
    // ancestor.
    HistoryPosition shorter{before.term, before.end, {}};
    std::copy(applied.ancestors.begin() + 1, applied.ancestors.end(), shorter.ancestors.begin());
    return succession(shorter, event);
  }
  if (const auto* ours = find(event.ancestors, applied.term))
    return applied.sequence <= ours->end ? Succession::kSuccessor : Succession::kBroken;
  return Succession::kBroken;
}

bool lost(const HistoryPosition& applied, const HistoryPosition& event) {
  if (applied.term == 0) return false;
  const auto* ours = find(event.ancestors, applied.term);
  return ours != nullptr && applied.sequence > ours->end;
}

bool replaced(const HistoryPosition& applied, const HistoryPosition& event) {
  if (applied.term == 0 || event.term == 0 || succession(applied, event) != Succession::kBroken) return false;
  // A term older than all ancestors of the event is not known to be of another history.
  const auto& oldest = event.ancestors.back();
  return oldest.term == 0 || applied.sequence > oldest.end;
}

std::string to_text(const Ancestors& ancestors) {
  std::string out;
  for (const auto& [term, end] : ancestors) {
    if (term != 0) out += fmt::format("{}{}/{}", out.empty() ? "" : " ", term, end);
  }
  return out;
}

Result<Ancestors> ancestors_from_text(std::string_view text) {
  Ancestors out{};
  for (std::size_t i = 0; !text.empty(); ++i) {
    if (i == kAncestors) return fail(bad(text));
    QM_ASSIGN(out[i], pair_of(first_of(text)));
  }
  return out;
}

std::string to_text(const HistoryPosition& position) {
  if (position.term == 0) return {};
  const auto ancestors = to_text(position.ancestors);
  return fmt::format("{}/{}{}{}", position.term, position.sequence, ancestors.empty() ? "" : " ", ancestors);
}

Result<HistoryPosition> history_position(std::string_view text) {
  if (text.empty()) return HistoryPosition{};
  QM_ASSIGN(const auto own, pair_of(first_of(text)));
  QM_ASSIGN(const auto ancestors, ancestors_from_text(text));
  return HistoryPosition{own.term, own.end, ancestors};
}

}  // namespace qm::store
