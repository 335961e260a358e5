#include "services.hpp"

#include "qm/base/digest.hpp"
#include "quartermaster/v1/journal.pb.h"

namespace qm::sim {
namespace {

/// The planted bugs that sit between a host and its disk.
class FaultyStore final : public store::Store {
 public:
  FaultyStore(std::unique_ptr<store::Store> inner, Bug bug, Random& random)
      : inner_(std::move(inner)), bug_(bug), random_(random) {}
  Result<store::Loaded> acquire(const std::string& holder) override {
    auto out = inner_->acquire(holder);
    if (bug_ == Bug::kClockBack && out) out->last_now -= std::chrono::minutes(10);
    return out;
  }
  Result<store::CommitOutcome> commit(const store::Commit& batch) override {
    store::Commit copy = batch;
    if (bug_ == Bug::kRowNotWritten && !copy.state.empty() && random_.chance(20)) copy.state.pop_back();
    if (bug_ == Bug::kClockBack && random_.chance(50)) copy.now -= std::chrono::minutes(10);
    return inner_->commit(copy);
  }
  Result<std::vector<store::OutboxRow>> read_outbox(std::uint64_t after, std::size_t max) override {
    return inner_->read_outbox(after, max);
  }
  Status published(std::uint64_t sequence, std::uint64_t epoch) override { return inner_->published(sequence, epoch); }
  void wait_outbox(SteadyDuration timeout) override { inner_->wait_outbox(timeout); }
  Result<std::vector<store::OutboxRow>> snapshot(const std::string& topic, const std::string& after, std::size_t max,
                                                 const std::string& only_key, bool ended) override {
    return inner_->snapshot(topic, after, max, only_key, ended);
  }
  Result<std::vector<JournalRow>> read_journal(std::uint64_t after, std::size_t max) override {
    return inner_->read_journal(after, max);
  }

 private:
  std::unique_ptr<store::Store> inner_;
  Bug bug_;
  Random& random_;
};

class ForgetfulShell final : public service::Shell {
 public:
  explicit ForgetfulShell(std::unique_ptr<service::Shell> inner) : inner_(std::move(inner)) {}
  Status load(std::span<const store::StateRow> rows) override { return inner_->load(rows); }
  void step(std::span<const service::Input> batch, Instant now, service::Effects& out,
            std::vector<std::pair<std::size_t, Error>>& poison) override {
    inner_->step(batch, now, out, poison);
  }
  void undo() override { inner_->commit(); }
  void commit() override { inner_->commit(); }
  [[nodiscard]] std::uint64_t digest() const override { return inner_->digest(); }
  void debug_state(service::StateDump& out) const override { inner_->debug_state(out); }
  [[nodiscard]] const service::Shell& inner() const { return *inner_; }

 private:
  std::unique_ptr<service::Shell> inner_;
};

}  // namespace

Service::Service(Parts parts, const DomainClock& clock)
    : parts_(std::move(parts)), clock_(clock), disk_(store::make_memory_disk()) {}

const service::Shell& Service::unwrapped(const service::Shell& shell) {
  const auto* forgetful = dynamic_cast<const ForgetfulShell*>(&shell);
  return forgetful == nullptr ? shell : forgetful->inner();
}

void Service::start() {
  ++lives_;
  auto shell = parts_.shell();
  if (parts_.bug == Bug::kUndoForgotten) shell = std::make_unique<ForgetfulShell>(std::move(shell));
  host_ = std::make_unique<service::Host>(
      parts_.options, std::move(shell),
      std::make_unique<FaultyStore>(store::open_memory(disk_), parts_.bug, *parts_.random), parts_.bus, clock_,
      parts_.executor);
  const auto opened = host_->open();
  if (!opened) return parts_.broken(fmt::format("{} cannot start: {}", name(), opened.error().to_string()));
  const auto journal = store::open_memory(disk_)->read_journal(0, SIZE_MAX);
  if (!journal->empty() && journal->back().digest != digest()) {
    parts_.broken(fmt::format("{} reads another state back than batch {} had: {}", name(), journal->back().sequence,
                              host_->debug_state()["engine"].dump()));
  }
}

void Service::crash() {
  if (!up()) return;
  host_.reset();
}

std::uint64_t Service::digest() {
  std::uint64_t out = 0;
  read([&](const service::Shell& shell) { out = shell.digest(); });
  return out;
}

bool Service::step(Step what) {
  if (!up()) return false;
  try {
    switch (what) {
      case Step::kConsume:
        return host_->consume_once();
      case Step::kPump:
        return host_->pump();
      case Step::kRelay:
        return host_->relay_once();
      case Step::kExecute:
        return host_->execute_once();
    }
  } catch (const Crash&) {
    // In the middle of something: what the disk holds is all there is.
    host_.reset();
    return true;
  }
  return false;
}

bool Service::idle() {
  if (!up()) return false;
  const auto c = host_->counters();
  return c.mailbox == 0 && c.open_intents == 0 && c.bus_lag <= 0 && c.outbox_backlog == 0;
}

void Service::replay(std::uint64_t* hash) {
  const auto rows = store::open_memory(disk_)->read_journal(0, SIZE_MAX);
  auto shell = parts_.shell();
  Digest total;
  Instant last{};
  for (const auto& row : *rows) {
    if (row.now < last) {
      parts_.broken(fmt::format("{}: batch {} is {} us earlier than the one before", name(), row.sequence,
                                (last - row.now).count()));
    }
    last = row.now;
    quartermaster::v1::JournalBatch batch;
    if (!batch.ParseFromString(row.bytes)) return parts_.broken(name() + ": a journal row cannot be read");
    std::vector<service::Input> inputs;
    for (const auto& in : batch.inputs()) {
      service::Input input;
      input.source = static_cast<service::Source>(in.source());
      input.name = in.name();
      input.bytes = in.bytes();
      input.id = in.id();
      input.key = in.key();
      input.version = in.version();
      input.tombstone = in.tombstone();
      input.trace_parent = in.trace_parent();
      inputs.push_back(std::move(input));
    }
    service::Effects effects;
    std::vector<std::pair<std::size_t, Error>> poison;
    shell->step(inputs, row.now, effects, poison);
    if (shell->digest() != row.digest) {
      std::string inputs_seen;
      for (const auto& in : inputs) inputs_seen += fmt::format(" {}/{}/{}", in.name, in.key, in.id);
      return parts_.broken(
          fmt::format("{}: a replay of batch {} reaches another state, with{}", name(), row.sequence, inputs_seen));
    }
    shell->commit();
    total.add(static_cast<std::int64_t>(row.digest)).add(micros(row.now));
  }
  if (hash != nullptr) *hash ^= total.value() * 0x9e3779b97f4a7c15ULL + (*hash << 6);
}

}  // namespace qm::sim
