#include "world.hpp"

#include "qm/base/assert.hpp"
#include "qm/base/digest.hpp"
#include "qm/model/resources.hpp"
#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace qm::fleet {
namespace {

constexpr Duration kSecond = std::chrono::seconds(1);
constexpr Duration kShutdown = std::chrono::seconds(30);  ///< shutting-down to terminated
constexpr Duration kForget = std::chrono::hours(1);       ///< terminated to gone from every list

Instant floor_second(Instant t) { return from_micros(micros(t) / kSecond.count() * kSecond.count()); }
Instant ceil_second(Instant t) { return floor_second(t + kSecond - Duration(1)); }

}  // namespace

void FleetClock::set_factor(double factor) {
  if (file_) file_->set_factor(factor);
  factor_ = factor;
}

void FleetClock::advance_to(Instant t) {
  if (!file_ && t > manual_.now()) manual_.set(t);
}

std::string_view name_of(Market market) { return market == Market::kSpot ? "spot" : "on-demand"; }
std::string_view name_of(InstanceState state) {
  constexpr std::string_view kNames[] = {"pending", "running", "shutting-down", "terminated"};
  return kNames[static_cast<std::size_t>(state)];
}

std::vector<std::string> network_nodes(const Instance& instance) {
  const std::uint64_t place = stable_hash(instance.id) % 4096;
  return {"nn-" + instance.zone, fmt::format("nn-{}-s{}", instance.zone, place / 32 % 8),
          fmt::format("nn-{}-r{}", instance.zone, place / 8 % 32)};
}

World::World(Options options, PriceTable prices, std::unique_ptr<FleetClock> clock)
    : options_(std::move(options)),
      prices_(std::move(prices)),
      clock_(std::move(clock)),
      configured_factor_(options_.factor),
      random_(options_.seed),
      ids_(options_.id_seed) {
  clock_->set_factor(configured_factor_);
  if (!options_.history_path.empty()) {
    const auto opened = history_.open(options_.history_path);
    QM_ASSERT(opened.has_value(), "{}", opened.error().to_string());
  }
  record("clock", {{"factor", configured_factor_}});
}

World::~World() { stop(); }

// Time --------------------------------------------------------------------------------------------

Instant World::now_floor() const { return floor_second(now()); }

World::TimerId World::at(Instant t, std::function<void()> fn) {
  const auto held = lock();
  const TimerId id{t, ++timer_sequence_};
  const bool earliest = timers_.empty() || id < timers_.begin()->first;
  timers_.emplace(id, std::move(fn));
  if (earliest) wake_.notify_all();
  return id;
}

void World::cancel(const TimerId& id) {
  const auto held = lock();
  timers_.erase(id);
}

bool World::run_one(Instant upto) {
  if (timers_.empty() || timers_.begin()->first.first > upto) return false;
  auto node = timers_.extract(timers_.begin());
  clock_->advance_to(node.key().first);
  node.mapped()();
  return true;
}

void World::start() {
  thread_ = std::jthread([this](std::stop_token stop) { run(std::move(stop)); });
}

void World::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  wake_.notify_all();
  thread_.join();
}

void World::run(std::stop_token stop) {
  auto held = lock();
  while (!stop.stop_requested()) {
    if (run_one(now())) {
      // Allows requests between two timers.
      held.unlock();
      held.lock();
      continue;
    }
    SteadyDuration wait = DomainClock::kSlice;
    const double speed = clock_->factor();
    if (!timers_.empty() && speed > 0) {
      const double steady_us = static_cast<double>((timers_.begin()->first.first - now()).count()) / speed;
      wait = std::min<SteadyDuration>(wait, std::chrono::microseconds(std::llround(std::min(steady_us, 1e6)) + 1));
    }
    wake_.wait_for(held, wait);
  }
}

void World::advance(Duration d) {
  const auto held = lock();
  const Instant target = now() + d;
  while (run_one(target)) {
  }
  clock_->advance_to(target);
}

// Clock factor ------------------------------------------------------------------------------------

void World::apply_factor() {
  const double wanted = holds_.empty() ? configured_factor_ : std::min(configured_factor_, kSlowFactor);
  if (wanted == clock_->factor()) return;
  clock_->set_factor(wanted);
  record("clock", {{"factor", wanted}});
  wake_.notify_all();
}

void World::set_factor(double factor) {
  const auto held = lock();
  configured_factor_ = factor;
  apply_factor();
}

double World::factor() const { return clock_->factor(); }

double World::configured_factor() const {
  const auto held = lock();
  return configured_factor_;
}

void World::hold(const std::string& name) {
  const auto held = lock();
  holds_.insert(name);
  apply_factor();
}

void World::release(const std::string& name) {
  const auto held = lock();
  holds_.erase(name);
  apply_factor();
}

std::vector<std::string> World::holds() const {
  const auto held = lock();
  return {holds_.begin(), holds_.end()};
}

// Instances ---------------------------------------------------------------------------------------

std::int64_t World::price_nano_hour(const std::string& type, Market market) const {
  const auto* entry = prices_.find(type);
  if (entry == nullptr) return 0;
  return market == Market::kSpot ? entry->spot_nano_hour : entry->on_demand_nano_hour;
}

/// By the limit and the block of exactly this key.
int World::left_of(const CapacityKey& key) const {
  const auto* blocked = find_in(blocked_, key);
  if (blocked != nullptr && now() < *blocked) return 0;
  const auto* limit = find_in(limits_, key);
  if (limit == nullptr) return std::numeric_limits<int>::max();
  const auto& [type, market, zone] = key;
  int live = 0;
  for (const auto& [sequence, other] : instances_) {
    const bool counts = other.type == type && other.market == market && (zone.empty() || other.zone == zone);
    live += counts && other.alive() ? 1 : 0;
  }
  return std::max(0, *limit - live);
}

int World::capacity_left(const std::string& type, Market market, const std::string& zone) const {
  const auto held = lock();
  if (price_nano_hour(type, market) == 0) return 0;
  std::int64_t in_zones = 0;
  if (!zone.empty()) in_zones = left_of({type, market, zone});
  for (const auto& one : options_.zones) in_zones += zone.empty() ? left_of({type, market, one}) : 0;
  return static_cast<int>(std::min<std::int64_t>(in_zones, left_of({type, market, {}})));
}

/// The zones in rotation; without capacity the next one.
std::string World::zone_with_capacity(const LaunchSpec& spec) const {
  const auto& zones = options_.zones;
  const auto next = launches_ % zones.size();
  for (std::size_t i = 0; i < zones.size(); ++i) {
    const auto& zone = zones[(next + i) % zones.size()];
    if (capacity_left(spec.type, spec.market, zone) > 0) return zone;
  }
  return zones[next];
}

Result<Instance> World::launch_instance(const LaunchSpec& spec) {
  const auto held = lock();
  if (prices_.find(spec.type) == nullptr) {
    return fail({Code::kInvalid, fmt::format("the instance type '{}' does not exist", spec.type), "InstanceType",
                 "use a type of the price table"});
  }
  if (!spec.zone.empty() && std::ranges::find(options_.zones, spec.zone) == options_.zones.end()) {
    return fail({Code::kInvalid, fmt::format("the zone '{}' does not exist", spec.zone), "Placement.AvailabilityZone",
                 fmt::format("use {}", fmt::join(options_.zones, ", "))});
  }
  const std::string zone = spec.zone.empty() ? zone_with_capacity(spec) : spec.zone;
  if (capacity_left(spec.type, spec.market, zone) == 0) {
    signal("insufficient_capacity",
           {{"type", spec.type}, {"market", name_of(spec.market)}, {"zone", spec.zone}, {"token", spec.client_token}});
    return fail({Code::kExhausted, fmt::format("there is no {} capacity for {} now", name_of(spec.market), spec.type),
                 "capacity", "try another type, zone or market, or later"});
  }
  const std::uint64_t sequence = launches_++;
  Instance instance;
  instance.id = "i-" + random_hex(17);
  instance.type = spec.type;
  instance.zone = zone;
  const std::uint64_t net = (sequence + 10) / 250, host = (sequence + 10) % 250 + 4;
  instance.private_ip = fmt::format("10.0.{}.{}", net, host);
  instance.private_dns = fmt::format("ip-10-0-{}-{}.ec2.internal", net, host);
  instance.client_token = spec.client_token;
  instance.image_id = spec.image_id.empty() ? "ami-00000000" : spec.image_id;
  instance.user_data = spec.user_data;
  instance.subnet = spec.subnet;
  instance.profile = spec.profile;
  instance.security_groups = spec.security_groups;
  instance.market = spec.market;
  instance.nano_usd_hour = price_nano_hour(spec.type, spec.market);
  instance.launched = floor_second(now());
  instance.tags = spec.tags;
  instance.initial = spec.initial;
  const std::string id = instance.id;
  by_id_[id] = sequence;
  const auto* claim = find_in(spec.tags, std::string(words::kNodeClaimTag));
  record("instance_launch", {{"id", id},
                             {"type", instance.type},
                             {"zone", instance.zone},
                             {"market", name_of(instance.market)},
                             {"nano_usd_hour", instance.nano_usd_hour},
                             {"token", instance.client_token},
                             {"claim", claim == nullptr ? std::string() : *claim},
                             {"initial", instance.initial},
                             {"node", instance.private_dns},
                             {"launched", micros(instance.launched)}});
  instances_.emplace(sequence, std::move(instance));
  emit(*find(id), InstanceEvent::kLaunched);

  const auto step = [this, id](InstanceEvent event) {
    Instance* entry = find(id);
    if (entry == nullptr || !entry->alive()) return;
    entry->state = InstanceState::kRunning;
    emit(*entry, event);
  };
  if (spec.initial || options_.boot_seconds == 0) {
    step(InstanceEvent::kRunning);
    step(InstanceEvent::kBooted);
  } else {
    const std::int64_t boot = random_between(options_.boot_seconds, 2 * options_.boot_seconds);
    after(kSecond * std::min<std::int64_t>(boot, random_between(5, 15)), [step] { step(InstanceEvent::kRunning); });
    after(kSecond * boot, [step] { step(InstanceEvent::kBooted); });
  }
  return *find(id);
}

Status World::terminate_instance(const std::string& id, const std::string& reason) {
  const auto held = lock();
  QM_ASSIGN(Instance* const instance, need(id, "InstanceId"));
  if (!instance->alive()) return {};
  instance->state = InstanceState::kShuttingDown;
  instance->stopped = ceil_second(now());
  instance->stop_reason = reason;
  emit(*instance, InstanceEvent::kStopping);
  record("instance_stop", {{"id", id}, {"reason", reason}, {"stopped", micros(*instance->stopped)}});
  release("spot:" + id);
  after(kShutdown, [this, id] {
    Instance* entry = find(id);
    entry->state = InstanceState::kTerminated;
    emit(*entry, InstanceEvent::kTerminated);
    after(kForget, [this, id] {
      instances_.erase(by_id_.at(id));
      by_id_.erase(id);
    });
  });
  return {};
}

Status World::give_spot_notice(const std::string& id, Duration notice) {
  const auto held = lock();
  QM_ASSIGN(Instance* const instance, need(id, "InstanceId"));
  if (instance->market != Market::kSpot || !instance->alive()) {
    return fail({Code::kFailedPrecondition, fmt::format("{} is not a live spot instance", id), "InstanceId", ""});
  }
  if (instance->spot_notice) return {};
  instance->spot_notice = now_floor();
  instance->spot_deadline = ceil_second(now() + notice);
  hold("spot:" + id);
  signal("spot_notice", {{"id", id}, {"node", instance->private_dns}, {"deadline", micros(*instance->spot_deadline)}});
  emit(*instance, InstanceEvent::kSpotNotice);
  at(*instance->spot_deadline, [this, id] { (void)terminate_instance(id, "Server.SpotInstanceTermination"); });
  return {};
}

Status World::schedule_maintenance(const std::string& id, const std::string& code, Duration notice) {
  const auto held = lock();
  QM_ASSIGN(Instance* const instance, need(id, "InstanceId"));
  MaintenanceEvent event;
  event.id = "instance-event-" + random_hex(17);
  event.code = code;
  event.description = "The instance is running on degraded hardware";
  event.not_before = ceil_second(now() + notice);
  event.not_after = event.not_before + std::chrono::hours(2);
  signal("maintenance",
         {{"id", id}, {"node", instance->private_dns}, {"code", code}, {"not_before", micros(event.not_before)}});
  instance->maintenance.push_back(event);
  emit(*instance, InstanceEvent::kMaintenance);
  if (code == "instance-retirement" || code == "instance-stop") {
    at(event.not_before, [this, id] { (void)terminate_instance(id, "Server.ScheduledStop"); });
  }
  return {};
}

Status World::set_tags(const std::string& id, const std::map<std::string, std::string>& tags) {
  const auto held = lock();
  QM_ASSIGN(Instance* const instance, need(id, "ResourceId"));
  for (const auto& [key, value] : tags) {
    // The members of a gang get the tag of their claims after their launch.
    const bool named = key == words::kNodeClaimTag && instance->tags[key] != value;
    if (named) record("instance_claim", {{"id", id}, {"claim", value}});
    instance->tags[key] = value;
  }
  return {};
}

Instance* World::find(const std::string& id) {
  const auto* sequence = find_in(by_id_, id);
  return sequence == nullptr ? nullptr : &instances_.at(*sequence);
}

Result<Instance*> World::need(const std::string& id, std::string_view field) {
  if (Instance* found = find(id)) return found;
  return fail({Code::kNotFound, fmt::format("the instance ID '{}' does not exist", id), std::string(field), ""});
}

std::optional<Instance> World::instance(const std::string& id) const {
  const auto held = lock();
  const auto* sequence = find_in(by_id_, id);
  return sequence == nullptr ? std::nullopt : std::optional(instances_.at(*sequence));
}

std::optional<Instance> World::instance_by_dns(const std::string& private_dns) const {
  const auto held = lock();
  for (const auto& [sequence, instance] : instances_) {
    if (instance.private_dns == private_dns) return instance;
  }
  return std::nullopt;
}

std::vector<Instance> World::instances() const {
  const auto held = lock();
  std::vector<Instance> all;
  all.reserve(instances_.size());
  for (const auto& [sequence, instance] : instances_) all.push_back(instance);
  return all;
}

std::string World::zone_id(const std::string& zone) const {
  const auto at = std::ranges::find(options_.zones, zone) - options_.zones.begin();
  return fmt::format("use1-az{}", at + 1);
}

void World::listen(InstanceListener listener) {
  const auto held = lock();
  listeners_.push_back(std::move(listener));
}

void World::emit(const Instance& instance, InstanceEvent event) {
  for (const auto& listener : listeners_) listener(instance, event);
}

void World::limit_capacity(const std::string& type, Market market, int limit, const std::string& zone) {
  const auto held = lock();
  if (limit < 0) {
    limits_.erase({type, market, zone});
  } else {
    limits_[{type, market, zone}] = limit;
  }
}

void World::block_capacity(const std::string& type, Market market, Instant until, const std::string& zone) {
  const auto held = lock();
  blocked_[{type, market, zone}] = until;
}

// Faults of the APIs ------------------------------------------------------------------------------

void World::disturb(ApiFault api_fault, const std::string& api, double share, Instant until) {
  const auto held = lock();
  outages_.push_back({api_fault, api, share, until});
}

World::ApiFault World::api_fault(const std::string& api) {
  const auto held = lock();
  std::erase_if(outages_, [t = now()](const Outage& outage) { return outage.until <= t; });
  for (const auto& outage : outages_) {
    if (!outage.api.empty() && outage.api != api) continue;
    if (std::uniform_real_distribution<>(0, 1)(random_) < outage.share) return outage.api_fault;
  }
  return ApiFault::kNone;
}

// Record ------------------------------------------------------------------------------------------

void World::record(std::string_view event, const Json::Object& fields) {
  const auto held = lock();
  Json line = Json::object({{"t", micros(now())}, {"e", event}});
  for (const auto& [key, value] : fields) line.set(key, value);
  history_.append(line.dump());
}

void World::signal(std::string_view kind, Json::Object fields) {
  fields.insert(fields.begin(), {"kind", kind});
  record("signal", fields);
}

std::int64_t World::random_between(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
}

std::string World::random_hex(int digits) {
  std::string text(static_cast<std::size_t>(digits), '0');
  for (char& c : text) c = "0123456789abcdef"[ids_() % 16];
  return text;
}

}  // namespace qm::fleet
