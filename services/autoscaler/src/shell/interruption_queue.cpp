// Events of the cloud from SQS: receive, commit, delete.
#include "qm/autoscaler/interruption_queue.hpp"

#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"
#include "qm/cloud/instants.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <thread>

namespace qm::autoscaler {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpotTime = 2min;  // from the warning to the end of the instance
constexpr int kBatch = 10;        // messages of a call
/// A message that is not deleted by then is delivered again.
constexpr int kVisibilitySeconds = 30;
constexpr auto kCommitTime = 20s;
constexpr auto kAgainAfter = 1s;
constexpr auto kIdle = 100ms;  // between polls that do not wait
constexpr std::size_t kRemembered = 100'000;

/// Keys of a bounded number of events; the oldest is dropped first.
class Seen {
 public:
  /// Whether the key is new.
  bool insert(const std::string& key) {
    if (!keys_.insert(key).second) return false;
    order_.push_back(key);
    if (order_.size() > kRemembered) {
      keys_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }
  [[nodiscard]] bool contains(const std::string& key) const { return keys_.contains(key); }

 private:
  std::set<std::string> keys_;
  std::deque<std::string> order_;
};

std::string key_of(const InstanceNoticeUpdated& notice) {
  return notice.instance.value() + "/" + reason_of(notice.kind);
}

}  // namespace

Result<CloudEvent> read_cloud_event(const std::string& body, Duration lifecycle_time) {
  QM_ASSIGN(const auto event, Json::parse(body));
  CloudEvent out;
  out.id = event["id"].string();
  const auto at = cloud::instant_of(event["time"].string());
  if (out.id.empty() || !at) return fail(Code::kInvalid, "an event without an id or a time");
  out.at = *at;
  const auto& type = event["detail-type"].string();
  const Json& detail = event["detail"];
  const auto notice = [&](const std::string& instance, NoticeKind kind, Instant when) {
    if (!instance.empty()) out.notices.push_back({InstanceId(instance), kind, when});
  };
  if (type == "EC2 Spot Instance Interruption Warning") {
    notice(detail["instance-id"].string(), NoticeKind::kSpot, out.at + kSpotTime);
  } else if (type == "EC2 Capacity Reservation Instance Interruption Warning") {
    const auto end = cloud::instant_of(detail["instance-termination-time"].string());
    notice(detail["instance-id"].string(), NoticeKind::kSpot, end.value_or(out.at + kSpotTime));
  } else if (type == "EC2 Instance Rebalance Recommendation") {
    notice(detail["instance-id"].string(), NoticeKind::kRebalance, out.at);
  } else if (type == "EC2 Instance-terminate Lifecycle Action") {
    notice(detail["EC2InstanceId"].string(), NoticeKind::kLifecycle, out.at + lifecycle_time);
  } else if (type == "AWS Health Event" && detail["service"].string() == "EC2" &&
             detail["eventTypeCategory"].string() == "scheduledChange") {
    const Instant start = cloud::instant_of(detail["startTime"].string()).value_or(out.at);
    for (const auto& entity : detail["affectedEntities"].items())
      notice(entity["entityValue"].string(), NoticeKind::kMaintenance, start);
  } else if (type == "EC2 Instance State-change Notification") {
    out.instances_changed = true;
  }
  return out;
}

service::Input notices_input(const std::vector<InstanceNoticeUpdated>& notices) {
  Json list = Json::array();
  for (const auto& n : notices) {
    list.push_back(Json::object(
        {{"instance", n.instance.value()}, {"kind", static_cast<std::int64_t>(n.kind)}, {"at_us", micros(n.at)}}));
  }
  service::Input in;
  in.source = service::Source::kWatch;
  in.name = "cloud_notices";
  in.bytes = list.dump();
  return in;
}

struct InterruptionQueue::Impl {
  Impl(cloud::Aws& a, Submit s, std::function<void()> changed, Options o)
      : aws(a), submit(std::move(s)), on_instances_changed(std::move(changed)), options(std::move(o)) {}

  /// The notices of the messages that were not committed before. Their events count as seen after the commit.
  std::vector<InstanceNoticeUpdated> read(const std::vector<cloud::QueueMessage>& messages,
                                          std::vector<std::string>& keys) {
    std::vector<InstanceNoticeUpdated> fresh;
    bool changed = false;
    const std::scoped_lock lock(mutex);
    counters.messages += messages.size();
    for (const auto& message : messages) {
      const auto event = read_cloud_event(message.body, options.lifecycle_time);
      if (!event) {
        ++counters.unreadable;
        log::warn("a message of the interruption queue cannot be read and is deleted",
                  {{"message", message.id}, {"error", event.error().to_string()}});
        continue;
      }
      if (seen.contains(event->id)) {
        ++counters.repeated;
        continue;
      }
      keys.push_back(event->id);
      changed = changed || event->instances_changed;
      for (const auto& notice : event->notices) {
        const auto key = key_of(notice);
        if (seen.contains(key) || std::ranges::find(keys, key) != keys.end()) {
          ++counters.repeated;
          continue;
        }
        keys.push_back(key);
        fresh.push_back(notice);
      }
    }
    if (changed) on_instances_changed();
    return fresh;
  }

  /// True after the commit.
  bool commit(const std::vector<InstanceNoticeUpdated>& notices, const std::stop_token& stop) {
    const auto done = std::make_shared<std::promise<bool>>();
    auto result = done->get_future();
    while (!stop.stop_requested()) {
      const Status taken = submit(notices_input(notices), [done](const Result<std::string>& reply) {
        if (!reply) log::warn("notices are not committed", {{"error", reply.error().to_string()}});
        done->set_value(reply.has_value());
      });
      if (taken) return result.wait_for(kCommitTime) == std::future_status::ready && result.get();
      sleep_unless_stopped(std::chrono::milliseconds(20), stop);  // a full mailbox is temporary
    }
    return false;
  }

  /// False if the service did not answer.
  bool consume(const std::stop_token& stop) {
    auto messages = aws.receive_messages(options.url, kBatch, options.wait_seconds, kVisibilitySeconds);
    if (!messages) {
      log::warn("the interruption queue does not answer", {{"error", messages.error().to_string()}});
      return false;
    }
    if (messages->empty()) {
      if (options.wait_seconds == 0) sleep_unless_stopped(kIdle, stop);
      return true;
    }
    std::vector<std::string> keys, receipts;
    const auto notices = read(*messages, keys);
    if (!notices.empty() && !commit(notices, stop)) return false;  // they are delivered again
    {
      const std::scoped_lock lock(mutex);
      counters.notices += notices.size();
      for (const auto& key : keys) seen.insert(key);
    }
    for (const auto& message : *messages) receipts.push_back(message.receipt);
    const auto kept = aws.delete_messages(options.url, receipts);
    if (!kept) log::warn("messages are not deleted", {{"error", kept.error().to_string()}});
    const std::scoped_lock lock(mutex);
    counters.undeleted += kept ? *kept : receipts.size();
    return kept.has_value();
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!consume(stop)) sleep_unless_stopped(kAgainAfter, stop);
    }
  }

  cloud::Aws& aws;
  const Submit submit;
  const std::function<void()> on_instances_changed;
  const Options options;
  std::mutex mutex;
  Counters counters;
  Seen seen;
  std::vector<std::jthread> threads;
};

InterruptionQueue::InterruptionQueue(cloud::Aws& aws, Submit submit, std::function<void()> on_instances_changed,
                                     Options options)
    : impl_(std::make_unique<Impl>(aws, std::move(submit), std::move(on_instances_changed), std::move(options))) {}
InterruptionQueue::~InterruptionQueue() { stop(); }
void InterruptionQueue::start() {
  for (int i = 0; i < impl_->options.consumers; ++i)
    impl_->threads.emplace_back([this](const std::stop_token& stop) { impl_->run(stop); });
}
void InterruptionQueue::stop() { impl_->threads.clear(); }
InterruptionQueue::Counters InterruptionQueue::counters() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->counters;
}

}  // namespace qm::autoscaler
