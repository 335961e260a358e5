// A thousand capacity scripts against the engine, its rows, its intents and its executor, with a crash at every named
// step: no launch twice, no instance without a claim, no part of a gang billed for longer than a minute.
#include "qm/base/crash_point.hpp"
#include "qm/wire/model.hpp"
#include "quartermaster/v1/events.pb.h"
#include "test/shell/rig.hpp"
#include "test/shell/scripted_cloud.hpp"

#include <gtest/gtest.h>

#include <deque>

namespace qm::autoscaler {
namespace gang_scripts_prop_test {

using namespace autoscaler::testing;
using std::chrono::seconds;

struct Crash {};

constexpr Instant kStart = from_micros(1'800'000'000'000'000);
const char* const kTypes[] = {"p5.48xlarge", "p4d.24xlarge"};

struct Totals {
  int scripts = 0, crashes = 0, launches = 0, whole = 0, rolled_back = 0;
  std::int64_t longest_partial_s = 0;
  int fleets = 0, requests = 0, elsewhere = 0;
  std::set<std::string> crashed_at;
};

/// One script: the service's loop with rows and intents that survive a crash, against the cloud of a seed.
class Play {
 public:
  Play(unsigned seed, NodeClaims& kube, kube::Client& client, Totals& totals)
      : seed_(seed),
        kube_(kube),
        cloud_(seed),
        aws_(cloud_.aws()),
        executor_(client, aws_, Driver::kEc2, "east", plain_parameters),
        totals_(totals) {
    kube_.objects.clear();
    restart();
    Pool pool;
    pool.name = "p";
    pool.instance_types = {kTypes[0], kTypes[1]};
    pool.markets = {Market::kOnDemand, Market::kSpot};
    pool.zones = {"z1", "z2", "z3"};
    step({pools_input({pool})});
    std::string prices = "[";
    for (const char* type : kTypes) {
      for (const char* zone : {"z1", "z2", "z3"})
        prices += fmt::format(R"({}{{"type":"{}","zone":"{}","nano":{},"at_us":1}})", prices.size() > 1 ? "," : "",
                              type, zone, 20'000'000'000 + cloud_.roll(20) * 1'000'000'000);
    }
    step({watch("spot_prices", prices + "]")});
    for (int g = 0; g < 1 + cloud_.roll(2); ++g) gangs_[fmt::format("w{}", g)] = 2 + cloud_.roll(3);
  }

  void run() {
    demand();
    for (int second = 0; second < 1500 && !finished() && !::testing::Test::HasFailure(); ++second) {
      cloud_.now = now_ = kStart + seconds(second);
      cloud_.calm = second >= 500;
      if (!cloud_.calm && cloud_.roll(12) == 0) arm();
      execute_intents();
      if (second % 10 == 0) poll();
      if (!cloud_.calm && cloud_.roll(200) == 0) lose_one();
      nodes();
      if (wake_ && *wake_ <= now_) step({timer()});
      check();
    }
    disarm_crash_points();
    totals_.fleets += cloud_.fleets, totals_.requests += cloud_.requests, totals_.elsewhere += cloud_.elsewhere;
    if (::testing::Test::HasFailure() || !finished()) std::cout << state();
    EXPECT_TRUE(finished()) << "a gang was never launched, or an instance never terminated";
  }

 private:
  static service::Input watch(const char* name, std::string bytes) {
    service::Input in;
    in.source = service::Source::kWatch;
    in.name = name;
    in.bytes = std::move(bytes);
    return in;
  }
  static service::Input timer() {
    service::Input in;
    in.source = service::Source::kTimer;
    return in;
  }
  const Tables& tables() const { return engine_->tables(); }

  // ---- the loop ----
  void restart() {
    Options options;
    if (seed_ % 4 != 0) options.alternatives = 19;  // one in four launches each offering by a request of its own
    engine_ = std::make_unique<Engine>(catalog_types(), options);
    std::vector<store::StateRow> rows;
    for (const auto& [key, value] : rows_) rows.push_back({key.first, key.second, value});
    ASSERT_TRUE(codec_.load(*engine_, rows));
  }
  /// A batch and its transaction: rows, intents and, for an outcome, the end of its intent.
  void step(const std::vector<service::Input>& inputs, const std::string& ends = {}) {
    std::vector<Command> commands;
    for (const auto& in : inputs) {
      const auto decoded = codec_.decode(in);
      ASSERT_TRUE(decoded) << in.name;
      commands.insert(commands.end(), decoded->begin(), decoded->end());
    }
    const Output out = engine_->step(commands, now_);
    service::Effects effects;
    codec_.encode(*engine_, out, {}, effects);
    engine_->commit();
    for (auto& row : effects.state) {
      if (row.value) {
        rows_[{row.kind, row.key}] = *row.value;
      } else {
        rows_.erase({row.kind, row.key});
      }
    }
    std::erase_if(intents_, [&](const Open& open) { return open.row.id == ends; });
    for (auto& intent : effects.intents) {
      ASSERT_TRUE(intent_ids_.insert(intent.id).second) << intent.id;
      if (intent.kind == "gang.launch") note_launch(intent);
      intents_.push_back({std::move(intent), now_, 0});
    }
    for (const auto& drain : out.drains) drains_[drain.node.value()] = !drain.lifted;
    wake_ = effects.wake_at;
  }
  void note_launch(const store::IntentRow& intent) {
    const Json want = *Json::parse(intent.payload);
    const ClaimName first(want["claims"].at(0).string());
    launch_gang_["east/" + want["launch"].string()] = tables().claims.find(first)->for_uid.value();
    ++totals_.launches;
  }
  void arm() {
    std::vector<std::string_view> names;
    for (const auto name : crash_points()) {
      if (name.starts_with("autoscaler.") && name.find("group_size") == std::string_view::npos) names.push_back(name);
    }
    names.emplace_back("test.before_commit");
    armed_ = names[static_cast<std::size_t>(cloud_.roll(static_cast<int>(names.size())))];
    if (armed_.starts_with("autoscaler."))
      arm_crash_point(armed_, 1 + cloud_.roll(2), [](std::string_view) { throw Crash{}; });
  }
  void crash() {
    totals_.crashed_at.insert(std::string(armed_));
    ++totals_.crashes;
    armed_ = {};
    disarm_crash_points();
    restart();
    for (Open& open : intents_) open.next = now_;
  }
  void execute_intents() {
    std::set<std::string> busy;
    const std::deque<Open> due = intents_;
    for (const Open& open : due) {
      if (!busy.insert(open.row.key).second || open.next > now_) continue;  // one after the other for each key
      try {
        const auto done = executor_.execute(open.row);
        const auto at = std::ranges::find_if(intents_, [&](const Open& o) { return o.row.id == open.row.id; });
        if (!done && done.error().retryable()) {
          at->next = now_ + seconds(std::min(1 << at->failures++, 4));
          continue;
        }
        if (armed_ == "test.before_commit") throw Crash{};
        service::Input in;
        in.source = service::Source::kOutcome;
        in.name = open.row.kind;
        in.bytes = done ? done->bytes : executor_.failed(open.row, done.error()).bytes;
        step({in}, open.row.id);
      } catch (const Crash&) {
        crash();
        return;
      }
    }
  }

  // ---- the outside ----
  void demand() {
    std::string bytes;
    service::Input in;
    in.source = service::Source::kBus;
    in.name = "qm.placement";
    in.key = "demand";
    quartermaster::v1::PlacementEvent event;
    event.mutable_demand();
    for (const auto& [uid, n] : gangs_) {
      if (placed_.contains(uid)) continue;
      auto* item = event.mutable_demand()->add_items();
      item->set_uid(uid);
      item->set_attempt(1);
      item->set_since_us(micros(kStart));
      PodSet set;
      set.count = n;
      set.shape.gpu.whole = 8;
      *item->add_pod_sets() = wire::to_pb(set);
    }
    in.bytes = event.SerializeAsString();
    step({in});
  }
  void poll() {
    Json list = Json::array();
    for (const auto& [id, m] : cloud_.machines) {
      if (!cloud_.visible(m)) continue;
      const auto tag = [&m = m](std::string_view key) {
        const auto it = m.tags.find(std::string(key));
        return it == m.tags.end() ? std::string() : it->second;
      };
      list.push_back(Json::object({{"id", id},
                                   {"claim", tag(words::kNodeClaimTag)},
                                   {"pool", tag(words::kNodePool)},
                                   {"type", m.type},
                                   {"zone", m.zone},
                                   {"spot", m.spot},
                                   {"node", "n-" + id},
                                   {"launched_us", micros(m.launched)},
                                   {"stopped_us", m.alive ? 0 : micros(m.stopped)},
                                   {"group", ""},
                                   {"launch", tag(kLaunchTag)}}));
    }
    std::string bytes = list.dump();
    if (bytes == last_poll_) return;
    last_poll_ = bytes;
    step({watch("instances", std::move(bytes))});
  }
  void lose_one() {
    for (auto& [id, m] : cloud_.machines) {
      if (m.alive && !m.ready && cloud_.roll(3) == 0) return cloud_.stop(m);
    }
  }
  void node(const ScriptedCloud::Machine& m, int pods) {
    Json seen = Json::object({{"node", "n-" + m.id}, {"instance", m.id}, {"gone", !m.alive}});
    const auto drain = drains_.find("n-" + m.id);
    seen.set("ready", m.alive).set("cordoned", drain != drains_.end() && drain->second).set("pods", pods);
    seen.set("empty_since_us", pods == 0 ? micros(now_) : 0);
    std::string bytes = seen.dump();
    if (!m.alive && !nodes_.contains(m.id)) return;
    if (nodes_[m.id] == seen["cordoned"].boolean() + 2 * pods + (m.alive ? 10 : 0)) return;
    nodes_[m.id] = seen["cordoned"].boolean() + 2 * pods + (m.alive ? 10 : 0);
    step({watch("node", std::move(bytes))});
  }
  /// Nodes register after 30 s; a gang is placed on empty nodes of one zone.
  void nodes() {
    for (auto& [id, m] : cloud_.machines) {
      m.ready |= m.alive && m.launched + seconds(30) <= now_;
      if (m.ready) node(m, used_.contains(id) ? 1 : 0);
    }
    for (const auto& [uid, n] : gangs_) {
      if (placed_.contains(uid)) continue;
      for (const char* zone : {"z1", "z2", "z3"}) {
        std::vector<std::string> free;
        for (const auto& [id, m] : cloud_.machines) {
          const bool drained = drains_.contains("n-" + id) && drains_["n-" + id];
          if (m.alive && m.ready && m.zone == zone && !used_.contains(id) && !drained) free.push_back(id);
        }
        if (std::ssize(free) < n) continue;
        for (int i = 0; i < n; ++i) {
          used_.insert(free[static_cast<std::size_t>(i)]);
          node(cloud_.machines[free[static_cast<std::size_t>(i)]], 1);
        }
        placed_[uid] = zone;
        ++totals_.whole;
        demand();
        break;
      }
    }
  }

  /// For the message of a failure.
  std::string state() const {
    std::string out = fmt::format("after {} s\n", (now_ - kStart) / seconds(1));
    for (const auto& [name, c] : tables().claims)
      out += fmt::format("{} {} {} {} for {} launch {} since {} s: {}\n", name, name_of(c.state), c.zone, c.instance,
                         c.for_uid, c.launch, (now_ - c.changed) / seconds(1), c.reason);
    for (const auto& [id, m] : cloud_.machines)
      if (m.alive)
        out += fmt::format("{} {} {} claim {}\n", id, m.zone, m.token,
                           m.tags.contains("karpenter.sh/nodeclaim") ? m.tags.at("karpenter.sh/nodeclaim") : "");
    for (const auto& [uid, plan] : tables().plans)
      out += fmt::format("plan {} promised {} until {} fruitless {}\n", uid, plan.promised_attempt,
                         (plan.ready_by - now_) / seconds(1), plan.fruitless);
    for (const Open& open : intents_) out += fmt::format("intent {} {}\n", open.row.id, open.failures);
    for (const auto& line : engine_->explain(now_)) out += line + "\n";
    return out;
  }

  // ---- the laws ----
  void check() {
    std::map<std::string, int> alive_of_claim;
    for (const auto& [id, m] : cloud_.machines) {
      const auto claim = m.tags.find(std::string(words::kNodeClaimTag));
      if (!m.alive || claim == m.tags.end()) continue;
      ASSERT_EQ(++alive_of_claim[claim->second], 1) << "launched twice";
    }
    for (const auto& [token, launch] : cloud_.launches) {
      const auto alive = static_cast<std::size_t>(
          std::ranges::count_if(launch.ids, [&](const auto& id) { return cloud_.machines.at(id).alive; }));
      if (alive == launch.size) whole_.insert(token);
      if (alive == 0 || alive == launch.size || whole_.contains(token)) continue;
      ASSERT_LE(++partial_s_[token], 60) << token << ": a part of the gang is billed for longer than a minute";
      totals_.longest_partial_s = std::max(totals_.longest_partial_s, partial_s_[token]);
    }
    // What a gang has that is neither whole nor replaced.
    for (const auto& [uid, n] : gangs_) {
      std::int64_t alive = 0;
      bool shared = false;  // another gang was placed on some of them
      for (const auto& [token, launch] : cloud_.launches) {
        const auto of = launch_gang_.find(token);
        if (of == launch_gang_.end() || of->second != uid) continue;
        alive += std::ranges::count_if(launch.ids, [&](const auto& id) { return cloud_.machines.at(id).alive; });
        shared |= std::ranges::any_of(launch.ids, [&](const auto& id) { return used_.contains(id); });
      }
      std::int64_t& since = incomplete_s_[uid];
      since = placed_.contains(uid) || shared || alive == 0 || alive >= n ? 0 : since + 1;
      ASSERT_LE(since, 75) << uid << ": its instances are neither complete nor terminated";  // after a poll of 10 s
    }
  }
  /// Every gang runs, and every other instance is terminated.
  bool finished() {
    if (placed_.size() < gangs_.size() || !intents_.empty()) return false;
    for (const auto& [id, m] : cloud_.machines) {
      if (m.alive != used_.contains(id)) return false;
      if (!m.alive) continue;
      // No orphans: each instance is that of a claim.
      const auto claim = m.tags.find(std::string(words::kNodeClaimTag));
      const Claim* row = claim == m.tags.end() ? nullptr : tables().claims.find(ClaimName(claim->second));
      if (row == nullptr || row->instance.value() != id || row->type != m.type || row->zone != m.zone) return false;
    }
    return true;
  }

  struct Open {
    store::IntentRow row;
    Instant next{};
    int failures = 0;
  };
  unsigned seed_;
  NodeClaims& kube_;
  ScriptedCloud cloud_;
  cloud::Aws aws_;
  Executor executor_;
  Totals& totals_;
  Codec codec_;
  std::unique_ptr<Engine> engine_;
  Instant now_ = kStart;
  std::map<std::pair<std::string, std::string>, std::string> rows_;
  std::deque<Open> intents_;
  std::set<std::string> intent_ids_;
  std::optional<Instant> wake_;
  std::string_view armed_;
  std::string last_poll_;
  std::map<std::string, int> gangs_;           ///< uid -> nodes
  std::map<std::string, std::string> placed_;  ///< uid -> zone
  std::set<std::string> used_;                 ///< instances with pods
  std::map<std::string, bool> drains_;
  std::map<std::string, int> nodes_;
  std::map<std::string, std::string> launch_gang_;  ///< token -> uid
  std::set<std::string> whole_;
  std::map<std::string, std::int64_t> partial_s_, incomplete_s_;
};

TEST(GangScripts, ThousandWithACrashAtEveryStep) {
  NodeClaims kube;
  kube::Client client({kube.origin(), {}, {}, {}, {}});
  Totals totals;
  for (unsigned seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("script {}", seed));
    Play play(seed, kube, client, totals);
    play.run();
    ++totals.scripts;
  }
  for (const auto name : crash_points()) {
    const bool of_gangs = name.starts_with("autoscaler.") && name.find("gang") != std::string_view::npos;
    EXPECT_TRUE(!of_gangs || totals.crashed_at.contains(std::string(name))) << name << " has crashed no script";
  }
  EXPECT_GT(totals.fleets, 1000);
  EXPECT_GT(totals.requests, 100);
  EXPECT_GT(totals.elsewhere, 100) << "a fleet hardly ever launches another offering than the best";
  std::cout << fmt::format(
      "{} scripts, {} launches of gangs, {} fleets ({} not of the best offering) and {} single requests launched, "
      "{} gangs placed, {} crashes at {} points, longest partial launch {} s\n",
      totals.scripts, totals.launches, totals.fleets, totals.elsewhere, totals.requests, totals.whole, totals.crashes,
      totals.crashed_at.size(), totals.longest_partial_s);
}

}  // namespace gang_scripts_prop_test
}  // namespace qm::autoscaler
