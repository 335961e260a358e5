#include "qm/kube/events.hpp"

#include "qm/base/digest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace qm::kube {
namespace {

constexpr std::size_t kLongest = 1024;

/// Event times are whole seconds.
std::string seconds_now() {
  return to_rfc3339(from_micros(
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()).time_since_epoch().count() *
      1'000'000));
}

/// At most this many bytes, without splitting a character.
std::string cut(const std::string& text) {
  if (text.size() <= kLongest) return text;
  std::size_t end = kLongest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

EventRecorder::EventRecorder(Client& client, std::string component, std::function<SteadyInstant()> now)
    : client_(client), component_(std::move(component)), now_(std::move(now)) {}

bool EventRecorder::may(const std::string& uid) {
  const std::lock_guard lock(mutex_);
  const auto now = now_();
  auto& bucket = buckets_[uid];
  bucket.used = ++uses_;
  bucket.full_at = std::max(bucket.full_at, now);
  if (bucket.full_at + kRefill - now > kBurst * SteadyDuration(kRefill)) return false;
  bucket.full_at += kRefill;
  if (buckets_.size() > kSubjects) {
    buckets_.erase(std::ranges::min_element(buckets_, {}, [](const auto& item) { return item.second.used; }));
  }
  return true;
}

Status EventRecorder::record(const EventSubject& about, const EventText& text) {
  if (!may(about.uid.empty() ? about.ns + "/" + about.name : about.uid)) {
    return fail(Code::kExhausted, "{} {}/{} has reached its rate of events; {} is withheld", about.kind, about.ns,
                about.name, text.reason);
  }
  const std::string ns = about.ns.empty() ? "default" : about.ns;
  const std::string id = sha256_hex(fmt::format("{}\n{}\n{}\n{}", about.uid, about.kind, about.name, text.reason));
  const std::string name = fmt::format("{}.{}", about.name.substr(0, 200), id.substr(0, 16));
  const std::string now = seconds_now();
  Json object =
      Json::object({{"apiVersion", about.api_version}, {"kind", about.kind}, {"name", about.name}, {"uid", about.uid}});
  if (!about.ns.empty()) object.set("namespace", about.ns);
  const auto made = client_.create(resources::kEvents, ns,
                                   Json::object({{"apiVersion", "v1"},
                                                 {"kind", "Event"},
                                                 {"metadata", Json::object({{"name", name}, {"namespace", ns}})},
                                                 {"involvedObject", std::move(object)},
                                                 {"type", text.warning ? "Warning" : "Normal"},
                                                 {"reason", text.reason},
                                                 {"message", cut(text.message)},
                                                 {"count", 1},
                                                 {"firstTimestamp", now},
                                                 {"lastTimestamp", now},
                                                 {"source", Json::object({{"component", component_}})},
                                                 {"reportingComponent", component_}}));
  if (made) return {};
  if (made.error().code != Code::kAlreadyExists) return fail(made.error());
  return repeat(ns, name, text, now);
}

Status EventRecorder::repeat(const std::string& ns, const std::string& name, const EventText& text,
                             const std::string& now) {
  QM_ASSIGN(const auto there, client_.get(resources::kEvents, ns, name));
  const Json patch = Json::object({{"metadata", Json::object({{"resourceVersion", resource_version_of(there)}})},
                                   {"type", text.warning ? "Warning" : "Normal"},
                                   {"message", cut(text.message)},
                                   {"count", std::max<std::int64_t>(there["count"].integer(), 1) + 1},
                                   {"lastTimestamp", now}});
  QM_TRY(client_.merge_patch(resources::kEvents, ns, name, patch));
  return {};
}

}  // namespace qm::kube
