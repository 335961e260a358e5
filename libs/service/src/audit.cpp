// The audit trail: one row for each request that changes something, or was refused, in the transaction of its batch.
#include "host_impl.hpp"

#include <algorithm>

namespace qm::service {
namespace {

constexpr std::size_t kMostText = 1000;

/// Converts text of a caller for a text column, which accepts valid UTF-8 only.
std::string plain(std::string_view text) {
  std::string out(text.substr(0, kMostText));
  std::ranges::replace_if(
      out, [](char c) { return c < 0x20 || c == 0x7f; }, '?');
  return out;
}

store::AppendRow audit_row(const Input& in, const Error* refusal, const std::string& decision) {
  const auto outcome =
      refusal == nullptr ? std::string("ok") : fmt::format("{}: {}", name_of(refusal->code), refusal->message);
  return {
      "audit",
      {"caller", "roles", "method", "object", "request_id", "outcome", "decision"},
      {plain(in.caller), plain(in.roles), plain(in.name), plain(in.object), plain(in.id), plain(outcome), decision}};
}

}  // namespace

void Host::Impl::audit(Batch& batch) const {
  auto& rows = batch.commit.appends;
  for (const auto& answer : batch.effects.answers) {
    const auto& in = batch.inputs[answer.input];
    if (in.source != Source::kRequest || in.caller.empty()) continue;
    rows.push_back(audit_row(in, answer.reply ? nullptr : &answer.reply.error(), batch.decision_id));
  }
  for (const auto& p : batch.pending) {
    const auto& refusal = p.denied ? p.denied : p.refused;
    if (!refusal || p.dropped || p.input.source != Source::kRequest || p.input.caller.empty()) continue;
    rows.push_back(audit_row(p.input, &*refusal, batch.decision_id));
  }
}

void Host::note_denied(Input input, const Error& error) {
  auto& m = *impl_;
  {
    std::lock_guard lock(m.mutex);
    if (m.stopping || m.lost || m.mailbox.full()) return;
    Pending denied{std::move(input), {}, std::nullopt, 0};
    denied.denied = error;
    m.mailbox.push(std::move(denied));
    m.counters.mailbox = m.mailbox.size();
  }
  m.arrived.notify_one();
}

}  // namespace qm::service
