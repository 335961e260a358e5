#include "notices.hpp"

#include "qm/base/json.hpp"
#include "qm/base/log.hpp"

namespace qm::agent {

Status NoticeWatch::learn(const std::string& path, std::string& known) {
  if (!known.empty()) return {};
  QM_ASSIGN(auto text, metadata_.get(node_, path));
  if (!text || text->empty()) return fail(Code::kNotFound, "the metadata of {} has no {}", node_, path);
  known = std::move(*text);
  return {};
}

Result<NoticeWatch::Look> NoticeWatch::try_look(Instant now) {
  QM_TRY(learn("instance-life-cycle", life_cycle_));
  if (life_cycle_ != "spot") return Look::kNeverAgain;
  QM_ASSIGN(const auto text, metadata_.get(node_, "spot/instance-action"));
  if (!text) {
    reported_.clear();
    return Look::kNothing;
  }
  if (*text == reported_) return Look::kNothing;
  QM_ASSIGN(const auto body, Json::parse(*text));
  QM_ASSIGN(const auto at, from_rfc3339(body["time"].string()));
  QM_TRY(learn("instance-id", instance_));
  pb::AgentFact fact;
  auto& notice = *fact.mutable_notice();
  notice.set_node(node_);
  notice.set_instance_id(instance_);
  notice.set_action(body["action"].string());
  notice.set_at_us(micros(at));
  notice.set_seen_us(micros(now));
  if (!facts_.add(node_, std::move(fact))) return fail(Code::kExhausted, "too many facts are unacknowledged");
  reported_ = *text;
  log::info("spot notice", {{"node", node_}, {"instance", instance_}, {"notice", *text}});
  return Look::kNotice;
}

NoticeWatch::Look NoticeWatch::look(Instant now) {
  const auto result = try_look(now);
  if (result) return *result;
  log::debug("instance metadata cannot be read", {{"node", node_}, {"error", result.error().to_string()}});
  return Look::kError;
}

}  // namespace qm::agent
