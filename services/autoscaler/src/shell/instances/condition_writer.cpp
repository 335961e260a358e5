#include "qm/autoscaler/condition_writer.hpp"

#include "qm/base/log.hpp"

#include <algorithm>

namespace qm::autoscaler {

void ConditionWriter::write(const Key& key, const std::vector<Condition>& conditions, const Json& others) {
  Published& known = published_[key];
  const std::string text = others.dump();
  if (known.absent || (known.read && known.conditions == conditions && known.others == text)) return;
  const auto failed = [&](const Error& error) {
    known.absent = error.code == Code::kNotFound;
    if (!known.absent && std::exchange(known.error, error.to_string()) != error.to_string())
      log::warn("a status is not written", {{"object", key.second}, {"error", error.to_string()}});
  };
  if (!kind_) {
    if (auto found = locate_()) kind_ = *found;
  }
  if (!kind_) return;
  if (!known.read) {
    const auto object = client_.get(*kind_, key.first, key.second);
    if (!object) return failed(object.error());
    for (const Json& c : (*object)["status"]["conditions"].items()) {
      known.conditions.push_back(
          {c["type"].string(), c["status"].string(), c["reason"].string(), c["message"].string()});
      known.since[c["type"].string()] = c["lastTransitionTime"].string();
    }
    known.read = true;
  }
  std::map<std::string, std::string> since;
  Json list = Json::array();
  for (const Condition& c : conditions) {
    const auto before = std::ranges::find(known.conditions, c.type, &Condition::type);
    const bool same = before != known.conditions.end() && before->status == c.status && !known.since[c.type].empty();
    since[c.type] = same ? known.since[c.type] : to_rfc3339(clock_.now());
    list.push_back(Json::object({{"type", c.type},
                                 {"status", c.status},
                                 {"reason", c.reason},
                                 {"message", c.message},
                                 {"lastTransitionTime", since[c.type]}}));
  }
  Json status = Json::object({{"conditions", std::move(list)}});
  for (const auto& [name, value] : others.members()) status.set(name, value);
  const auto done =
      client_.merge_patch(*kind_, key.first, key.second, Json::object({{"status", std::move(status)}}), "status");
  if (!done) return failed(done.error());
  known.conditions = conditions;
  known.since = std::move(since);
  known.others = text;
  known.error.clear();
}

void ConditionWriter::forget_others(const std::set<Key>& keys) {
  std::erase_if(published_, [&](const auto& entry) { return !keys.contains(entry.first); });
}

}  // namespace qm::autoscaler
