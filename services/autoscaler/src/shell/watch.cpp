#include "qm/autoscaler/group_watch.hpp"
#include "qm/autoscaler/shell.hpp"
#include "qm/base/log.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace qm::autoscaler {

namespace {

Json sorted_texts(std::vector<std::string> texts) {
  std::ranges::sort(texts);
  Json out = Json::array();
  for (auto& text : texts) out.push_back(std::move(text));
  return out;
}

}  // namespace

struct CloudWatch::Impl {
  Impl(service::Host& h, cloud::Aws& a, const DomainClock& c, CloudWatchOptions o)
      : host(h), aws(a), clock(c), shard(o.shard), period(o.period), options(std::move(o)) {}

  service::Host& host;
  cloud::Aws& aws;
  const DomainClock& clock;
  std::string shard;
  Duration period;
  const CloudWatchOptions options;
  bool poked = false;
  std::mutex mutex;
  std::condition_variable_any wake;
  std::string last_instances, last_prices, last_groups;
  std::atomic<std::uint64_t> looks = 0;
  std::map<std::string, Instant> seen_stopped;  // when it was first seen stopped, if the cloud does not report the time
  std::jthread thread;

  void submit_input(const char* what, std::string bytes, const std::stop_token& stop) {
    service::Input in;
    in.source = service::Source::kWatch;
    in.name = what;
    in.bytes = std::move(bytes);
    // A full mailbox is temporary; the observation is still the newest.
    while (!stop.stop_requested() && !host.submit(in)) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }

  // Before the instances: what a group does with one decides what its disappearance means.
  void look_at_groups(const std::stop_token& stop) {
    if (options.groups == nullptr) return;
    std::set<std::string> named;
    host.read([&](const service::Shell& shell) {
      for (const auto& [name, pool] : engine_of(shell).tables().pools) named.insert(pool.group);
    });
    named.erase("");
    const auto seen = options.groups->look(named);
    if (!seen) {
      log::warn("Auto Scaling groups cannot be read", {{"error", seen.error().to_string()}});
      return;
    }
    if (seen->empty() && last_groups.empty()) return;  // there were none before
    auto in = groups_input(*seen);
    if (in.bytes == last_groups) return;
    last_groups = in.bytes;
    submit_input("groups", std::move(in.bytes), stop);
  }

  void look_at_instances(const std::stop_token& stop) {
    std::optional<std::vector<Json>> more;
    if (options.also && !(more = options.also())) return;
    Result<std::vector<cloud::Instance>> seen = std::vector<cloud::Instance>{};
    if (options.ask) seen = aws.describe_instances();
    if (!seen) {
      log::warn("the cloud API does not answer", {{"error", seen.error().to_string()}});
      return;
    }
    // The order of the service is undefined.
    std::sort(seen->begin(), seen->end(), [](const auto& x, const auto& y) { return x.id < y.id; });
    Json list = Json::array();
    for (const auto& i : *seen) {
      const auto tag = [&](std::string_view key) {
        const auto it = i.tags.find(std::string(key));
        return it == i.tags.end() ? std::string() : it->second;
      };
      if (options.groups != nullptr && options.groups->is_warm(i.id)) continue;
      if (options.groups_only && tag("aws:autoscaling:groupName").empty()) continue;
      // Claims of another cluster in the same account may have the same names: its instances are only reported.
      const std::string owner = tag(kOwnerTag);
      const bool ours = owner == shard;
      const bool over = i.state == "terminated" || i.state == "shutting-down" || i.state == "stopped";
      // Without a stop time in the response, the billing ends when the stop is first observed.
      std::int64_t stopped = 0;
      if (over) stopped = micros(i.stopped ? *i.stopped : seen_stopped.try_emplace(i.id, clock.now()).first->second);
      list.push_back(Json::object({{"id", i.id},
                                   {"claim", ours || owner.empty() ? tag(words::kNodeClaimTag) : std::string()},
                                   {"pool", ours ? tag(words::kNodePool) : std::string()},
                                   {"type", i.type},
                                   {"zone", i.zone},
                                   {"spot", i.spot},
                                   {"node", i.private_dns},
                                   {"launched_us", micros(i.launched)},
                                   {"stopped_us", stopped},
                                   {"group", tag("aws:autoscaling:groupName")},
                                   {"launch", ours ? tag(kLaunchTag) : std::string()},

                                   {"image", i.image},
                                   {"subnet", i.subnet},
                                   {"security_groups", sorted_texts(i.security_groups)}}));
    }
    std::erase_if(seen_stopped, [&](const auto& entry) {
      return std::none_of(seen->begin(), seen->end(), [&](const auto& i) { return i.id == entry.first; });
    });
    if (more) {
      for (auto& instance : *more) list.push_back(std::move(instance));
    }
    // A poll without changes is not an input: the journal has changes, not polls.
    std::string bytes = list.dump();
    if (bytes != last_instances) {
      last_instances = bytes;
      submit_input("instances", std::move(bytes), stop);
    }
    ++looks;
  }

  /// False if there was nothing to request yet, or no response: then the next poll retries.
  bool look_at_prices(const std::stop_token& stop) {
    if (!options.ask) return true;
    std::vector<std::string> types;
    host.read([&](const service::Shell& shell) {
      for (const auto& [name, pool] : engine_of(shell).tables().pools) {
        types.insert(types.end(), pool.instance_types.begin(), pool.instance_types.end());
      }
      for (const auto& [name, claim] : engine_of(shell).tables().claims) {
        if (claim.market == Market::kSpot && claim.state != ClaimState::kGone) types.push_back(claim.type);
      }
    });
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    if (types.empty()) return false;
    auto quotes = aws.describe_spot_price_history(types);
    if (!quotes) {
      log::warn("no spot prices", {{"error", quotes.error().to_string()}});
      return false;
    }
    // Newest first, as in the response; the order of equal times is undefined.
    std::sort(quotes->begin(), quotes->end(), [](const auto& x, const auto& y) {
      return std::tie(y.at, x.instance_type, x.zone) < std::tie(x.at, y.instance_type, y.zone);
    });
    Json list = Json::array();
    for (const auto& q : *quotes) {
      list.push_back(Json::object(
          {{"type", q.instance_type}, {"zone", q.zone}, {"nano", q.nano_usd_hour}, {"at_us", micros(q.at)}}));
    }
    std::string bytes = list.dump();
    if (bytes == last_prices) return true;
    last_prices = bytes;
    submit_input("spot_prices", std::move(bytes), stop);
    return true;
  }

  void pause(SteadyDuration d, const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    wake.wait_for(lock, stop, d, [this] { return poked; });
  }

  bool is_poked() {
    const std::scoped_lock lock(mutex);
    return poked;
  }

  void run(const std::stop_token& stop) {
    Instant prices_at{};
    while (!stop.stop_requested()) {
      {
        const std::scoped_lock lock(mutex);
        poked = false;
      }
      look_at_groups(stop);
      look_at_instances(stop);
      if (clock.now() >= prices_at && look_at_prices(stop)) prices_at = clock.now() + 10 * period;
      const Instant next = clock.now() + period;
      // At least a tenth of a second of steady time, however fast domain time runs.
      pause(std::chrono::milliseconds(100), stop);
      // Domain time may be stopped or slow: two seconds of steady time are enough.
      const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(2);
      while (!stop.stop_requested() && !is_poked()) {
        const auto left = std::min(clock.until(next), latest - std::chrono::steady_clock::now());
        if (left <= SteadyDuration::zero()) break;
        pause(std::min(left, std::max<SteadyDuration>(clock.slice(), std::chrono::milliseconds(200))), stop);
      }
    }
  }
};

CloudWatch::CloudWatch(service::Host& host, cloud::Aws& aws, const DomainClock& clock, CloudWatchOptions options)
    : impl_(std::make_unique<Impl>(host, aws, clock, std::move(options))) {}
CloudWatch::~CloudWatch() { stop(); }
void CloudWatch::look() {
  impl_->look_at_groups({});
  impl_->look_at_instances({});
  (void)impl_->look_at_prices({});
}
void CloudWatch::poke() {
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->poked = true;
  }
  impl_->wake.notify_all();
}
void CloudWatch::start() {
  impl_->thread = std::jthread([this](const std::stop_token& stop) { impl_->run(stop); });
}
void CloudWatch::stop() { impl_->thread = {}; }
std::uint64_t CloudWatch::looks() const { return impl_->looks; }

}  // namespace qm::autoscaler
