#include "laws.hpp"

#include "qm/admission/queries/queues.hpp"
#include "qm/catalog/catalog.hpp"
#include "qm/kube/client.hpp"
#include "qm/wire/last_state.hpp"
#include "quartermaster/v1/envelope.pb.h"
#include "quartermaster/v1/journal.pb.h"

namespace qm::sim {
namespace {

const admission::Engine& admission_of(const service::Shell& shell) {
  return static_cast<const admission::AdmissionShell&>(shell).engine();
}

Money bill(const World::Instance& i, const std::vector<std::pair<Instant, std::int64_t>>& quotes, Instant now) {
  const Instant end = i.stopped.value_or(now);
  if (!i.spot) {
    const HourlyRate rate{*Money::parse_usd(catalog::find(i.type)->usd_hour)};
    return rate.accrued(i.launched, end);
  }
  Money sum;
  for (std::size_t q = 0; q < quotes.size(); ++q) {
    const HourlyRate rate{Money::nano(quotes[q].second)};
    // The first known quote also applies to the time before it.
    const Instant from = q == 0 ? i.launched : std::max(i.launched, quotes[q].first);
    const Instant until = q + 1 < quotes.size() ? std::min(end, quotes[q + 1].first) : end;
    if (from < until) sum += rate.accrued(i.launched, until) - rate.accrued(i.launched, from);
  }
  return sum;
}

/// The last event of each key that a service has applied.
std::map<std::pair<std::string, std::string>, quartermaster::v1::JournalInput> last_events(Service& reader) {
  std::map<std::pair<std::string, std::string>, quartermaster::v1::JournalInput> out;
  for (const auto& row : reader.journal()) {
    quartermaster::v1::JournalBatch batch;
    if (!batch.ParseFromString(row.bytes)) continue;
    for (auto& in : *batch.mutable_inputs()) {
      if (static_cast<service::Source>(in.source()) != service::Source::kBus) continue;
      const std::pair key(in.name(), in.key());
      out[key] = std::move(in);
    }
  }
  return out;
}

/// Each service has applied the last published events of its topics. Events that an owner's database lost, and that
/// the owner did not publish again, may remain if no snapshot after a break removes them.
void check_inboxes(const Five& five, const Broken& broken) {
  std::map<std::pair<std::string, std::string>, store::OutboxRow> newest;
  std::set<std::string> lost;  // topics
  for (Service* owner : five.all()) {
    if (owner->lost_events() > 0) lost.insert(owner->options().produces.begin(), owner->options().produces.end());
    for (auto& row : store::newest_rows(owner->disk())) newest.emplace(std::pair(row.topic, row.key), std::move(row));
  }
  for (Service* reader : five.all()) {
    std::map<std::pair<std::string, std::string>, store::SeenRow> seen;
    for (auto& row : store::look_at(reader->disk()).seen) seen.emplace(std::pair(row.topic, row.key), std::move(row));
    const auto applied = last_events(*reader);
    const auto& topics = reader->options().consumes;
    for (const auto& [key, row] : newest) {
      if (std::ranges::find(topics, row.topic) == topics.end()) continue;
      const auto it = seen.find(key);
      // The bits above are the breaks of the owner's history.
      const std::uint64_t version = it == seen.end() ? 0 : it->second.version & ((std::uint64_t{1} << 40) - 1);
      if (version != row.key_version)
        broken(fmt::format("{} has version {} of {} {}, its owner published {}", reader->name(), version, row.topic,
                           row.key, row.key_version));
      quartermaster::v1::Envelope e;
      const auto last = applied.find(key);
      if (!e.ParseFromString(row.value) || last == applied.end() || last->second.bytes() != e.payload())
        broken(fmt::format("{} applied another version {} of {} {} than its owner published", reader->name(), version,
                           row.topic, row.key));
    }
    for (const auto& [key, row] : seen) {
      const bool kept = lost.contains(row.topic) && !wire::last_state(row.topic, row.key, true);
      if (!newest.contains(key) && !row.gone && !kept)
        broken(fmt::format("{} has version {} of {} {}, which its owner does not know", reader->name(), row.version,
                           row.topic, row.key));
    }
  }
}

void check_ledger(Service& cost, const Broken& broken) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> sums;
  for (const auto& row : store::appended(cost.disk())) {
    if (row.table != "ledger") continue;
    std::map<std::string, std::string> columns;
    for (std::size_t i = 0; i < row.names.size(); ++i) columns[row.names[i]] = row.columns[i].value_or("");
    auto& sum = sums[columns["entry_id"]];
    sum.first += std::stoll(columns["nano"]);
    sum.second += std::stoll(columns["gpu_micros"]);
  }
  for (const auto& [entry, sum] : sums) {
    if (sum.first != 0 || sum.second != 0) broken(fmt::format("ledger entry {} does not balance", entry));
  }
}

/// All holds are settled, and no budget has paid more than cost reports for the attempts.
void check_budgets(const Five& five, const Broken& broken) {
  std::map<AttemptId, cost::SpentRow> reported;
  five.cost->read([&](const service::Shell& s) {
    const auto& engine = cost::engine_of(s);
    for (const auto& [attempt, row] : engine.state().spent) reported.emplace(attempt, row);
  });
  five.admission->read([&](const service::Shell& s) {
    const auto& tables = admission_of(s).tables();
    for (const auto& [key, hold] : tables.holds) {
      broken(fmt::format("{}/{} still holds {} of budget {}", key.uid, key.attempt, hold.amount(), key.budget));
    }
    for (const auto& [name, row] : tables.budgets) {
      std::int64_t paid = row.account.spent_before() + row.account.owed(), most = 0;
      for (const auto& [from, one] : row.account.allotments()) paid += one.spent;
      for (const auto& [attempt, spent] : reported) {
        most += row.terms.dollars ? spent.amount.nano.nano() : (spent.amount.gpu_micros + 999) / 1000;
      }
      if (paid > most) broken(fmt::format("budget {} paid {} of {}", name, paid, most));
    }
  });
}

}  // namespace

void check_running(const Five& five, Instant now, bool lossy, const Broken& broken) {
  for (Service* service : five.all()) {
    if (!service->up()) continue;
    const auto c = service->host().counters();
    if (c.gaps != 0 && !lossy) broken(fmt::format("{} missed a version", service->name()));
    if (c.poison != 0) broken(fmt::format("{} cannot read a message", service->name()));
  }
  if (five.admission->up()) five.admission->read([](const service::Shell& s) { admission_of(s).check_laws(); });
  if (five.placement->up()) five.placement->read([](const service::Shell& s) { placement::engine_of(s).audit(); });
  if (five.cost->up()) {
    five.cost->read([&](const service::Shell& s) {
      const auto& engine = cost::engine_of(s);
      if (const std::string wrong = engine.audit(); !wrong.empty()) broken("cost: " + wrong);
      const auto statement = engine.statement("", std::max(now, engine.meta().now));
      if (!statement) return broken("cost: " + statement.error().to_string());
      if (statement->imbalance.nano() != 0) broken("the ledger is out of balance");
    });
  }
}

void check_waits(const Five& five, Instant now, WaitsInVain& since, const Broken& broken) {
  constexpr Duration kQuiet = std::chrono::seconds(5);
  constexpr int kLooks = 8;  // placement offers free capacity in up to four rounds, and admission reads each offer
  const auto services = five.all();
  if (!std::ranges::all_of(services, [](Service* service) { return service->idle(); })) return since.clear();
  WaitsInVain next;
  std::vector<std::pair<WorkloadSpec, Instant>> waiting;  // with the end of the back-off
  five.admission->read([&](const service::Shell& s) {
    for (const auto& [uid, w] : admission_of(s).tables().workloads) {
      const bool backs_off =
          w.phase == admission::Phase::kPending && w.reason == "InsufficientCapacity" && w.not_before > now;
      const bool is_short = w.phase == admission::Phase::kQuotaReserved && w.answer == admission::Answer::kShort;
      if (backs_off || is_short) waiting.emplace_back(WorkloadSpec(w.spec), backs_off ? w.not_before : w.wait_deadline);
    }
  });
  five.placement->read([&](const service::Shell& s) {
    const auto& engine = placement::engine_of(s);
    for (const auto& [spec, until] : waiting) {
      if (!engine.synced() || !engine.dry_run(spec.pod_sets).plan) continue;
      const auto before = since.find(spec.uid);
      const auto [from, looks] = before == since.end() ? std::pair(now, 0) : before->second;
      if (now - from > kQuiet && looks >= kLooks) {
        broken(fmt::format("workload {} backs off until {} although its pods fit since {}", spec.uid, to_rfc3339(until),
                           to_rfc3339(from)));
      }
      next.emplace(spec.uid, std::pair(from, looks + 1));
    }
  });
  since = std::move(next);
}

std::uint64_t returning(const Five& five) {
  std::uint64_t gangs = 0;
  if (five.placement->up()) {
    five.placement->read([&](const service::Shell& s) {
      for (const auto& [uid, row] : placement::engine_of(s).tables().proposals)
        gangs += row.state == placement::ProposalState::kRecovering ? 1 : 0;
    });
  }
  return gangs;
}

std::string unfinished(const Five& five, World& world, const Users& users) {
  std::string out;
  if (!users.done()) out += "a call is not answered; ";
  for (const auto& [uid, job] : world.jobs) {
    if (!job.complete && !job.deleting) {
      out += fmt::format("job {}/{} ({}: {} x {} GPUs, {} done, attempt {}, priority \"{}\") has not ended; ", job.ns,
                         job.name, uid, job.pods, job.gpus, job.succeeded.size(),
                         kube::annotation(job.body["spec"]["template"], words::kAttempt),
                         kube::label(job.body, words::kPriorityClassLabel));
    }
  }
  for (const auto& [uid, pod] : world.pods) {
    if (!pod.terminal() && !pod.forged)
      out += fmt::format("pod {} is {}; ", pod.name, pod.node.empty() ? "waiting" : "on " + pod.node);
  }
  for (const auto& [id, i] : world.instances) {
    if (!i.claim.empty() && !i.stopped) out += fmt::format("instance {} of {} runs; ", id, i.claim);
  }
  for (Service* service : five.all()) {
    if (service->idle()) continue;
    out += service->name() + " has work";
    if (service->up()) {
      const auto c = service->host().counters();
      out += fmt::format(" (mailbox {}, intents {}, lag {}, outbox {}, paused {})", c.mailbox, c.open_intents,
                         c.bus_lag, c.outbox_backlog, c.paused_topics);
    }
    out += "; ";
  }
  if (!out.empty()) return out;
  five.admission->read([&](const service::Shell& s) {
    for (const auto& [uid, w] : admission_of(s).tables().workloads) {
      if (!w.ended()) out += fmt::format("workload {} is {}; ", uid, admission::name_of(w.phase));
    }
  });
  five.placement->read([&](const service::Shell& s) {
    for (const auto& [id, row] : placement::engine_of(s).tables().assignments) {
      if (row.holds()) out += fmt::format("assignment {} holds devices; ", id.to_string());
    }
  });
  return out;
}

bool settled(const Five& five) {
  bool out = false;
  five.admission->read([&](const service::Shell& s) { out = admission_of(s).tables().holds.rows().empty(); });
  return out;
}

void check_end(const Five& five, World& world, const Users& users,
               const std::vector<std::pair<Instant, std::int64_t>>& quotes, Instant now, const Broken& broken) {
  for (const auto& wish : users.submissions()) {
    int found = 0;
    for (const auto& [uid, job] : world.jobs) {
      if (job.ns != wish.ns || job.name != wish.name) continue;
      ++found;
      const bool meant = wish.cancel_at != Instant{} && job.deleting;
      if (!job.complete && !meant) broken(fmt::format("job {} was lost", job.name));
    }
    if (found != 1) broken(fmt::format("{} jobs exist for the submission {}", found, wish.name));
  }

  // All quota is released.
  five.admission->read([&](const service::Shell& s) {
    const auto& engine = admission_of(s);
    for (const auto& [name, queue] : engine.tables().cluster_queues) {
      for (const auto& [resource, amount] : admission::queue_view(engine.state(), queue).used) {
        if (amount != 0) broken(fmt::format("queue {} still uses {} of {}", name, amount, resource));
      }
    }
  });
  five.placement->read([&](const service::Shell& s) {
    const auto& engine = placement::engine_of(s);
    if (!engine.demand().empty()) broken("the demand list is not empty");
    for (const auto& [name, node] : engine.tables().nodes) {
      if (!world.nodes.contains(name.value())) broken(fmt::format("placement believes in node {}", name));
      for (const auto& use : engine.devices_of(name)) {
        if (use.used_milli != 0) broken(fmt::format("placement believes that a GPU of {} is used", name));
      }
    }
  });

  // Claims and instances correspond to each other.
  std::map<std::string, std::string> running;
  for (const auto& [id, i] : world.instances) {
    if (!i.stopped) running.emplace(id, i.claim.empty() ? id : i.claim);
  }
  five.autoscaler->read([&](const service::Shell& s) {
    for (const auto& [name, claim] : autoscaler::engine_of(s).tables().claims) {
      using autoscaler::ClaimState;
      if (claim.state == ClaimState::kGone || claim.state == ClaimState::kFailed) continue;
      const auto it = running.find(claim.instance.value());
      if (it == running.end() || it->second != name.value()) {
        broken(fmt::format("claim {} ({}) has instance \"{}\" that does not run for it", name,
                           autoscaler::name_of(claim.state), claim.instance));
      } else {
        running.erase(it);
      }
    }
  });
  for (const auto& [id, claim] : running) broken(fmt::format("instance {} has no claim", id));

  Money expected;
  for (const auto& [id, i] : world.instances) expected += bill(i, quotes, now);
  five.cost->read([&](const service::Shell& s) {
    const auto& engine = cost::engine_of(s);
    const auto statement = engine.statement("", now);
    if (!statement) return broken("cost: " + statement.error().to_string());
    if (statement->total.nano != expected) {
      std::string detail;
      for (const auto& [id, i] : world.instances) {
        const auto* row = engine.state().instances.find(InstanceId(id));
        if (row == nullptr) {
          detail += " " + id + " is not known;";
        } else if (row->launched != i.launched || row->stopped != i.stopped.value_or(Instant{})) {
          detail += fmt::format(" {} is known from {} to {};", id, micros(row->launched), micros(row->stopped));
        }
      }
      broken(fmt::format("the statement has {} and the bill {}:{}", statement->total.nano.to_usd(), expected.to_usd(),
                         detail));
    }
    if (engine.meta().late != 0) broken("cost dropped facts as too late");
  });
  check_inboxes(five, broken);
  check_budgets(five, broken);
  check_ledger(*five.cost, broken);
}

void count_proposals(const service::FeedEvent& e, Report& report) {
  if (e.topic == "qm.placement" && e.key.starts_with("propose/")) ++(e.tombstone ? report.withdrawn : report.proposed);
  if (e.topic != "qm.workload") return;
  const auto has = [&e](const char* why) { return e.payload.find(why) != std::string::npos ? 1U : 0U; };
  report.preempted += has("PreemptedForPlacement");
  report.moved += has("Consolidated");
  report.moved_for += has("MigratedForPlacement");
}

}  // namespace qm::sim
