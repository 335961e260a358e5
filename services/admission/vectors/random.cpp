// Random traces: steps that finish and add workloads, with a number of cycles after each; admissions and victims of
// each cycle must equal the record.
#include "qm/admission/kueue/cycle.hpp"
#include "qm/admission/kueue/objects.hpp"
#include "vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

std::int64_t amount_of(const std::string& resource, std::int64_t whole) {
  return resource == "cpu" ? whole * 1000 : whole;
}

Quota quota_of(const std::string& resource, const Json& json) {
  Quota out;
  out.nominal = amount_of(resource, json["nominal"].integer());
  if (json.contains("borrowingLimit")) out.borrowing_limit = amount_of(resource, json["borrowingLimit"].integer());
  if (json.contains("lendingLimit")) out.lending_limit = amount_of(resource, json["lendingLimit"].integer());
  return out;
}

/// A Kubernetes quantity as the nearest double.
double weight_of(const Json& json) {
  if (json.is_number()) return json.number();
  return json.string().empty() ? 1 : std::stod(json.string());
}

class Trace {
 public:
  explicit Trace(const Json& record, bool loop_free = false) : record_(record), loop_free_(loop_free) { build(); }

  std::string run() {
    const auto& steps = record_["steps"].items();
    const auto& counts = record_["trace"]["cyclesPerStep"].items();
    std::map<std::pair<std::int64_t, std::int64_t>, const Json*> recorded;
    for (const auto& cycle : record_["trace"]["cycles"].items()) {
      recorded[{cycle["step"].integer(), cycle["cycle"].integer()}] = &cycle;
    }

    std::int64_t all = 0;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      begin(steps[s]);
      for (std::int64_t k = 1; k <= counts.at(s).integer(); ++k) {
        const auto seen = cycle(++all);
        const auto found = recorded.find({static_cast<std::int64_t>(s), k});
        const Json none = Json::object({{"admitted", Json::object()}, {"preempted", Json::object()}});
        const Json& wanted = found == recorded.end() ? none : *found->second;
        for (const char* what : {"admitted", "preempted"}) {
          const Json empty = Json::object();
          const Json& want = wanted[what].is_null() ? empty : wanted[what];
          if (!(seen[what] == want)) {
            return fmt::format("step {} cycle {}: {} {} where {} was recorded", s, k, what, seen[what].dump(),
                               want.dump());
          }
        }
      }
    }
    return at_the_end();
  }

  Rest rest() {
    constexpr int kIdle = 6, kMost = 200;
    Rest out;
    std::int64_t all = 0;
    for (const auto& step : record_["steps"].items()) {
      begin(step);
      std::map<std::string, int> times;
      std::map<std::string, std::map<std::string, int>> waiting_times;  ///< by preemptor, while it is pending
      int idle = 0;
      for (int k = 0; k < kMost && idle < kIdle; ++k) {
        const auto seen = cycle(++all);
        const bool happened = !seen["admitted"].members().empty() || !seen["preempted"].members().empty();
        idle = happened ? 0 : idle + 1;
        for (const auto& [name, how] : seen["admitted"].members()) waiting_times.erase(name);
        for (const auto& [name, how] : seen["preempted"].members()) {
          ++out.preempted;
          out.repeats = std::max(out.repeats, ++times[name + how.dump()]);
          out.waiting_repeats = std::max(out.waiting_repeats, ++waiting_times[how["by"].string()][name]);
        }
      }
      out.terminates = out.terminates && idle == kIdle;
    }
    return out;
  }

 private:
  void build() {
    Forest forest;
    for (const auto& json : record_["cohorts"].items()) {
      Forest::Cohort cohort;
      cohort.parent = json["parent"].string();
      cohort.weight = weight_of(json["fairWeight"]);
      take(json["flavors"], cohort.quotas);
      forest.cohorts[json["name"].string()] = std::move(cohort);
    }
    for (const auto& json : record_["clusterQueues"].items()) forest.queues[json["name"].string()] = queue(json);
    auto planted = forest.plant();
    for (auto& field : planted.fields) {
      field.fair_sharing = record_["fairSharing"].boolean();
      if (loop_free_) field.preemptions = &preemptions_.emplace_back();
      cycles_.emplace_back(std::move(field));
    }
    places_ = std::move(planted.queues);
    for (const auto& json : record_["workloads"].items()) works_[json["name"].string()] = &json;
  }

  void take(const Json& flavors, std::vector<Forest::Offer>& into) {
    for (const auto& flavor : flavors.items()) {
      for (const auto& [resource, quota] : flavor["resources"].members()) {
        into.push_back({flavors_.of(flavor["name"].string()), resources_.of(resource), quota_of(resource, quota)});
      }
    }
  }

  Forest::Queue queue(const Json& json) {
    Forest::Queue out;
    out.cohort = json["cohort"].string();
    out.weight = weight_of(json["fairWeight"]);
    auto& rules = out.rules;
    rules.strict = json["queueingStrategy"].string() == "StrictFIFO";
    rules.within_cluster_queue = policy_of(json["withinClusterQueue"].string());
    rules.reclaim_within_cohort = policy_of(json["reclaimWithinCohort"].string());
    rules.preempts_while_borrowing = json["borrowWithinCohort"]["policy"].string() == "LowerPriority";
    if (const auto& most = json["borrowWithinCohort"]["maxPriorityThreshold"]; most.is_int()) {
      rules.borrow_max_threshold = static_cast<std::int32_t>(most.integer());
    }
    rules.stops_at_borrowing = json["whenCanBorrow"].string() != "TryNextFlavor";
    rules.stops_at_preemption = json["whenCanPreempt"].string() == "MayStopSearch";
    rules.prefers_borrowing = json["preference"].string() != "PreemptionOverBorrowing";
    QueueRules::Group group;
    for (const auto& resource : json["coveredResources"].items())
      group.resources.push_back(resources_.of(resource.string()));
    for (const auto& flavor : json["flavors"].items())
      group.options.push_back({flavors_.of(flavor["name"].string()), {}});
    rules.groups.push_back(std::move(group));
    take(json["flavors"], out.quotas);
    return out;
  }

  Work work(const Json& json) {
    Work out;
    out.id = ids_.of(json["name"].string());
    out.queue = places_.at(json["clusterQueue"].string()).second;
    out.priority = static_cast<std::int32_t>(json["priority"].integer());
    out.created = json["created"].integer();
    out.uid = WorkloadUid(fmt::format("{:08}", out.created));
    std::string shape = std::to_string(out.priority);
    for (const auto& set : json["podSets"].items()) {
      PodSet made;
      made.name = set["name"].string();
      made.count = static_cast<std::int32_t>(set["count"].integer());
      if (set.contains("minCount")) made.min_count = static_cast<std::int32_t>(set["minCount"].integer());
      for (const auto& [resource, amount] : set["requests"].members()) {
        made.each.emplace_back(resources_.of(resource), amount_of(resource, amount.integer()));
      }
      std::ranges::reverse(made.each);
      shape += set.dump();
      out.pod_sets.push_back(std::move(made));
    }
    out.shape = shapes_.of(shape);
    return out;
  }

  Cycle& cycle_of(const std::string& name) {
    return cycles_.at(places_.at((*works_.at(name))["clusterQueue"].string()).first);
  }

  void begin(const Json& step) {
    std::set<Cycle*> touched;
    for (const auto& name : step["finish"].items()) {
      auto& cycle = cycle_of(name.string());
      const int id = ids_.of(name.string());
      if (cycle.waits(id)) continue;  // only where the trace is not replayed as it was recorded
      cycle.finish(id);
      touched.insert(&cycle);
    }
    for (auto* cycle : touched) cycle->requeue();
    for (const auto& name : step["add"].items()) cycle_of(name.string()).enqueue(work(*works_.at(name.string())));
  }

  Json cycle(std::int64_t k) {
    Json admitted = Json::object(), preempted = Json::object();
    for (auto& tree : cycles_) {
      auto outcome = tree.run(k, k);
      for (const auto& one : outcome.admitted) admitted.set(ids_[one.id], shown(tree.work(one.id), one.assignment));
      std::ranges::sort(outcome.preempted, {}, [&](const auto& p) { return tree.work(p.id).uid; });
      for (const auto& one : outcome.preempted) {
        preempted.set(ids_[one.id], Json::object({{"reason", name_of(one.reason)}, {"by", ids_[one.by]}}));
        tree.evicted(one.id);
        waits_[ids_[one.id]] = "PendingEvaluation";
      }
      if (!outcome.preempted.empty()) tree.requeue();
      for (const auto& [id, wait] : outcome.waiting) waits_[ids_[id]] = name_of(wait);
    }
    return Json::object({{"admitted", std::move(admitted)}, {"preempted", std::move(preempted)}});
  }

  Json shown(const Work& work, const Assignment& assignment) {
    Json out = Json::object();
    for (std::size_t i = 0; i < assignment.sets.size(); ++i) {
      Json flavors = Json::object();
      for (const auto& choice : assignment.sets[i].flavors)
        flavors.set(resources_[choice.resource], flavors_[choice.flavor]);
      out.set(work.pod_sets[i].name,
              Json::object({{"count", assignment.sets[i].count}, {"flavors", std::move(flavors)}}));
    }
    return out;
  }

  std::string at_the_end() {
    std::set<std::string> active;
    for (const auto& name : record_["trace"]["finalActive"].items()) active.insert(name.string());
    for (const auto& [name, reason] : record_["trace"]["finalPending"].members()) {
      const auto& tree = cycle_of(name);
      const int id = ids_.of(name);
      if (!tree.waits(id)) return fmt::format("{} does not wait at the end", name);
      if (waits_[name] != reason.string()) {
        return fmt::format("{} waits at the end for {} where {} was recorded", name, waits_[name], reason.string());
      }
      if (tree.active(id) != active.contains(name)) {
        return fmt::format("{} is {} at the end", name, tree.active(id) ? "active" : "inadmissible");
      }
    }
    return {};
  }

  const Json& record_;
  bool loop_free_;
  std::deque<PreemptionGraph> preemptions_;  ///< by tree
  Names flavors_, resources_, ids_, shapes_;
  std::vector<Cycle> cycles_;
  std::map<std::string, std::pair<std::size_t, Node>> places_;
  std::map<std::string, const Json*> works_;
  std::map<std::string, std::string> waits_;  ///< as last reported; absent where it was not considered
};

}  // namespace

std::string replay_random(const Json& record) { return Trace(record).run(); }

Rest rest_at(const Json& record, bool loop_free) { return Trace(record, loop_free).rest(); }

}  // namespace qm::admission::vectors
