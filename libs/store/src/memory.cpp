// The store in memory: a MemoryDisk has the content of a PostgreSQL database, and outlives the Store objects that
// lead on it.
#include "qm/store/memory.hpp"

#include "commit_check.hpp"
#include "qm/base/crash_point.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

namespace qm::store {

/// The content of a PostgreSQL database.
struct MemoryData {
  using Key = std::pair<std::string, std::string>;
  std::uint64_t epoch = 0;
  std::uint64_t commits = 0;
  std::uint64_t term = 0;
  Ancestors ancestors{};
  CommitCheck numbers;
  Instant last_now{};
  std::map<Key, std::string> state;
  std::vector<Store::JournalRow> journal;
  std::map<std::uint64_t, OutboxRow> outbox;
  std::map<Key, OutboxRow> published;
  std::map<std::string, std::uint64_t> floors;
  std::map<std::string, IntentRow> intents;
  std::map<std::pair<std::string, std::int32_t>, CursorRow> cursors;
  std::map<Key, SeenRow> seen;
  std::map<std::string, RequestRow> requests;
  std::vector<AppendRow> appends;
  LeaseView lease;            ///< except `session`
  std::uint64_t session = 0;  ///< of the holder

  void forget(const Commit& batch) {
    for (const auto& row : batch.forget_seen) {
      const auto it = seen.find({row.topic, row.key});
      if (it != seen.end() && it->second.gone) seen.erase(it);
    }
    for (const auto& row : batch.forget_published) {
      const auto it = published.find({row.topic, row.key});
      if (it == published.end() || !it->second.tombstone) continue;
      floors[row.topic] = std::max(floors[row.topic], it->second.key_version);
      published.erase(it);
    }
  }

  void apply(const Commit& batch) {
    forget(batch);
    for (const auto& row : batch.state) {
      if (row.value) {
        state.insert_or_assign({row.kind, row.key}, *row.value);
      } else {
        state.erase({row.kind, row.key});
      }
    }
    if (batch.journal_sequence != 0)
      journal.push_back({batch.journal_sequence, batch.now, batch.journal, batch.digest});
    for (const auto& row : batch.outbox) {
      outbox.insert_or_assign(row.sequence, row);
      published.insert_or_assign({row.topic, row.key}, row);
    }
    for (const auto& row : batch.intents) intents.try_emplace(row.id, row);
    for (const auto& id : batch.intents_done) intents.erase(id);
    for (auto row : batch.cursors) {
      auto& kept = cursors[{row.topic, row.partition}];
      if (!row.anchor) row.anchor = kept.anchor.value_or(LogAnchor{});
      kept = std::move(row);
    }
    for (const auto& row : batch.seen) seen.insert_or_assign({row.topic, row.key}, row);
    for (const auto& row : batch.requests) requests.insert_or_assign(row.id, row);
    std::erase_if(requests, [&](const auto& item) { return item.second.at < batch.now - kRequestLife; });
    appends.insert(appends.end(), batch.appends.begin(), batch.appends.end());
    last_now = std::max(last_now, batch.now);
    ++commits;
    numbers.advance(batch);
  }
};

struct MemoryDisk : MemoryData {
  struct Planted {
    CommitOutcome outcome;
    bool really_committed;
  };

  std::mutex mutex;
  std::uint64_t newest_term = 0;  ///< not restored with a copy; unique among the disks of the process
  std::uint64_t restores = 0;     ///< each ends all sessions of stores
  std::deque<Planted> planted;
  std::vector<MemoryData> copies;
  std::optional<std::size_t> rollback;  ///< to this copy, at the next acquire
  std::optional<Instant> server_now;
  std::uint64_t next_session = 0;
  std::set<std::uint64_t> sessions;  ///< of leases, alive
  std::condition_variable lease_changed;

  void restore(std::size_t copy) {
    static_cast<MemoryData&>(*this) = copies.at(copy);
    ++restores;
  }
  void begin_term() {
    ancestors = ancestors_of_next({term, numbers.outbox(), ancestors});
    term = ++newest_term;
  }
};

namespace {

class MemoryStore final : public Store {
 public:
  MemoryStore(std::shared_ptr<MemoryDisk> disk, bool fenced) : disk_(std::move(disk)), fenced_(fenced) {}

  Result<Loaded> acquire(const std::string& holder) override {
    const std::lock_guard lock(disk_->mutex);
    term_ = {};
    if (disk_->rollback) disk_->restore(*disk_->rollback);
    disk_->rollback.reset();
    const auto& lease = disk_->lease;
    if (fenced_ && (lease.holder != holder || lease.released))
      return fail(Code::kFailedPrecondition, "{} does not have the lease, \"{}\" has it", holder, lease.holder);
    epoch_ = ++disk_->epoch;
    commits_ = disk_->commits;
    const auto last_term = disk_->term;
    begin_term();
    auto out = loaded(*disk_);
    out.last_term = last_term;
    return out;
  }

  static Loaded loaded(const MemoryDisk& disk) {
    Loaded out;
    out.epoch = disk.epoch;
    out.term = disk.term;
    out.ancestors = disk.ancestors;
    for (const auto& [key, value] : disk.state) out.state.push_back({key.first, key.second, value});
    out.journal_sequence = disk.numbers.journal();
    out.outbox_sequence = disk.numbers.outbox();
    out.intent_sequence = disk.numbers.intent();
    out.last_now = disk.last_now;
    std::map<std::uint64_t, const IntentRow*> in_order;
    for (const auto& [id, row] : disk.intents) in_order.emplace(row.sequence, &row);
    for (const auto& [sequence, row] : in_order) out.open_intents.push_back(*row);
    for (const auto& [key, row] : disk.cursors) out.cursors.push_back(row);
    for (const auto& [key, row] : disk.seen) out.seen.push_back(row);
    for (const auto& [key, row] : disk.published)
      out.published.push_back({row.topic, row.key, row.key_version, row.tombstone});
    for (const auto& [topic, version] : disk.floors) out.floors.push_back({topic, version});
    for (const auto& [id, row] : disk.requests) out.requests.push_back(row);
    out.server_now = disk.server_now;
    return out;
  }

  Term term() const override { return term_; }

  Result<Instant> server_now() override {
    const std::lock_guard lock(disk_->mutex);
    return disk_->server_now ? Result<Instant>(*disk_->server_now) : Store::server_now();
  }

  Result<CommitOutcome> commit(const Commit& batch) override {
    QM_CRASH_POINT("store.before_commit");
    const std::lock_guard lock(disk_->mutex);
    if (term_.id == 0 || epoch_ < disk_->epoch) return lose(CommitOutcome::kEpochLost);
    if (term_.id != disk_->term || commits_ != disk_->commits) return lose(CommitOutcome::kRolledBack);
    if (session_ != disk_->restores) {
      begin_term();
      return CommitOutcome::kTermEnded;
    }
    QM_TRY(disk_->numbers.check(batch));
    if (!disk_->planted.empty()) {
      const auto planted = disk_->planted.front();
      disk_->planted.pop_front();
      switch (planted.outcome) {
        case CommitOutcome::kCommitted:
          break;
        case CommitOutcome::kNotCommitted:
          return CommitOutcome::kNotCommitted;
        case CommitOutcome::kEpochLost:
          ++disk_->epoch;
          return lose(CommitOutcome::kEpochLost);
        case CommitOutcome::kRolledBack:
          return lose(CommitOutcome::kRolledBack);
        case CommitOutcome::kTermEnded:
          begin_term();
          return CommitOutcome::kTermEnded;
        case CommitOutcome::kInDoubt:
          if (planted.really_committed) disk_->apply(batch);
          return lose(CommitOutcome::kInDoubt);
      }
    }
    QM_CRASH_POINT("store.in_commit");
    disk_->apply(batch);
    ++commits_;
    QM_CRASH_POINT("store.after_commit");
    return CommitOutcome::kCommitted;
  }

  Result<std::vector<OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) override {
    const std::lock_guard lock(disk_->mutex);
    std::vector<OutboxRow> out;
    for (auto it = disk_->outbox.upper_bound(after); it != disk_->outbox.end() && out.size() < max; ++it)
      out.push_back(it->second);
    return out;
  }

  Status published(std::uint64_t sequence, std::uint64_t term) override {
    const std::lock_guard lock(disk_->mutex);
    if (term != disk_->term) return {};
    disk_->outbox.erase(disk_->outbox.begin(), disk_->outbox.upper_bound(sequence));
    return {};
  }

  Result<std::vector<OutboxRow>> snapshot(const std::string& topic, const std::string& after_key, std::size_t max,
                                          const std::string& only_key, bool ended) override {
    const std::lock_guard lock(disk_->mutex);
    std::vector<OutboxRow> out;
    if (!only_key.empty()) {
      const auto it = disk_->published.find({topic, only_key});
      if (it != disk_->published.end()) out.push_back(it->second);
      return out;
    }
    std::size_t bytes = 0;
    for (auto it = disk_->published.upper_bound({topic, after_key});
         it != disk_->published.end() && it->first.first == topic && out.size() < max && bytes < kReadBytes; ++it) {
      if (!ended && it->second.tombstone) continue;
      bytes += it->second.value.size();
      out.push_back(it->second);
    }
    return out;
  }

  Result<std::vector<JournalRow>> read_journal(std::uint64_t after, std::size_t max) override {
    const std::lock_guard lock(disk_->mutex);
    std::vector<JournalRow> out;
    for (const auto& row : disk_->journal)
      if (row.sequence > after && out.size() < max) out.push_back(row);
    return out;
  }

 private:
  CommitOutcome lose(CommitOutcome outcome) {
    term_ = {};
    return outcome;
  }
  void begin_term() {
    disk_->begin_term();
    term_ = {disk_->term, disk_->ancestors};
    session_ = disk_->restores;
  }

  std::shared_ptr<MemoryDisk> disk_;
  const bool fenced_;
  std::uint64_t epoch_ = 0;
  Term term_;                  ///< id 0 = not the leader
  std::uint64_t session_ = 0;  ///< restores of the disk before this one
  std::uint64_t commits_ = 0;  ///< on the disk, as known to this store
};

class MemoryLease final : public Lease {
 public:
  explicit MemoryLease(std::shared_ptr<MemoryDisk> disk) : disk_(std::move(disk)) {
    const std::lock_guard lock(disk_->mutex);
    session_ = ++disk_->next_session;
    disk_->sessions.insert(session_);
  }
  ~MemoryLease() override {
    const std::lock_guard lock(disk_->mutex);
    disk_->sessions.erase(session_);
    disk_->lease_changed.notify_all();
  }
  MemoryLease(const MemoryLease&) = delete;
  MemoryLease& operator=(const MemoryLease&) = delete;

  Result<LeaseView> look() override {
    const std::lock_guard lock(disk_->mutex);
    LeaseView out = disk_->lease;
    out.session = disk_->sessions.contains(disk_->session);
    return out;
  }
  Result<bool> claim(std::uint64_t seen_beat, const std::string& holder) override {
    const std::lock_guard lock(disk_->mutex);
    auto& lease = disk_->lease;
    if (lease.beat != seen_beat) return false;
    lease = {.holder = holder, .address = {}, .beat = lease.beat + 1, .terms = lease.terms + 1};
    disk_->session = session_;
    return true;
  }
  Result<Renewal> renew(const std::string& holder, const std::string& address) override {
    const std::lock_guard lock(disk_->mutex);
    auto& lease = disk_->lease;
    if (lease.holder != holder || lease.released) return Renewal{};
    lease.address = address;
    disk_->session = session_;
    ++lease.beat;
    return Renewal{.holds = true};
  }
  bool quiet() override { return true; }
  Status release(const std::string& holder) override {
    const std::lock_guard lock(disk_->mutex);
    auto& lease = disk_->lease;
    if (lease.holder != holder) return {};
    lease.released = true;
    lease.address.clear();
    ++lease.beat;
    disk_->lease_changed.notify_all();
    return {};
  }
  void wait(SteadyDuration timeout) override {
    std::unique_lock lock(disk_->mutex);
    disk_->lease_changed.wait_for(lock, timeout);
  }
  Status ready() override { return {}; }

 private:
  std::shared_ptr<MemoryDisk> disk_;
  std::uint64_t session_ = 0;
};

}  // namespace

std::shared_ptr<MemoryDisk> make_memory_disk() {
  static std::atomic<std::uint64_t> disks{0};
  auto disk = std::make_shared<MemoryDisk>();
  disk->newest_term = ++disks << 32;
  return disk;
}

std::unique_ptr<Store> open_memory(std::shared_ptr<MemoryDisk> disk, bool fenced) {
  return std::make_unique<MemoryStore>(std::move(disk), fenced);
}

std::unique_ptr<Lease> open_memory_lease(std::shared_ptr<MemoryDisk> disk) {
  return std::make_unique<MemoryLease>(std::move(disk));
}

void plant_outcome(MemoryDisk& disk, CommitOutcome outcome, bool really_committed) {
  const std::lock_guard lock(disk.mutex);
  disk.planted.push_back({outcome, really_committed});
}

void set_server_now(MemoryDisk& disk, Instant now) {
  const std::lock_guard lock(disk.mutex);
  disk.server_now = now;
}

std::size_t copy_disk(MemoryDisk& disk) {
  const std::lock_guard lock(disk.mutex);
  disk.copies.push_back(disk);
  return disk.copies.size() - 1;
}

void restore_disk(MemoryDisk& disk, std::size_t copy) {
  const std::lock_guard lock(disk.mutex);
  disk.restore(copy);
}

void plant_rollback(MemoryDisk& disk, std::size_t copy) {
  const std::lock_guard lock(disk.mutex);
  disk.rollback = copy;
}

namespace {
DiskPosition position_of(const MemoryData& data) {
  return {data.epoch, data.commits, data.numbers.outbox(), data.numbers.intent()};
}
}  // namespace

DiskPosition position(MemoryDisk& disk) {
  const std::lock_guard lock(disk.mutex);
  return position_of(disk);
}

DiskPosition position(MemoryDisk& disk, std::size_t copy) {
  const std::lock_guard lock(disk.mutex);
  return position_of(disk.copies.at(copy));
}

Loaded look_at(MemoryDisk& disk) {
  const std::lock_guard lock(disk.mutex);
  return MemoryStore::loaded(disk);
}

std::vector<OutboxRow> newest_rows(MemoryDisk& disk) {
  const std::lock_guard lock(disk.mutex);
  std::vector<OutboxRow> out;
  for (const auto& [key, row] : disk.published) out.push_back(row);
  return out;
}

std::string lease_holder(MemoryDisk& disk) {
  const std::lock_guard lock(disk.mutex);
  return disk.lease.holder;
}

std::vector<AppendRow> appended(MemoryDisk& disk) {
  const std::lock_guard lock(disk.mutex);
  return disk.appends;
}

}  // namespace qm::store
