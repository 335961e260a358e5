// The faults of a schedule: the frequency of each kind, and its effect.
#include "qm/base/crash_point.hpp"
#include "qm/bus/memory.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/events.pb.h"
#include "simulation.hpp"
#include "steady_clock.hpp"

#include <algorithm>

namespace qm::sim {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {
int draw_rate(Random& random, std::string& names, const char* name, int low, int high) {
  if (random.chance(450)) return 0;
  names += std::string(name) + " ";
  return static_cast<int>(random.between(low, high));
}
}  // namespace

void Faults::draw(Random& random) {
  const auto rate = [&](const char* name, int low, int high) { return draw_rate(random, names, name, low, high); };
  crash = rate("crash", 2, 15);
  crash_point = rate("crash-point", 2, 20);
  commit = rate("commit", 5, 40);
  publish = rate("publish", 5, 60);
  watch_break = rate("watch-break", 2, 15);
  watch_repeat = rate("watch-repeat", 10, 100);
  watch_hold = rate("watch-hold", 200, 900);
  node_lost = rate("node-lost", 1, 6);
  node_silent = rate("node-silent", 2, 10);
  spot = rate("spot", 3, 15);
  xid = rate("xid", 1, 4);
  capacity = rate("capacity", 3, 30);
  fact_repeat = rate("fact-repeat", 10, 200);
  bus.hold_per_mille = rate("bus-hold", 200, 800);
  bus.rewind_per_mille = rate("bus-rewind", 5, 60);
  bus.cut_per_mille = rate("bus-cut", 5, 40);
  outages.away_per_mille = rate("away", 20, 200);
  outages.answer_lost_per_mille = rate("answer-lost", 20, 200);
  outages.refused_per_mille = rate("refused", 300, 300);
  stop = rate("stop", 3, 15);
  cut = rate("cut", 3, 15);
  cut_commit = rate("cut-in-commit", 2, 10);
  restore = rate("restore", 20, 60);
  truncate = rate("truncate", 5, 40);
  recreate = rate("recreate", 5, 40);
  snapshot = rate("snapshot", 100, 700);
  jump = rate("clock", 3, 15);
  in_call = rate("in-call", 5, 50);
  unwritable = rate("unwritable", 3, 15);
  forge = rate("forged", 3, 15);
}
void Faults::draw_later(Random& random) {
  const auto rate = [&](const char* name, int low, int high) { return draw_rate(random, names, name, low, high); };
  leap = rate("clock-leap", 3, 15);
  lost_events = rate("lost-events", 10, 60);
  empty = rate("empty", 5, 30);
}
void Faults::end() {
  Faults calm;
  calm.names = names;
  // Effects on the logs and planted bugs remain.
  calm.bus.losses = bus.losses, calm.bus.recreations = bus.recreations;
  calm.bus.hide_gaps = bus.hide_gaps, calm.bus.hide_terms = bus.hide_terms;
  calm.outages.gives_up = outages.gives_up;
  *this = calm;
}
/// A bug that is visible only when something fails, is repeated or undone needs these faults.
void Sim::plant(Bug bug) {
  if (bug == Bug::kLaunchTwice || bug == Bug::kCreateTwice) faults_.outages.answer_lost_per_mille = 300;
  if (bug == Bug::kUndoForgotten) faults_.commit = 60;
  if (bug == Bug::kRowNotWritten || bug == Bug::kClockBack) faults_.crash = 15;
  if (bug == Bug::kSkipMessages)
    faults_.bus.skip_per_mille = 5, faults_.truncate = faults_.recreate = faults_.empty = 0;
  if (bug == Bug::kRetriesForEver) faults_.unwritable = 15;
  if (bug == Bug::kRollbackUnseen || bug == Bug::kNotObservedAgain) faults_.restore = 60;
  if (bug == Bug::kUnfenced) faults_.cut_commit = 20;
  if (bug == Bug::kClaimsEarly) faults_.cut = 20;
  if (bug == Bug::kCallsOverlap) faults_.in_call = 50;
  if (bug == Bug::kNoTombstones || bug == Bug::kSnapshotSkipped || bug == Bug::kGapUnseen)
    faults_.truncate = 150, faults_.bus.hold_per_mille = 800;
  // A consumer that is opened again, and snapshots for other reasons, repair what a hidden gap would lose.
  if (bug == Bug::kGapUnseen) {
    faults_.crash = faults_.crash_point = faults_.commit = faults_.stop = faults_.cut = faults_.cut_commit = 0;
    faults_.restore = faults_.lost_events = faults_.recreate = faults_.empty = faults_.bus.cut_per_mille = 0;
  }
  if (bug == Bug::kSnapshotSkipped) faults_.snapshot = 700;
  if (bug == Bug::kForgedPod) faults_.forge = 15;
  if (bug == Bug::kJumpAccepted) faults_.leap = 15;
  if (bug == Bug::kHistoryUnseen) faults_.lost_events = 60;
  if (bug == Bug::kGivesUp) faults_.outages.refused_per_mille = 300;
  faults_.bus.hide_gaps = bug == Bug::kGapUnseen || bug == Bug::kSkipMessages;
  faults_.bus.hide_terms = bug == Bug::kHistoryUnseen;
  faults_.outages.gives_up = bug == Bug::kGivesUp;
}

/// While an external call is in progress, the engine thread continues: a commit stays in doubt, and other calls begin.
void Sim::in_call(Service& service) {
  if (nested_ || !random_.chance(faults_.in_call)) return;
  nested_ = true;
  store::plant_outcome(service.disk(), store::CommitOutcome::kInDoubt, random_.chance(500));
  say(fmt::format("{} reads its state back while a call is under way", service.name()));
  (void)service.step(Service::Step::kPump);
  for (int i = 0; i < 3; ++i) (void)service.step(Service::Step::kExecute);
  nested_ = false;
}

/// A process waits for its database, and time passes for the others.
void Sim::blocked(Process& process) {
  while (std::chrono::steady_clock::now() < process.cut_until) tick(milliseconds(500));
  // The connection is established before the server detects the partition.
  for (auto more = random_.between(0, 6); more > 0; --more) tick(milliseconds(500));
}

Service* Sim::owner_of(const std::string& topic) {
  for (Service* service : five_.all()) {
    if (std::ranges::find(service->options().produces, topic) != service->options().produces.end()) return service;
  }
  broken_("no service owns topic " + topic);
  return nullptr;
}

/// The Snapshot call of the service that owns a topic.
Result<service::Snapshot> Sim::snapshot(const std::string& topic) {
  Service* owner = owner_of(topic);
  const bool away = !owner->up() || random_.chance(faults_.snapshot);
  say(fmt::format("a snapshot of {} {}", topic, away ? "fails" : "is taken"));
  if (away) {
    if (bug_ == Bug::kSnapshotSkipped) return service::Snapshot{};
    return fail(Code::kUnavailable, "{} is away", owner->name());
  }
  ++report_.snapshots;
  snapshot_at_[topic] = std::chrono::steady_clock::now();
  service::Snapshot out{{}, owner->host().history()};
  for (std::string after;;) {
    QM_ASSIGN(const auto page, owner->host().snapshot(topic, after, 200, {}, bug_ != Bug::kNoTombstones));
    for (const auto& row : page) out.entries.push_back(row.value);
    if (page.empty()) return out;
    after = page.back().key;
  }
}

/// Processes that stop, are partitioned from their database, or have a different time.
void Sim::inject_replica_faults() {
  auto& service = *random_.pick(services_);
  Process& process = random_.chance(700) ? service.leader() : service.other();
  if (random_.chance(faults_.stop) && process.running()) {
    process.stopped_for = static_cast<int>(random_.between(1, 8));
    say(fmt::format("{} stops for {} turns", process.holder, process.stopped_for));
  }
  if (random_.chance(faults_.cut))
    service.cut(process, milliseconds(random_.between(100, 15'000)), random_.chance(500));
  if (random_.chance(faults_.cut_commit)) {
    say(fmt::format("the next commit of {} loses its connection", service.name()));
    service.cut_in_commit(milliseconds(random_.between(100, 15'000)), random_.chance(500));
  }
  if (random_.chance(faults_.jump)) {
    ++report_.jumps;
    auto& clock = process.clock;
    // Budget periods are compared with admission's time: with budgets, clocks differ only slightly.
    const bool budgets = !budgets_.empty();
    switch (random_.between(0, 3)) {
      case 0: {
        const auto by = seconds(random_.between(1, budgets ? 5 : 120));
        say(fmt::format("the clock of {} jumps {} s ahead", process.holder, by.count()));
        clock.jump(by);
        break;
      }
      case 1: {
        const auto by = seconds(random_.between(1, budgets ? 5 : 3600));
        say(fmt::format("the clock of {} jumps {} s back", process.holder, by.count()));
        clock.jump(-by);
        break;
      }
      case 2: {
        const auto rate = static_cast<int>(random_.between(-20'000, 20'000));
        say(fmt::format("the clock of {} runs {} ppm fast", process.holder, rate));
        clock.run_at(rate);
        break;
      }
      default:
        say(fmt::format("the clock of {} is corrected", process.holder));
        clock.correct();
    }
  }
}

/// The clock of a host jumps ahead by hours, or such a jump is corrected. The database's clock does not confirm it.
void Sim::inject_time_faults() {
  if (!later_.chance(faults_.leap)) return;
  auto& service = *later_.pick(services_);
  Process& process = later_.chance(700) ? service.leader() : service.other();
  ++report_.leaps;
  if (process.clock.ahead() > minutes(30)) {
    say(fmt::format("the clock of {} is corrected", process.holder));
    return process.clock.correct();
  }
  const auto by = minutes(later_.between(60, 72 * 60));
  say(fmt::format("the clock of {} jumps {} min ahead", process.holder, by.count()));
  process.clock.jump(by);
}

void Sim::take_copies() {
  for (Service* service : five_.all()) {
    if (!random_.chance(200)) continue;
    auto& copies = copies_[service];
    copies.push_back(store::copy_disk(service->disk()));
    if (copies.size() > 4) copies.erase(copies.begin());
  }
}

/// Restores a copy that is some commits older. Effects of the lost commits on other services and on the outside
/// remain, so the lost commits must have neither events nor intents. Cost derives its events again from the bus, so
/// its lost commits may have events; but not with budgets, because admission does not revert what a budget has granted.
void Sim::restore(Service& service) {
  const auto now = store::position(service.disk());
  for (const std::size_t copy : copies_[&service]) {
    const auto then = store::position(service.disk(), copy);
    if (then.commits == now.commits) continue;
    const bool derived = &service == five_.cost && budgets_.empty();
    if (!derived && (then.outbox != now.outbox || then.intents != now.intents)) continue;
    if (random_.chance(300)) kill(service);
    return restore(service, copy);
  }
}

void Sim::restore(Service& service, std::size_t copy) {
  service.restore(copy);
  restored_ = true;
  copies_[&service].clear();
  if (old_copy_ && old_copy_->service == &service) old_copy_.reset();
  if (&service == five_.admission) configured_ = false;
}

/// All processes of a service are down, and they start on a database that has lost events: only consumers can detect
/// it.
void Sim::lose_events() {
  if (!old_copy_ && later_.chance(faults_.lost_events)) {
    Service& service = *later_.pick(services_);
    old_copy_ = {&service, store::copy_disk(service.disk())};
  }
  if (!old_copy_) return;
  Service& service = *old_copy_->service;
  const auto then = store::position(service.disk(), old_copy_->copy), now = store::position(service.disk());
  const bool derived = &service == five_.cost && budgets_.empty();
  // Cost needs each event, and a snapshot has only the newest: it must not be behind by more terms than events name.
  if ((!derived && then.intents != now.intents) || now.commits - then.commits > 20) return old_copy_.reset();
  if (then.outbox == now.outbox || !later_.chance(300)) return;
  for (Process* process : {&service.leader(), &service.other()}) {
    service.kill(*process, static_cast<int>(later_.between(0, 15)));
    if (process->running()) return;
  }
  restore(service, old_copy_->copy);
}

/// True if no cursor of a consumer has unread messages of the topic.
bool Sim::all_read(const std::string& topic) {
  const auto bounds = bus::log_bounds(*bus_, topic);
  for (Service* service : five_.all()) {
    if (std::ranges::find(service->options().consumes, topic) == service->options().consumes.end()) continue;
    std::vector<std::int64_t> next(bounds.size());
    for (const auto& row : store::look_at(service->disk()).cursors) {
      if (row.topic == topic) next[static_cast<std::size_t>(row.partition)] = row.next_offset;
    }
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      if (next[i] != bounds[i].next) return false;
    }
  }
  return true;
}

namespace {
const std::vector<std::string> kTopics{"qm.workload", "qm.placement", "qm.node", "qm.capacity",
                                       "qm.gpu",      "qm.spot",      "qm.cost"};
}  // namespace

/// All partitions of a topic lose all of their messages, including unread ones. A consumer detects it with the next
/// message, except for 10 s after a snapshot, when any offset is accepted as the next one.
void Sim::lose_all_messages() {
  if (!later_.chance(faults_.empty)) return;
  const auto& topic = later_.pick(kTopics);
  const auto snapshot = snapshot_at_.find(topic);
  if (snapshot != snapshot_at_.end() && std::chrono::steady_clock::now() - snapshot->second < seconds(20)) return;
  bus::plant_truncation(*bus_, topic, SIZE_MAX);
  ++faults_.bus.losses[topic];
  ++report_.emptied;
  emptied_.insert(topic);
  say(fmt::format("{} loses all messages", topic));
}

/// Another cluster on the bus publishes a message in each partition of the topics that lost all messages, as would
/// happen sooner or later.
void Sim::publish_of_other_cluster() {
  const auto producer = bus_->producer("other-cluster");
  for (const auto& topic : emptied_) {
    const auto partitions = static_cast<int>(bus::log_bounds(*bus_, topic).size());
    std::set<int> done;
    for (int i = 0; static_cast<int>(done.size()) < partitions; ++i) {
      const std::string key = fmt::format("other/{}", i);
      if (done.contains(bus::partition_of(key, partitions))) continue;
      quartermaster::v1::Envelope e;
      e.set_topic(topic);
      e.set_key(key);
      e.set_key_version(1);
      e.set_shard("other");
      const std::vector<bus::Record> record{{topic, key, e.SerializeAsString()}};
      if ((*producer)->publish(record, seconds(1))) done.insert(bus::partition_of(key, partitions));
    }
  }
}

/// A log loses its oldest messages, but not the newest; or the topic is deleted and created again. A log that is then
/// empty shows no gap before its next message, so all its messages must have been read.
void Sim::lose_messages() {
  const auto& topic = random_.pick(kTopics);
  if (random_.chance(faults_.truncate)) {
    std::size_t least = SIZE_MAX;
    for (const auto& log : bus::log_bounds(*bus_, topic)) {
      if (log.next > log.first) least = std::min(least, static_cast<std::size_t>(log.next - log.first));
    }
    if (least != SIZE_MAX && least > 1) {
      bus::plant_truncation(*bus_, topic, least - 1);
      ++faults_.bus.losses[topic];
      ++report_.truncations;
      say(fmt::format("{} loses its oldest {} messages", topic, least - 1));
    }
  }
  if (random_.chance(faults_.recreate) && all_read(topic)) {
    bus::plant_recreation(*bus_, topic);
    ++faults_.bus.losses[topic];
    ++faults_.bus.recreations;
    ++report_.recreations;
    copies_.clear(),
        old_copy_.reset();  // a partition of which a copy has read nothing has no anchor, see docs/api.md
    say(fmt::format("{} is deleted and created again", topic));
  }
}

void Sim::inject_history_faults() {
  if (faults_.restore > 0) take_copies();
  if (random_.chance(faults_.restore)) restore(*random_.pick(services_));
  lose_events();
  lose_messages();
  lose_all_messages();
  if (random_.chance(faults_.unwritable)) users_->send_unwritable();
  if (random_.chance(faults_.forge)) {
    std::vector<std::string> jobs;
    for (const auto& [uid, job] : world_.jobs) {
      if (!job.complete && !job.deleting) jobs.push_back(uid);
    }
    if (!jobs.empty()) world_.forge_pod(random_.pick(jobs), random_.chance(500));
  }
}

void Sim::inject_faults() {
  static const std::vector<std::string> kPoints{
      "service.before_commit", "service.after_commit", "service.before_publish", "service.after_publish",
      "service.before_intent", "service.after_intent", "store.in_commit",        "store.before_commit",
      "bus.before_publish",    "bus.after_publish",    "bus.after_poll"};
  if (random_.chance(faults_.crash)) kill(*random_.pick(services_));
  inject_replica_faults();
  inject_time_faults();
  inject_history_faults();
  if (random_.chance(faults_.crash_point)) {
    arm_crash_point(random_.pick(kPoints), static_cast<int>(random_.between(1, 12)),
                    [](std::string_view) { throw Crash{}; });
  }
  if (random_.chance(faults_.watch_break)) watches_[static_cast<std::size_t>(random_.between(0, 2))].list();
  std::vector<std::string> names;
  for (const auto& [name, node] : world_.nodes) names.push_back(name);
  if (!names.empty()) {
    const std::string& name = random_.pick(names);
    if (random_.chance(faults_.node_lost)) {
      say("node " + name + " is lost");
      world_.lose_node(name);
    }
    if (random_.chance(faults_.node_silent)) {
      const auto length =
          milliseconds(random_.chance(500) ? random_.between(2000, 40'000) : random_.between(55'000, 240'000));
      say(fmt::format("node {} is silent for {} s", name, length.count() / 1000));
      world_.silence_node(name, length);
    }
    if (random_.chance(faults_.spot)) {
      const auto& instance = world_.instances.at(world_.nodes.at(name).instance);
      if (instance.spot) {
        say("spot notice for " + name);
        world_.spot_notice(instance.id, seconds(120));
      }
    }
    // No node with partitioned GPUs can be created again, so the existing one is spared.
    if (random_.chance(faults_.xid) && !world_.nodes.at(name).sliced && !world_.nodes.at(name).cuttable) {
      const int xid = random_.chance(500) ? 79 : random_.chance(500) ? 48 : 13;
      say(fmt::format("XID {} on {}", xid, name));
      agents_->report_xid(name, xid, static_cast<int>(random_.between(0, 7)));
    }
  }
  if (random_.chance(faults_.capacity)) {
    world_.no_capacity = !world_.no_capacity;
    say(world_.no_capacity ? "the cloud has no capacity" : "the cloud has capacity");
  }
  auto& quotes = looks_->quotes;
  if (random_.chance(5) && quotes.back().first + minutes(4) < clock_.now()) {
    quotes.emplace_back(from_micros(micros(clock_.now()) / 1'000'000 * 1'000'000),
                        random_.between(15, 50) * 1'000'000'000);
  }
}

}  // namespace qm::sim
