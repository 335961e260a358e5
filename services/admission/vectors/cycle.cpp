// Scheduling cycles on given objects: admitted workloads and their assignments, victims, and the state
// of pending workloads.
#include "qm/admission/kueue/cycle.hpp"

#include "qm/admission/kueue/topology_objects.hpp"
#include "vectors.hpp"
#include "world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::admission::vectors {
namespace {

using namespace kueue;

bool has(const Json& workload, const char* type) {
  return std::ranges::any_of(workload["status"]["conditions"].items(), [&](const Json& c) {
    return c["type"].string() == type && c["status"].string() == "True";
  });
}

/// Whether a namespace selector of a queue selects a namespace: {} selects all, null none.
bool takes(const Json& selector, const Json& labels) {
  if (selector.is_null()) return false;
  for (const auto& [key, value] : selector["matchLabels"].members()) {
    if (labels[key].string() != value.string()) return false;
  }
  return std::ranges::all_of(selector["matchExpressions"].items(), [&](const Json& e) {
    const auto& op = e["operator"].string();
    const auto& key = e["key"].string();
    if (op == "Exists") return labels.contains(key);
    if (op == "DoesNotExist") return !labels.contains(key);
    const bool among = labels.contains(key) && std::ranges::any_of(e["values"].items(), [&](const Json& v) {
                         return v.string() == labels[key].string();
                       });
    return op == "In" ? among : !among;
  });
}

class Case {
 public:
  explicit Case(const Json& record)
      : record_(record),
        input_(record["input"]),
        world_(record),
        unwritten_(input_["admissionError"].is_null() ? input_["patchStatusErr"] : input_["admissionError"]),
        says_why_(gate(record, "UnadmittedWorkloadsObservability")) {
    for (auto& field : world_.planted.fields) field.fair_sharing = input_["enableFairSharing"].boolean();
    for (const auto& queue : input_["clusterQueues"].items()) queues_[queue["metadata"]["name"].string()] = &queue;
    for (const auto& ns : input_["namespaces"].items()) namespaces_[ns["name"].string()] = &ns["labels"];
    for (const auto& local : input_["localQueues"].items()) {
      const auto& stop = local["spec"]["stopPolicy"].string_or("None");
      if (stop == "None") locals_[World::key_of(local)] = local["spec"]["clusterQueue"].string();
    }
    const auto usage = usage_shares();
    for (auto& field : world_.planted.fields) cycles_.emplace_back(std::move(field), usage);
    // Workloads with quota first: a slice refers to the one that it replaces.
    for (const bool held : {true, false}) {
      for (const auto& workload : input_["workloads"].items()) {
        if (has(workload, "QuotaReserved") == held) add(workload);
      }
    }
  }

  std::string run() {
    const auto now = 2'000'000'000;
    for (std::int64_t k = 1; k <= input_["cycles"].integer(1); ++k) {
      if (k == 2) remove(input_["deleteWorkloads"]);
      for (auto& cycle : cycles_) {
        const auto outcome = cycle.run(k, now);
        for (const auto& one : outcome.placed_again) take(cycle, one);
        if (unwritten_.is_object()) {
          undo(cycle, outcome);
          continue;
        }
        for (const auto& one : outcome.admitted)
          admitted_.set(names_.at(one.id), shown(cycle.work(one.id), one.assignment));
        for (const auto& one : outcome.preempted) preempted_[names_.at(one.id)] = name_of(one.reason);
        for (const auto& [id, wait] : outcome.waiting) pending_[names_.at(id)] = says_why_ ? name_of(wait) : "Pending";
        for (const auto& [old, by] : outcome.replaced) {
          replaced_slices_.insert(names_.at(old));
          if (k < input_["cycles"].integer(1)) cycle.finish(old);
        }
      }
      if (input_["noChurn"].is_bool()) {
        if (!input_["noChurn"].boolean()) churn(k);
        for (auto& cycle : cycles_) cycle.requeue();
      }
    }
    return compare();
  }

 private:
  /// Undoes an outcome of which no status can be written: its admissions and preemptions have failed. An admitted
  /// workload that is not found is removed.
  void undo(Cycle& cycle, const Outcome& outcome) {
    const bool gone = unwritten_["$error"].string().ends_with("not found");
    for (const auto& one : outcome.admitted) {
      cycle.admission_failed(one.id, gone);
      if (gone) removed_.insert(names_.at(one.id));
    }
    std::map<int, std::vector<int>> spared;
    for (const auto& one : outcome.preempted) spared[one.by].push_back(one.id);
    for (const auto& [by, victims] : spared) cycle.preemption_failed(by, victims);
  }

  /// Removed between two cycles; others are considered again.
  void remove(const Json& workloads) {
    for (const auto& one : workloads.items()) {
      const auto key = one["namespace"].string() + "/" + one["name"].string();
      auto& cycle = cycles_.at(world_.planted.queues.at(queue_of_.at(key)).first);
      cycle.finish(id_of(key));
      cycle.requeue();
      removed_.insert(key);
    }
  }

  /// Raises and lowers the quota of the second flavor.
  void churn(std::int64_t cycle) {
    const auto& queue = input_["clusterQueues"].at(0);
    const auto [field, node] = world_.planted.queues.at(queue["metadata"]["name"].string());
    const auto& flavor = queue["spec"]["resourceGroups"].at(0)["flavors"].at(1);
    const auto id = world_.objects.flavors.of(flavor["name"].string());
    for (const auto& resource : flavor["resources"].items()) {
      const auto& name = resource["name"].string();
      const auto cell = world_.planted.cells.at(field).at({id, world_.objects.resources.of(name)});
      cycles_.at(field).set_quota(node, cell, {.nominal = canonical(name, Json(cycle % 2 == 1 ? "5" : "4"))});
    }
  }

  /// A workload without replacement for its failed nodes is evicted, unless fail-fast is off or the write of its
  /// status fails.
  void take(const Cycle& cycle, const PlacedAgain& one) {
    const auto& key = names_.at(one.id);
    for (const auto& placed : one.placing.placed) {
      again_[key][cycle.work(one.id).pod_sets[placed.set].name] = text_of(placed.assignment);
    }
    const bool goes = replaced_.contains(key) && gate(record_, "TASFailedNodeReplacementFailFast");
    if (one.placing.failed && goes && unwritten_.is_null()) preempted_[key] = "NodeFailures";
  }

  /// Nodes that a workload with quota still needs: replacements for failed nodes, or nodes that are assigned only
  /// when its admission checks are ready.
  void look_for_nodes(Cycle& cycle, int id, const Json& workload) {
    const auto& status = workload["status"];
    auto replacement = replacement_of(workload, gate(record_, "SkipReassignmentForPodOwnedWorkloads"));
    if (replacement && !gate(record_, "TASFailedNodeReplacement")) return;
    const bool ready = std::ranges::all_of(status["admissionChecks"].items(),
                                           [](const Json& check) { return check["state"].string() == "Ready"; });
    if (!replacement && !ready) return;
    auto node_requests = world_.objects.node_requests(workload, replacement.has_value());
    if (node_requests.empty()) return;
    const auto key = World::key_of(workload);
    if (replacement) replaced_.insert(key);
    for (const auto& set : status["admission"]["podSetAssignments"].items()) {
      if (set["topologyAssignment"].is_null()) continue;
      again_[key][set["name"].string()] = text_of(topology_assignment(set["topologyAssignment"]));
    }
    cycle.place_again(id, std::move(node_requests), std::move(replacement));
  }

  static std::string text_of(const topology::Assignment& assignment) {
    std::string out = fmt::format("[{}]", fmt::join(assignment.levels, ","));
    for (const auto& d : assignment.domains) out += fmt::format(" {}:{}", fmt::join(d.values, ","), d.count);
    return out;
  }

  UsageShares usage_shares() {
    const auto& settings = input_["admissionFairSharing"];
    const auto seconds = [](const Json& text) { return text.is_string() ? std::stod(text.string()) : 0.0; };
    UsageShares::Settings made;
    made.half_life = seconds(settings["usageHalfLifeTime"]);
    made.sampling = seconds(settings["usageSamplingInterval"]);
    for (const auto& [resource, weight] : settings["resourceWeights"].members()) {
      made.weights[world_.objects.resources.of(resource)] = weight.number();
    }
    UsageShares out(made);
    for (const auto& local : input_["localQueues"].items()) {
      const auto& weight = local["spec"]["fairSharing"]["weight"];
      const int id = local_ids_.of(World::key_of(local));
      if (weight.is_string()) out.set_weight(id, std::stod(weight.string()));
      UsageShares::Totals consumed;
      for (const auto& [resource, amount] : input_["initialUsage"][local["metadata"]["name"].string()].members()) {
        consumed[world_.objects.resources.of(resource)] = static_cast<double>(canonical(resource, amount));
      }
      out.set_consumed(id, std::move(consumed));
    }
    return out;
  }

  void add(const Json& workload) {
    const auto key = World::key_of(workload);
    const bool reserved = has(workload, "QuotaReserved");
    const auto& ns = workload["metadata"]["namespace"].string();
    const auto local = locals_.find(ns + "/" + workload["spec"]["queueName"].string());
    const auto queue = reserved ? workload["status"]["admission"]["clusterQueue"].string()
                                : (local == locals_.end() ? std::string() : local->second);
    const auto place = world_.planted.queues.find(queue);
    if (place == world_.planted.queues.end() || has(workload, "Finished")) return;
    Work work = world_.read(workload, queue);
    work.local_queue = local_ids_.of(ns + "/" + workload["spec"]["queueName"].string());
    names_[work.id] = key;
    queue_of_[key] = queue;
    auto& cycle = cycles_.at(place->second.first);
    if (reserved) {
      const int id = work.id;
      cycle.hold(std::move(work));
      look_for_nodes(cycle, id, workload);
      return;
    }
    if (!workload["spec"]["active"].boolean(true) || held_out(workload)) return;
    const Json none;
    const auto& labels = namespaces_.contains(ns) ? *namespaces_.at(ns) : none;
    if (!takes((*queues_.at(queue))["spec"]["namespaceSelector"], labels)) {
      work.fault = Work::Fault::kNamespace;
    } else if (against_limits(workload)) {
      work.fault = Work::Fault::kRequests;
    }
    if (failed_check(workload)) work.fault = Work::Fault::kChecks;
    replace_slice(work, workload, queue);
    cycle.enqueue(std::move(work), backs_off(workload));
    waiting_.insert(key);
  }

  /// Whether the queues ignore it: something holds it out of admission, or its variants are pending in its place.
  bool held_out(const Json& workload) const {
    const auto& metadata = workload["metadata"];
    if (gate(record_, "AdmissionGatedBy") &&
        !metadata["annotations"]["kueue.x-k8s.io/admission-gated-by"].string().empty()) {
      return true;
    }
    return gate(record_, "ConcurrentAdmission") &&
           metadata["labels"]["kueue.x-k8s.io/concurrent-admission-parent"].string() == "true";
  }

  static bool failed_check(const Json& workload) {
    return std::ranges::any_of(workload["status"]["admissionChecks"].items(), [](const Json& check) {
      return check["state"].string() == "Retry" || check["state"].string() == "Rejected";
    });
  }

  bool backs_off(const Json& workload) const {
    const auto& status = workload["status"];
    const auto& at = status["requeueState"]["requeueAt"].string();
    const auto refused = [](const Json& c) {
      return c["type"].string() == "Requeued" && c["status"].string() == "False";
    };
    return std::ranges::any_of(status["conditions"].items(), refused) || at > input_["now"].string();
  }

  void replace_slice(Work& work, const Json& workload, const std::string& queue) {
    if (!gate(record_, "ElasticJobsViaWorkloadSlices")) return;
    const auto& key = workload["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-replacement-for"].string();
    const auto old = std::ranges::find(names_, key, [](const auto& entry) { return entry.second; });
    const auto& ns = workload["metadata"]["namespace"].string();
    if (old == names_.end() || queue_of_.at(key) != queue || !key.starts_with(ns + "/")) return;
    Ties ties = work.ties == nullptr ? Ties() : *work.ties;
    ties.replaces = old->first;
    work.ties = std::make_shared<const Ties>(std::move(ties));
    for (const auto& one : input_["workloads"].items()) {
      if (World::key_of(one) == key) world_.add_before(work, one);
    }
  }

  /// Requests above the limits of the container, or above what a LimitRange of the namespace allows.
  bool against_limits(const Json& workload) const {
    for (const auto& set : workload["spec"]["podSets"].items()) {
      for (const auto& container : set["template"]["spec"]["containers"].items()) {
        for (const auto& [resource, asked] : container["resources"]["requests"].members()) {
          const auto amount = canonical(resource, asked);
          const auto& limit = container["resources"]["limits"][resource];
          if (!limit.is_null() && amount > canonical(resource, limit)) return true;
          for (const auto& object : input_["objects"].items()) {
            if (object["metadata"]["namespace"].string() != workload["metadata"]["namespace"].string()) continue;
            for (const auto& range : object["spec"]["limits"].items()) {
              if (range["type"].string() != "Container") continue;
              const auto& most = range["max"][resource];
              const auto& least = range["min"][resource];
              if (!most.is_null() && amount > canonical(resource, most)) return true;
              if (!least.is_null() && amount < canonical(resource, least)) return true;
            }
          }
        }
      }
    }
    return false;
  }

  Json shown(const Work& work, const Assignment& assignment) {
    Json out = Json::object();
    for (std::size_t i = 0; i < assignment.sets.size(); ++i) {
      Json flavors = Json::object();
      for (const auto& choice : assignment.sets[i].flavors) {
        flavors.set(world_.objects.resources[choice.resource], world_.objects.flavors[choice.flavor]);
      }
      out.set(work.pod_sets[i].name,
              Json::object({{"count", assignment.sets[i].count}, {"flavors", std::move(flavors)}}));
    }
    for (const auto& placed : assignment.placed) {
      out.set(work.pod_sets[placed.set].name).set("nodes", text_of(placed.assignment));
    }
    return out;
  }

  /// All workloads with quota at the end, with their flavors.
  std::string compare_holders() {
    const auto& wanted = record_["expected"]["wantAdmissionsOnSecondSchedule"];
    std::set<std::string> found, recorded;
    for (const auto& [id, key] : names_) {
      if (removed_.contains(key)) continue;
      const auto& cycle = cycles_.at(world_.planted.queues.at(queue_of_.at(key)).first);
      if (!cycle.work(id).usage.empty()) found.insert(key);
    }
    for (const auto& [key, one] : wanted.members()) {
      recorded.insert(key);
      for (const auto& set : one["podSetAssignments"].items()) {
        const auto& name = set["name"].string();
        if (admitted_.contains(key) && !(admitted_[key][name]["flavors"] == set["flavors"])) {
          return fmt::format("{} has {} where {} was recorded", key, admitted_[key].dump(), set["flavors"].dump());
        }
      }
    }
    if (found == recorded) return {};
    return fmt::format("[{}] hold quota where [{}] was recorded", fmt::join(found, " "), fmt::join(recorded, " "));
  }

  /// The nodes of workloads that held quota before and were considered again.
  std::string compare_again() const {
    for (const auto& [key, found] : again_) {
      std::map<std::string, std::string> recorded;
      for (const auto& set : record_["expected"]["wantNewAssignments"][key]["podSetAssignments"].items()) {
        if (set["topologyAssignment"].is_null()) continue;
        recorded[set["name"].string()] = text_of(topology_assignment(set["topologyAssignment"]));
      }
      if (found != recorded) {
        return fmt::format("{} has nodes [{}] where [{}] was recorded", key, words(found), words(recorded));
      }
    }
    return {};
  }

  /// The slices that were replaced by others.
  std::string compare_slices() const {
    std::set<std::string> recorded;
    for (const auto& workload : record_["expected"]["wantWorkloads"].items()) {
      for (const auto& c : workload["status"]["conditions"].items()) {
        if (c["reason"].string() == "WorkloadSliceReplaced") recorded.insert(World::key_of(workload));
      }
    }
    if (replaced_slices_ == recorded) return {};
    return fmt::format("[{}] were replaced where [{}] was recorded", fmt::join(replaced_slices_, " "),
                       fmt::join(recorded, " "));
  }

  std::string compare() {
    if (record_["expected"].contains("wantAdmissionsOnSecondSchedule")) return compare_holders();
    const auto& summary = record_["observed"]["summary"];
    Json wanted = Json::object();
    for (const auto& [key, one] : summary["admitted"].members()) {
      Json sets = Json::object();
      for (const auto& [name, set] : one["podSets"].members()) {
        const Json none = Json::object();
        sets.set(name, Json::object(
                           {{"count", set["count"]}, {"flavors", set["flavors"].is_null() ? none : set["flavors"]}}));
        const auto& nodes = set["topologyAssignment"];
        if (!nodes.is_null()) sets.set(name).set("nodes", text_of(topology_assignment(nodes)));
      }
      wanted.set(key, std::move(sets));
    }
    if (!(admitted_ == wanted))
      return fmt::format("admitted {} where {} was recorded", admitted_.dump(), wanted.dump());
    if (auto text = compare_again(); !text.empty()) return text;
    if (auto text = compare_slices(); !text.empty()) return text;
    std::map<std::string, std::string> gone;
    for (const auto& [key, one] : summary["preempted"].members())
      gone[key] = one["reason"].string_or(one["evictedReason"].string());
    if (preempted_ != gone)
      return fmt::format("preempted [{}] where [{}] was recorded", words(preempted_), words(gone));
    std::map<std::string, std::string> waits, waited;
    for (const auto& [key, one] : summary["pending"].members()) waited[key] = one["reason"].string();
    for (const auto& [key, reason] : pending_) {
      if (!admitted_.contains(key)) waits[key] = reason;
    }
    if (waits != waited) return fmt::format("waiting [{}] where [{}] was recorded", words(waits), words(waited));
    for (const char* where : {"left", "inadmissibleLeft"}) {
      if (!record_["observed"].contains(where)) continue;
      std::set<std::string> found, recorded;
      for (const auto& [queue, keys] : record_["observed"][where].members()) {
        for (const auto& key : keys.items()) recorded.insert(key.string());
      }
      for (const auto& key : waiting_) {
        if (removed_.contains(key)) continue;
        const auto [field, node] = world_.planted.queues.at(queue_of_.at(key));
        const auto& cycle = cycles_.at(field);
        const int id = id_of(key);
        if (cycle.waits(id) && cycle.active(id) == (where == std::string("left"))) found.insert(key);
      }
      if (found != recorded) {
        return fmt::format("{} [{}] where [{}] was recorded", where, fmt::join(found, " "), fmt::join(recorded, " "));
      }
    }
    return {};
  }

  int id_of(const std::string& key) const {
    return std::ranges::find(names_, key, [](const auto& entry) { return entry.second; })->first;
  }
  static std::string words(const std::map<std::string, std::string>& map) {
    std::string out;
    for (const auto& [key, value] : map) out += key + ":" + value + " ";
    return out;
  }

  const Json& record_;
  const Json& input_;
  World world_;
  Names local_ids_;
  std::vector<Cycle> cycles_;
  std::map<std::string, const Json*> queues_, namespaces_;
  std::map<std::string, std::string> locals_, queue_of_;
  std::map<int, std::string> names_;
  std::set<std::string> waiting_, removed_;
  Json admitted_ = Json::object();
  std::map<std::string, std::string> preempted_, pending_;
  std::map<std::string, std::map<std::string, std::string>> again_;  ///< by workload and pod set, as text
  std::set<std::string> replaced_, replaced_slices_;
  const Json& unwritten_;  ///< the error of every write of a status; null where they succeed
  bool says_why_ = true;
};

}  // namespace

std::string replay_cycle(const Json& record) { return Case(record).run(); }

}  // namespace qm::admission::vectors
