#include "notices.hpp"

#include "qm/base/log.hpp"

#include <algorithm>

namespace qm::agent {

Status NoticeWatch::report(const SeenNotice& notice, Instant now) {
  QM_ASSIGN(const auto instance, source_->instance());
  pb::AgentFact fact;
  auto& out = *fact.mutable_notice();
  out.set_node(node_);
  out.set_instance_id(instance);
  out.set_kind(notice.kind);
  out.set_action(notice.action);
  out.set_at_us(micros(notice.at));
  out.set_seen_us(micros(now));
  if (!facts_.add(node_, std::move(fact))) return fail(Code::kExhausted, "too many facts are unacknowledged");
  reported_.insert(notice);
  log::info("notice of the cloud", {{"node", node_},
                                    {"instance", instance},
                                    {"kind", notice.kind.empty() ? "spot" : notice.kind},
                                    {"action", notice.action},
                                    {"at", to_rfc3339(notice.at)}});
  return {};
}

Result<NoticeWatch::Look> NoticeWatch::try_look(Instant now) {
  QM_ASSIGN(const auto seen, source_->read(now));
  std::erase_if(reported_, [&](const SeenNotice& old) { return std::ranges::find(seen, old) == seen.end(); });
  Look out = Look::kNothing;
  for (const auto& notice : seen) {
    if (reported_.contains(notice)) continue;
    QM_TRY(report(notice, now));
    out = Look::kNotice;
  }
  return out;
}

NoticeWatch::Look NoticeWatch::look(Instant now) {
  if (now < not_before_) return Look::kBackOff;
  const auto result = try_look(now);
  if (result) {
    errors_ = 0;
    return *result;
  }
  constexpr int kMostDoublings = 5;
  const Duration pause = std::chrono::seconds(1 << std::min(errors_++, kMostDoublings));
  not_before_ = now + std::min<Duration>(pause, std::chrono::seconds(30));
  log::debug("instance metadata cannot be read", {{"node", node_}, {"error", result.error().to_string()}});
  return Look::kError;
}

}  // namespace qm::agent
