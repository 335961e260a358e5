// The laws, one function each, checked on what really ran. Percentiles and the bill follow below.
#include "qm/checker/checker.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace qm::checker {
namespace {

constexpr std::int64_t kRollBackUs = 60'000'000;
constexpr std::size_t kMaxEvidence = 20;  // of each law; the counts are always complete

class Judge {
 public:
  Judge(const History& h, const Prices& p, const Inputs& in, Report& out) : h_(h), p_(p), in_(in), out_(out) {}

  void run() {
    count_jobs();
    nothing_lost();
    nothing_twice();
    one_pod_per_device();
    gangs_whole();
    instances_have_intents();
    bill();
    usage();
    waits();
    turnaround();
    losses();
    out_.instances = static_cast<std::int64_t>(h_.instances.size());
  }

 private:
  [[nodiscard]] std::int64_t stop_of(const PodRun& run) const { return run.stop_us < 0 ? h_.end_us : run.stop_us; }

  void blame(const std::string& law, std::string text) {
    if (++evidence_[law] <= kMaxEvidence) out_.violations.push_back({law, std::move(text)});
  }

  void count_jobs() {
    std::set<std::string> running;
    for (const auto& run : h_.pods) {
      if (run.stop_us < 0) running.insert(run.owner);
    }
    out_.submitted = static_cast<std::int64_t>(in_.acked.size());
    for (const auto& [uid, job] : h_.jobs) {
      if (job.created_us < 0) continue;
      ++out_.created;
      if (job.finishes > 0) {
        ++(job.ok ? out_.finished : out_.failed);
      } else if (job.deleted_us >= 0) {
        ++out_.cancelled;
      } else if (running.contains(uid)) {
        ++out_.running;
      } else {
        ++out_.waiting;
      }
    }
  }

  // An acknowledged submission has finished, was canceled, or still exists in the suite.
  void nothing_lost() {
    std::set<std::string> ended;
    for (const auto& [uid, job] : h_.jobs) {
      if (job.finishes > 0 || job.deleted_us >= 0) ended.insert(job.ns + "/" + job.name);
    }
    for (const auto& name : in_.acked) {
      if (ended.contains(name) || in_.known.contains(name)) continue;
      ++out_.lost;
      blame("lost", fmt::format("{} was acknowledged, has not finished, and no service has it", name));
    }
  }

  // Attempts of one job never overlap, a rank runs once at a time, and a job ends once.
  void nothing_twice() {
    std::map<std::string, std::vector<const PodRun*>> by_owner;
    for (const auto& run : h_.pods) by_owner[run.owner].push_back(&run);
    for (auto& [owner, runs] : by_owner) {
      std::map<std::int32_t, int> succeeded;
      // Per attempt: the span from its first start to its last stop.
      std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> span;
      for (const auto* run : runs) {
        auto [at, first] = span.try_emplace(run->attempt, run->start_us, stop_of(*run));
        if (!first) {
          at->second.first = std::min(at->second.first, run->start_us);
          at->second.second = std::max(at->second.second, stop_of(*run));
        }
        if (run->reason == "Succeeded") ++succeeded[run->index];
      }
      for (auto a = span.begin(); a != span.end(); ++a) {
        for (auto b = std::next(a); b != span.end(); ++b) {
          if (a->second.first < b->second.second && b->second.first < a->second.second) {
            ++out_.doubled;
            blame("doubled", fmt::format("job {}: attempts {} and {} ran at the same time", owner, a->first, b->first));
          }
        }
      }
      std::sort(runs.begin(), runs.end(), [](const PodRun* a, const PodRun* b) {
        return std::tie(a->index, a->start_us) < std::tie(b->index, b->start_us);
      });
      for (std::size_t i = 1; i < runs.size(); ++i) {
        if (runs[i]->index == runs[i - 1]->index && runs[i]->start_us < stop_of(*runs[i - 1]) &&
            runs[i]->attempt == runs[i - 1]->attempt) {
          ++out_.doubled;
          blame("doubled", fmt::format("job {}: two pods of rank {} ran at the same time", owner, runs[i]->index));
        }
      }
      for (const auto& [index, n] : succeeded) {
        if (n > 1) {
          ++out_.doubled;
          blame("doubled", fmt::format("job {}: rank {} finished {} times", owner, index, n));
        }
      }
    }
    for (const auto& [uid, job] : h_.jobs) {
      if (job.finishes > 1) {
        ++out_.doubled;
        blame("doubled", fmt::format("job {} finished {} times", uid, job.finishes));
      }
    }
  }

  void one_pod_per_device() {
    // The allocated devices must be as many as requested, otherwise the check below is incomplete.
    for (const auto& run : h_.pods) {
      const std::set<std::int32_t> distinct(run.devices.begin(), run.devices.end());
      if (run.gpus < 0 || static_cast<std::int32_t>(distinct.size()) == run.gpus) continue;
      ++out_.double_booked;
      blame("double_booked",
            fmt::format("{} requested {} GPUs and has {} of {}", run.pod, run.gpus, distinct.size(), run.node));
    }
    std::map<std::pair<std::string, std::int32_t>, std::vector<const PodRun*>> by_device;
    for (const auto& run : h_.pods) {
      for (const auto d : run.devices) by_device[{run.node, d}].push_back(&run);
    }
    for (auto& [device, runs] : by_device) {
      std::sort(runs.begin(), runs.end(), [](const PodRun* a, const PodRun* b) { return a->start_us < b->start_us; });
      std::int64_t busy_until = -1;
      const PodRun* holder = nullptr;
      for (const auto* run : runs) {
        if (run->start_us < busy_until) {
          ++out_.double_booked;
          blame("double_booked", fmt::format("GPU {} of {} served {} and {} at {}", device.second, device.first,
                                             holder->pod, run->pod, run->start_us));
        }
        if (stop_of(*run) > busy_until) {
          busy_until = stop_of(*run);
          holder = run;
        }
      }
    }
  }

  // In each attempt either every rank starts within the grace, or none is left running.
  void gangs_whole() {
    struct Gang {
      std::int32_t size = 1;
      std::set<std::int32_t> started;
      std::int64_t first_start = INT64_MAX, last_stop = 0;
      std::vector<std::int64_t> starts;
    };
    std::map<std::pair<std::string, std::int32_t>, Gang> gangs;
    for (const auto& run : h_.pods) {
      auto& g = gangs[{run.owner, run.attempt}];
      g.size = run.gang;
      if (g.started.insert(run.index).second) g.starts.push_back(run.start_us);
      g.first_start = std::min(g.first_start, run.start_us);
      g.last_stop = std::max(g.last_stop, stop_of(run));
    }
    for (const auto& [id, g] : gangs) {
      const bool whole = static_cast<std::int32_t>(g.started.size()) >= g.size;
      const std::int64_t complete_at = whole ? *std::max_element(g.starts.begin(), g.starts.end()) : g.last_stop;
      if (complete_at - g.first_start > in_.gang_grace_us) {
        ++out_.partial_gangs;
        blame("partial_gang", fmt::format("job {} attempt {}: {} of {} ranks ran for {} s", id.first, id.second,
                                          g.started.size(), g.size, (complete_at - g.first_start) / 1'000'000));
      }
    }
  }

  // Every launched instance belongs to one NodeClaim that existed before it, and no claim has two.
  void instances_have_intents() {
    std::map<std::string, std::vector<const InstanceRecord*>> by_claim;
    for (const auto& i : h_.instances) {
      if (i.initial) continue;
      // A launch of which a part came is rolled back before its members have claims.
      const bool rolled_back = i.stop_us >= 0 && i.stop_us - i.launch_us <= kRollBackUs;
      if (i.claim.empty() && !i.token.empty() && rolled_back) continue;
      if (i.claim.empty() || i.token.empty()) {
        ++out_.orphan_instances;
        blame("orphan_instance", fmt::format("instance {} was launched without a claim or client token", i.id));
        continue;
      }
      auto claim = h_.claims.find(i.claim);
      if (claim == h_.claims.end() || claim->second > i.launch_us + 1'000'000) {
        ++out_.orphan_instances;
        blame("orphan_instance", fmt::format("instance {} names claim {}, which does not exist", i.id, i.claim));
      }
      by_claim[i.claim].push_back(&i);
    }
    for (const auto& [claim, list] : by_claim) {
      for (std::size_t k = 1; k < list.size(); ++k) {
        ++out_.orphan_instances;
        blame("orphan_instance", fmt::format("claim {} has a second instance {}", claim, list[k]->id));
      }
    }
  }

  // The provider bills each instance floor(rate * lifetime / 1 h), in nano-dollars, per its own price list.
  void bill() {
    for (const auto& i : h_.instances) {
      auto row = p_.by_type.find(i.type);
      const std::int64_t rate = row == p_.by_type.end() ? 0
                                : i.market == "spot"    ? row->second.spot_nano
                                                        : row->second.on_demand_nano;
      if (rate != i.nano_usd_hour) {
        blame("price", fmt::format("instance {} ({}, {}) ran at {} nano-dollars an hour, the list price is {}", i.id,
                                   i.type, i.market, i.nano_usd_hour, rate));
      }
      const std::int64_t stop = i.stop_us < 0 ? h_.end_us : std::min(i.stop_us, h_.end_us);
      __extension__ typedef __int128 Wide;
      const Wide cost = static_cast<Wide>(rate) * std::max<std::int64_t>(0, stop - i.launch_us) / 3'600'000'000LL;
      out_.provider_nano_usd += static_cast<std::int64_t>(cost);
    }
  }

  [[nodiscard]] std::int32_t gpus_of(const InstanceRecord& i) const {
    auto row = p_.by_type.find(i.type);
    return row == p_.by_type.end() ? 0 : row->second.gpus;
  }

  // Busy GPU-time over GPU-time of running instances; the peak is the highest five-minute mean.
  void usage() {
    constexpr std::int64_t kBucket = 300'000'000;
    const std::int64_t from = in_.window_start_us;
    if (h_.end_us <= from) return;
    const auto buckets = static_cast<std::size_t>((h_.end_us - from + kBucket - 1) / kBucket);
    std::vector<double> busy(buckets, 0), up(buckets, 0);
    const auto spread = [&](std::vector<double>& to, std::int64_t a, std::int64_t b, double weight) {
      a = std::max(a, from);
      b = std::min(b, h_.end_us);
      for (std::int64_t t = a; t < b;) {
        const auto k = static_cast<std::size_t>((t - from) / kBucket);
        const std::int64_t next = std::min(b, from + static_cast<std::int64_t>(k + 1) * kBucket);
        to[k] += weight * static_cast<double>(next - t);
        t = next;
      }
    };
    for (const auto& run : h_.pods) spread(busy, run.start_us, stop_of(run), static_cast<double>(run.devices.size()));
    for (const auto& i : h_.instances) spread(up, i.launch_us, i.stop_us < 0 ? h_.end_us : i.stop_us, gpus_of(i));
    const double all_up = std::accumulate(up.begin(), up.end(), 0.0);
    if (all_up > 0) out_.utilization = std::accumulate(busy.begin(), busy.end(), 0.0) / all_up;
    for (std::size_t k = 0; k < buckets; ++k) {
      if (up[k] > 0) out_.peak_utilization = std::max(out_.peak_utilization, busy[k] / up[k]);
    }
  }

  static Percentiles percentiles(std::vector<double> values) {
    Percentiles p;
    p.n = static_cast<std::int64_t>(values.size());
    if (values.empty()) return p;
    std::sort(values.begin(), values.end());
    const auto rank = [&](double q) {  // nearest rank
      return values[static_cast<std::size_t>(std::max(0.0, std::ceil(q * static_cast<double>(values.size())) - 1))];
    };
    p.p50 = rank(0.5);
    p.p99 = rank(0.99);
    p.max = values.back();
    return p;
  }

  void waits() {
    // The first instant at which every rank of the first complete attempt was running.
    std::map<std::string, std::map<std::int32_t, std::map<std::int32_t, std::int64_t>>> starts;
    std::map<std::string, std::int32_t> size;
    for (const auto& run : h_.pods) {
      auto& at = starts[run.owner][run.attempt];
      auto [it, first] = at.try_emplace(run.index, run.start_us);
      if (!first) it->second = std::min(it->second, run.start_us);
      size[run.owner] = run.gang;
    }
    std::map<std::string, std::vector<double>> by_team;
    std::vector<double> all;
    for (const auto& [owner, attempts] : starts) {
      auto job = h_.jobs.find(owner);
      if (job == h_.jobs.end() || job->second.created_us < in_.window_start_us) continue;
      for (const auto& [attempt, ranks] : attempts) {
        if (static_cast<std::int32_t>(ranks.size()) < size[owner]) continue;
        std::int64_t last = 0;
        for (const auto& [index, t] : ranks) last = std::max(last, t);
        const double wait = static_cast<double>(last - job->second.created_us) / 1e6;
        by_team[job->second.team].push_back(wait);
        all.push_back(wait);
        break;
      }
    }
    out_.wait = percentiles(std::move(all));
    for (auto& [team, values] : by_team) out_.wait_by_team[team] = percentiles(std::move(values));
  }

  void turnaround() {
    std::map<std::pair<std::string, std::int32_t>, std::vector<std::pair<std::int64_t, std::int64_t>>> by_device;
    for (const auto& run : h_.pods) {
      for (const auto d : run.devices) by_device[{run.node, d}].emplace_back(run.start_us, stop_of(run));
    }
    std::vector<double> gaps;
    for (auto& [device, spans] : by_device) {
      std::sort(spans.begin(), spans.end());
      for (std::size_t i = 1; i < spans.size(); ++i) {
        if (spans[i].first >= in_.window_start_us) {
          gaps.push_back(static_cast<double>(std::max<std::int64_t>(0, spans[i].first - spans[i - 1].second)) / 1e6);
        }
      }
    }
    out_.turnaround = percentiles(std::move(gaps));
  }

  // Steps that ran and must run again, by the reason that ended the attempt; one step is one second on each of its
  // devices.
  void losses() {
    std::map<std::pair<std::string, std::int32_t>, std::int64_t> resumed;  // owner, attempt -> start step
    for (const auto& run : h_.pods) {
      auto [at, first] = resumed.try_emplace({run.owner, run.attempt}, run.start_step);
      if (!first) at->second = std::min(at->second, run.start_step);
    }
    std::map<std::pair<std::string, std::int32_t>, std::string> cause;  // of an interrupted attempt
    for (const auto& run : h_.pods) {
      if (run.stop_us < 0 || run.reason == "Succeeded") continue;
      std::string& c = cause[{run.owner, run.attempt}];
      for (const auto& s : h_.signals) {
        if (s.node != run.node || s.at_us > run.stop_us || s.at_us + 3'600'000'000LL < run.stop_us) continue;
        if (s.kind == "spot_notice" || s.kind == "spot_reclaim") c = "spot";
        if (s.kind == "xid" && c.empty()) c = "xid";
        if (s.kind == "node_lost" && c.empty()) c = "node_lost";
      }
    }
    std::set<std::pair<std::string, std::int32_t>> counted;
    for (const auto& run : h_.pods) {
      if (run.stop_us < 0 || run.reason == "Succeeded") continue;
      const auto next = resumed.upper_bound({run.owner, run.attempt});
      const bool goes_on = next != resumed.end() && next->first.first == run.owner;
      if (!goes_on) continue;
      const std::int64_t again = std::max<std::int64_t>(0, run.stop_step - next->second);
      std::string why = cause[{run.owner, run.attempt}];
      if (why.empty()) why = "preempted";
      const double step = static_cast<double>(run.devices.size()) / 3600.0;  // GPU-hours
      out_.lost_gpu_hours[why] += static_cast<double>(again) * step;
      Interruptions& of = out_.interrupted[why];
      of.attempts += counted.insert({run.owner, run.attempt}).second ? 1 : 0;
      of.lost_gpu_hours += static_cast<double>(again) * step;
      of.from_zero_gpu_hours += static_cast<double>(run.stop_step) * step;
    }
  }

  const History& h_;
  const Prices& p_;
  const Inputs& in_;
  Report& out_;
  std::map<std::string, std::size_t> evidence_;
};

Json to_json(const Percentiles& p) {
  return Json::object({{"n", p.n}, {"p50_s", p.p50}, {"p99_s", p.p99}, {"max_s", p.max}});
}

}  // namespace

Report check(const History& history, const Prices& prices, const Inputs& inputs) {
  Report report;
  Judge(history, prices, inputs, report).run();
  return report;
}

Json Report::to_json() const {
  Json teams = Json::object(), lost_hours = Json::object(), interruptions = Json::object(), broken = Json::array();
  for (const auto& [cause, of] : interrupted)
    interruptions.set(cause, Json::object({{"attempts", of.attempts},
                                           {"lost_gpu_hours", of.lost_gpu_hours},
                                           {"from_zero_gpu_hours", of.from_zero_gpu_hours}}));
  for (const auto& [team, p] : wait_by_team) teams.set(team, checker::to_json(p));
  for (const auto& [cause, hours] : lost_gpu_hours) lost_hours.set(cause, hours);
  for (const auto& v : violations) broken.push_back(Json::object({{"law", v.law}, {"text", v.text}}));
  return Json::object({{"submitted", submitted},
                       {"created", created},
                       {"finished", finished},
                       {"failed", failed},
                       {"running", running},
                       {"waiting", waiting},
                       {"cancelled", cancelled},
                       {"lost", lost},
                       {"doubled", doubled},
                       {"double_booked", double_booked},
                       {"partial_gangs", partial_gangs},
                       {"orphan_instances", orphan_instances},
                       {"provider_nano_usd", provider_nano_usd},
                       {"utilization", utilization},
                       {"peak_utilization", peak_utilization},
                       {"wait", checker::to_json(wait)},
                       {"wait_by_team", std::move(teams)},
                       {"turnaround", checker::to_json(turnaround)},
                       {"lost_gpu_hours", std::move(lost_hours)},
                       {"interrupted", std::move(interruptions)},
                       {"instances", instances},
                       {"violations", std::move(broken)}});
}

}  // namespace qm::checker
