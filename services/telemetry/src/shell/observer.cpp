#include "qm/base/wake.hpp"
#include "qm/telemetry/shell.hpp"
#include "qm/wire/words.hpp"
#include "quartermaster/v1/envelope.pb.h"

#include <atomic>
#include <mutex>
#include <thread>

namespace qm::telemetry {
namespace {

const std::vector<std::string>& all_topics() {
  static const std::vector<std::string> topics = {"qm.workload", "qm.placement", "qm.node", "qm.capacity",
                                                  "qm.gpu",      "qm.spot",      "qm.cost"};
  return topics;
}

std::string plural(int n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

std::string placement_line(const pb::PlacementEvent& e, const WorkloadNames& names) {
  if (e.has_demand()) return fmt::format("{} pending for lack of nodes", plural(e.demand().items_size(), "workload"));
  if (e.has_requeue()) return fmt::format("{} requeued: their pods fit", plural(e.requeue().items_size(), "workload"));
  if (e.has_eviction())
    return fmt::format("{} attempt {}: eviction requested: {} {}", names.name_of(e.eviction().uid()),
                       e.eviction().attempt(), e.eviction().reason(), e.eviction().message());
  if (e.has_proposal()) {
    const auto& p = e.proposal();
    return fmt::format("{} attempt {}: preemption proposal {}{}: {}, ${:.2f}", names.name_of(p.uid()), p.attempt(),
                       p.number(), p.withdrawn() ? " withdrawn" : "", plural(p.victims_size(), "victim"),
                       static_cast<double>(p.micro_usd()) / 1e6);
  }
  const auto& a = e.assignment();
  return fmt::format("{}/{} attempt {} {} on {} {}", a.namespace_(), a.workload(), a.attempt(),
                     wire::word_of(a.state()), plural(a.members_size(), "pod"), a.short_reason());
}

std::string capacity_line(const pb::CapacityEvent& e, const WorkloadNames& names) {
  switch (e.event_case()) {
    case pb::CapacityEvent::kInstance:
      return fmt::format("{} {} {} {} {}", e.instance().claim(), e.instance().instance_type(),
                         e.instance().capacity_type(), wire::word_of(e.instance().state()), e.instance().reason());
    case pb::CapacityEvent::kPrice:
      return fmt::format("spot price of {} in {}: {} nano-dollars an hour", e.price().instance_type(), e.price().zone(),
                         e.price().nano_usd_hour());
    case pb::CapacityEvent::kPromise:
      if (e.promise().withdrawn())
        return fmt::format("{} attempt {}: no instances are expected any more", names.name_of(e.promise().uid()),
                           e.promise().attempt());
      return fmt::format("{} attempt {}: {} expected", names.name_of(e.promise().uid()), e.promise().attempt(),
                         plural(e.promise().claims_size(), "instance"));
    case pb::CapacityEvent::kEviction:
      return fmt::format("{} attempt {}: eviction requested: {}", names.name_of(e.eviction().uid()),
                         e.eviction().attempt(), e.eviction().reason());
    case pb::CapacityEvent::kCheckpoint:
      if (e.checkpoint().outcome().empty())
        return fmt::format("{} attempt {}: checkpoint ordered", names.name_of(e.checkpoint().uid()),
                           e.checkpoint().attempt());
      return fmt::format("{} attempt {}: checkpoint {} step {}", names.name_of(e.checkpoint().uid()),
                         e.checkpoint().attempt(), e.checkpoint().outcome(), e.checkpoint().step());
    case pb::CapacityEvent::kDrain:
      return fmt::format("drain of {} {}: {}", e.drain().node(), e.drain().lifted() ? "withdrawn" : "requested",
                         e.drain().reason());
    case pb::CapacityEvent::EVENT_NOT_SET:
      break;
  }
  return {};
}

template <class Message, class Fn>
std::string observed(const std::string& payload, Fn fn) {
  Message m;
  return m.ParseFromString(payload) ? fn(m) : "(not readable)";
}

}  // namespace

void WorkloadNames::learn(const std::string& topic, const std::string& key, const std::string& payload) {
  if (topic != "qm.workload") return;
  pb::WorkloadEvent e;
  if (payload.empty() || !e.ParseFromString(payload) || e.spec().name().empty()) {
    names_.erase(key);
  } else if (names_.size() < kMost || names_.contains(key)) {
    names_.insert_or_assign(key, e.spec().namespace_() + "/" + e.spec().name());
  }
}

std::string WorkloadNames::name_of(const std::string& uid) const {
  const auto known = names_.find(uid);
  return known == names_.end() ? uid : known->second;
}

std::string summary_of(const std::string& topic, const std::string& payload, const WorkloadNames& names) {
  if (topic == "qm.workload") {
    return observed<pb::WorkloadEvent>(payload, [](const auto& e) {
      return fmt::format("{}/{} attempt {} {} {}", e.spec().namespace_(), e.spec().name(), e.attempt(),
                         wire::word_of(e.phase()), e.reason());
    });
  }
  if (topic == "qm.placement") {
    return observed<pb::PlacementEvent>(payload, [&](const auto& e) { return placement_line(e, names); });
  }
  if (topic == "qm.capacity") {
    return observed<pb::CapacityEvent>(payload, [&](const auto& e) { return capacity_line(e, names); });
  }
  if (topic == "qm.node") {
    return observed<pb::NodeEvent>(payload, [](const auto& e) {
      return fmt::format("{} {} {} {}", e.node(), wire::word_of(e.state()), plural(e.pods(), "pod"), e.reason());
    });
  }
  if (topic == "qm.gpu") {
    return observed<pb::GpuEvent>(payload, [](const auto& e) {
      if (e.has_health()) return fmt::format("{}: {}", e.health().node(), e.health().reason());
      if (e.has_devices())
        return fmt::format("{}: {} with devices", e.devices().node(), plural(e.devices().pods_size(), "pod"));
      if (e.has_node_report())
        return fmt::format("{}: {} and {} of its agent", e.node_report().node(),
                           plural(e.node_report().labels_size(), "label"),
                           plural(e.node_report().annotations_size(), "annotation"));
      return fmt::format("{} GPU {}: {:.0f} % used by {}", e.usage().node(), e.usage().gpu_index(),
                         100 * e.usage().utilization(), e.usage().pod().empty() ? "no pod" : e.usage().pod());
    });
  }
  if (topic == "qm.spot") {
    return observed<pb::SpotEvent>(payload, [&](const auto& e) {
      if (e.has_notice())
        return fmt::format("{} is interrupted at {}", e.notice().node(), to_rfc3339(from_micros(e.notice().at_us())));
      const auto whose = fmt::format("{} attempt {}", names.name_of(e.ack().uid()), e.ack().attempt());
      if (!e.ack().ok()) return fmt::format("{}: no checkpoint on {}: {}", whose, e.ack().node(), e.ack().message());
      return fmt::format("{}: {} on {} saved step {}", whose, plural(e.ack().ranks(), "rank"), e.ack().node(),
                         e.ack().step());
    });
  }
  if (topic == "qm.cost") {
    return observed<pb::CostEvent>(payload, [&](const auto& e) {
      if (e.has_grant()) {
        return fmt::format("budget {} {}", e.grant().budget(), e.grant().withdrawn() ? "is withdrawn" : "is granted");
      }
      if (e.has_spent()) {
        const auto& s = e.spent();
        return fmt::format("{} attempt {} spent {} nano-dollars{}", names.name_of(s.uid()), s.attempt(), s.nano_usd(),
                           s.final() ? " in total" : "");
      }
      return fmt::format("{} {}: {} nano-dollars", e.totals().period(), e.totals().team(), e.totals().nano_usd());
    });
  }
  return {};
}

struct Observer::Impl {
  Impl(std::shared_ptr<bus::Bus> b, RedisMirror& r, std::string s) : bus(std::move(b)), redis(r), shard(std::move(s)) {}

  const std::shared_ptr<bus::Bus> bus;
  RedisMirror& redis;
  const std::string shard;
  WorkloadNames names;  // used by the thread only
  std::mutex mutex;
  Wake interrupt;  // of a poll
  std::uint64_t next = 1;
  std::map<std::uint64_t, std::function<void(const pb::EventLine&)>> followers;
  std::atomic<bool> caught_up = false;
  std::atomic<std::uint64_t> observed = 0;
  std::jthread thread;

  void hand_on(pb::EventLine line, const char* source) {
    line.set_source(source);
    const std::lock_guard lock(mutex);
    for (const auto& [handle, fn] : followers) fn(line);
  }

  /// Earlier messages also provide names.
  void take(const bus::Message& m) {
    pb::Envelope e;
    if (!e.ParseFromString(m.value)) return;  // its consumers report it
    if (e.key_version() == 0) return;         // a leader announces its term
    names.learn(e.topic(), e.key(), e.payload());
    // Followers of other processes subscribe to the same Redis, so it is published even without followers here.
    if (caught_up) publish(e);
  }

  void publish(const pb::Envelope& e) {
    pb::EventLine line;
    line.set_topic(e.topic());
    line.set_key(e.key());
    line.set_key_version(e.key_version());
    line.set_at_us(e.occurred_us());
    line.set_summary(summary_of(e.topic(), e.payload(), names));
    if (!redis.publish(line)) hand_on(std::move(line), "owner");
    ++observed;
  }

  void run(const std::stop_token& stop) {
    std::map<bus::TopicPartition, std::int64_t> positions;  // the bus requests them during poll, that is, here
    std::unique_ptr<bus::Consumer> consumer;
    while (!stop.stop_requested()) {
      if (!consumer) consumer = join(positions);
      auto messages = consumer ? consumer->poll(500, std::chrono::seconds(1)) : fail(Code::kUnavailable, "no consumer");
      if (!messages) {
        consumer.reset();
        sleep_unless_stopped(std::chrono::milliseconds(300), stop);
        continue;
      }
      for (const auto& m : *messages) {
        positions[m.at] = m.offset + 1;
        take(m);
      }
      if (!caught_up) caught_up = !consumer->assignment().empty() && consumer->lag() == 0;
    }
  }

  std::unique_ptr<bus::Consumer> join(const std::map<bus::TopicPartition, std::int64_t>& positions) {
    // A service that never ran here has not created its topics yet, and the lines of other services must not wait for
    // it.
    if (!bus->ensure_topics(all_topics(), bus::kDefaultPartitions)) return nullptr;
    bus::ConsumerOptions o;
    o.group = "observer/" + shard;
    o.topics = all_topics();
    o.wake = &interrupt;
    o.gather = std::chrono::milliseconds(250);  // lines for users to read
    o.cursor = [&positions](const bus::TopicPartition& at) {
      const auto known = positions.find(at);
      return known == positions.end() ? std::int64_t{-1} : known->second;
    };
    auto made = bus->consumer(std::move(o));
    return made ? std::move(*made) : nullptr;
  }
};

Observer::Observer(std::shared_ptr<bus::Bus> bus, RedisMirror& redis, const std::string& shard)
    : impl_(std::make_unique<Impl>(std::move(bus), redis, shard)) {
  redis.on_line([this](const pb::EventLine& line) { impl_->hand_on(line, "redis"); });
}
Observer::~Observer() {
  stop();
  impl_->redis.on_line({});
}
void Observer::start() {
  impl_->thread = std::jthread([this](const std::stop_token& stop) { impl_->run(stop); });
}
void Observer::stop() {
  impl_->thread.request_stop();
  impl_->interrupt.notify();
  impl_->thread = {};
}
bool Observer::caught_up() const { return impl_->caught_up; }
std::uint64_t Observer::observed() const { return impl_->observed; }
std::uint64_t Observer::follow(std::function<void(const pb::EventLine&)> fn) {
  const std::lock_guard lock(impl_->mutex);
  impl_->followers.emplace(impl_->next, std::move(fn));
  return impl_->next++;
}
void Observer::unfollow(std::uint64_t handle) {
  const std::lock_guard lock(impl_->mutex);
  impl_->followers.erase(handle);
}

}  // namespace qm::telemetry
