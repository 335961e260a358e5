#include "qm/admission/volcano/objects.hpp"

#include "qm/config/manifest.hpp"
#include "qm/model/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace qm::admission::volcano {
namespace {

/// Reads the fields of one object and collects the remarks about them.
class Fields {
 public:
  std::vector<Remark> refused, notes;

  void refuse(std::string field, std::string text) { refused.push_back({std::move(field), std::move(text)}); }
  void note(std::string field, std::string text) { notes.push_back({std::move(field), std::move(text)}); }

  /// Adds a note for every unknown member, so that a misspelled field is reported.
  void unknown(const Json& object, const std::string& path, const std::set<std::string, std::less<>>& known) {
    for (const auto& [key, value] : object.members()) {
      if (!known.contains(key)) note(path + "." + key, "is not a field of Volcano; it is kept and has no effect");
    }
  }

  void read(const Json& value, const std::string& path, bool& out) {
    if (value.is_null()) return;
    if (!value.is_bool()) return refuse(path, "must be true or false");
    out = value.boolean();
  }
  void read(const Json& value, const std::string& path, std::string& out) {
    if (value.is_null()) return;
    if (!value.is_string()) return refuse(path, "must be a string");
    out = value.string();
  }
  void read(const Json& value, const std::string& path, std::int32_t at_least, std::int32_t& out) {
    if (value.is_null()) return;
    const auto number = value.integer();
    if (!value.is_int() || number < at_least || number > std::numeric_limits<std::int32_t>::max()) {
      return refuse(path, fmt::format("must be a whole number, at least {}", at_least));
    }
    out = static_cast<std::int32_t>(number);
  }
  void read(const Json& value, const std::string& path, Named& out) {
    if (value.is_null()) return;
    if (!value.is_object()) return refuse(path, "must be a list of resources with amounts");
    for (const auto& [resource, amount] : value.members()) {
      const auto quantity = Quantity::parse(amount.is_string() ? amount.string() : amount.dump());
      if (!quantity || quantity->negative()) {
        refuse(path + "." + resource, "must be an amount such as 8, 500m or 64Gi, not below zero");
        continue;
      }
      out[resource] = resource == "cpu" ? quantity->milli() : quantity->units();
    }
  }
  /// Refuses each resource that both lists name and of which the first has more than the second.
  void in_order(const Named& less, const std::string& path, const Named& more, std::string_view than) {
    for (const auto& [resource, amount] : less) {
      const auto limit = more.find(resource);
      if (limit == more.end() || amount <= limit->second) continue;
      refuse(path + "." + resource, fmt::format("must not be more than {}", than));
    }
  }
};

const std::string& tag(const Json& object, std::string_view list, std::string_view key) {
  return object["metadata"][list][key].string();
}

template <class T>
Reading<T> done(T value, Fields fields) {
  return {std::move(value), std::move(fields.refused), std::move(fields.notes)};
}

void read_state(const Json& value, Fields& fields, QueueState& out) {
  std::string word;
  fields.read(value, "status.state", word);
  if (word.empty() || word == "Open") return;
  if (word == "Closed") {
    out = QueueState::kClosed;
  } else if (word == "Closing") {
    out = QueueState::kClosing;
  } else if (word == "Unknown") {
    out = QueueState::kUnknown;
  } else {
    fields.refuse("status.state", "must be Open, Closed, Closing or Unknown");
  }
}

void read_affinity(const Json& affinity, Fields& fields) {
  for (const std::string kind : {"nodeGroupAffinity", "nodeGroupAntiAffinity"}) {
    const auto path = "spec.affinity." + kind;
    if (affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"].size() > 0) {
      fields.refuse(path + ".requiredDuringSchedulingIgnoredDuringExecution",
                    "is not supported: queues have no nodes; set a node selector on the jobs, or a flavor");
    }
    if (affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"].size() > 0) {
      fields.note(path + ".preferredDuringSchedulingIgnoredDuringExecution",
                  "is kept and has no effect: queues have no nodes");
    }
  }
  fields.unknown(affinity, "spec.affinity", {"nodeGroupAffinity", "nodeGroupAntiAffinity"});
}

void read_annotations(const Json& object, Fields& fields) {
  for (const std::string key : {"volcano.sh/hierarchy", "volcano.sh/hierarchy-weights"}) {
    if (tag(object, "annotations", key).empty()) continue;
    fields.note("metadata.annotations." + key, "is kept and has no effect: spec.parent and spec.weight define it");
  }
}

}  // namespace

Reading<QueueObject> read_queue(const Json& object) {
  QueueObject out;
  Fields fields;
  const Json& spec = object["spec"];
  out.rules.name = object["metadata"]["name"].string();
  if (out.rules.name.empty()) fields.refuse("metadata.name", "must be given");
  fields.unknown(spec, "spec",
                 {"weight", "capability", "reclaimable", "extendClusters", "guarantee", "affinity", "type", "parent",
                  "deserved", "priority", "dequeueStrategy", "preemptable", "preemptionPolicy"});
  fields.read(spec["weight"], "spec.weight", 1, out.rules.weight);
  fields.read(spec["priority"], "spec.priority", 0, out.rules.priority);
  fields.read(spec["parent"], "spec.parent", out.rules.parent);
  fields.read(spec["reclaimable"], "spec.reclaimable", out.rules.reclaimable);
  fields.read(spec["capability"], "spec.capability", out.capability);
  fields.read(spec["deserved"], "spec.deserved", out.deserved);
  fields.read(spec["guarantee"]["resource"], "spec.guarantee.resource", out.guarantee);
  fields.unknown(spec["guarantee"], "spec.guarantee", {"resource"});
  fields.in_order(out.guarantee, "spec.guarantee.resource", out.capability, "the capability");
  fields.in_order(out.deserved, "spec.deserved", out.capability, "the capability");
  fields.in_order(out.guarantee, "spec.guarantee.resource", out.deserved, "the deserved amount");

  std::string word;
  fields.read(spec["dequeueStrategy"], "spec.dequeueStrategy", word);
  out.rules.strict = word == "fifo";
  if (!word.empty() && word != "fifo" && word != "traverse") {
    fields.refuse("spec.dequeueStrategy", "must be fifo or traverse");
  }
  fields.read(spec["preemptable"], "spec.preemptable", out.rules.preemptable);
  if (spec.contains("preemptable")) {
    fields.note("spec.preemptable", "is not a field of Volcano; false protects all jobs of the queue from preemption");
  }
  if (spec.contains("preemptionPolicy")) {
    std::string policy;
    fields.read(spec["preemptionPolicy"], "spec.preemptionPolicy", policy);
    if (const auto known = policy_of(policy)) {
      out.rules.victims = *known;
    } else {
      fields.refuse("spec.preemptionPolicy", "must be FIFO, priority or bestFit");
    }
    fields.note("spec.preemptionPolicy",
                "is not a field of Volcano; it selects the victims among the jobs of the queue");
  }
  if (spec["extendClusters"].size() > 0) {
    fields.refuse("spec.extendClusters", "is not supported: jobs are not sent to other clusters; remove it");
  }
  if (spec.contains("type")) fields.note("spec.type", "is kept and has no effect, as in Volcano");
  read_affinity(spec["affinity"], fields);
  read_annotations(object, fields);
  read_state(object["status"]["state"], fields, out.rules.state);
  return done(std::move(out), std::move(fields));
}

Reading<GroupObject> read_group(const Json& object) {
  GroupObject out;
  Fields fields;
  const Json& spec = object["spec"];
  fields.unknown(spec, "spec",
                 {"minMember", "minTaskMember", "queue", "priorityClassName", "minResources", "networkTopology",
                  "subGroupPolicy"});
  fields.read(spec["minMember"], "spec.minMember", 0, out.min_member);
  for (const auto& [task, count] : spec["minTaskMember"].members()) {
    fields.read(count, "spec.minTaskMember." + task, 0, out.min_task_member[task]);
  }
  fields.read(spec["queue"], "spec.queue", out.queue);
  if (out.queue.empty()) out.queue = "default";
  fields.read(spec["priorityClassName"], "spec.priorityClassName", out.priority_class);
  if (!spec["minResources"].is_null()) {
    out.min_resources.emplace();
    fields.read(spec["minResources"], "spec.minResources", *out.min_resources);
  }
  if (const Json& topology = spec["networkTopology"]; !topology.is_null()) {
    if (topology["mode"].string_or("hard") == "hard") {
      fields.refuse(
          "spec.networkTopology",
          "is not supported with mode hard: admission has no nodes; request a topology by annotations of the job");
    } else {
      fields.note("spec.networkTopology", "is kept and has no effect: admission has no nodes");
    }
  }
  if (spec["subGroupPolicy"].size() > 0) {
    fields.refuse("spec.subGroupPolicy", "is not supported: a group starts as a whole; create a group for each part");
  }
  if (const auto& time = tag(object, "annotations", "sla-waiting-time"); !time.empty()) {
    const auto read = config::parse_duration(time);
    if (read && read->count() > 0) {
      out.waiting_time = *read;
    } else {
      fields.refuse("metadata.annotations.sla-waiting-time", "must be a duration above zero, such as 1h30m");
    }
  }
  auto preemptable = tag(object, "annotations", kPreemptable);
  if (preemptable.empty()) preemptable = tag(object, "labels", kPreemptable);
  out.preemptable = preemptable.empty() || preemptable == "true";
  if (!out.preemptable && preemptable != "false") {
    fields.refuse("metadata.annotations.volcano.sh/preemptable", "must be true or false");
  }
  return done(std::move(out), std::move(fields));
}

Resources Planted::amounts(const Named& named) const {
  Resources out(resources.size());
  for (std::size_t r = 0; r < resources.size(); ++r) {
    if (const auto found = named.find(resources[r]); found != named.end()) out[r] = found->second;
  }
  return out;
}

Gang Planted::gang(const GroupObject& group) const {
  Gang out;
  out.min_member = group.min_member;
  out.min_task_member = group.min_task_member;
  if (group.min_resources) out.min_resources = amounts(*group.min_resources);
  return out;
}

Result<Planted> plant(const std::vector<QueueObject>& queues, const Named& total) {
  std::set<std::string> names;
  const auto learn = [&](const Named& named) {
    for (const auto& [name, amount] : named) names.insert(name);
  };
  learn(total);
  for (const auto& queue : queues) {
    for (const auto* named : {&queue.capability, &queue.guarantee, &queue.deserved}) learn(*named);
  }
  Planted out{{names.begin(), names.end()}, {}};
  std::vector<Queue> rules;
  for (const auto& object : queues) {
    auto& queue = rules.emplace_back(object.rules);
    queue.guarantee = out.amounts(object.guarantee);
    queue.deserved = out.amounts(object.deserved);
    queue.capability = out.amounts(object.capability);
    for (std::size_t r = 0; r < out.resources.size(); ++r) {
      if (!object.capability.contains(out.resources[r])) queue.capability[r] = kUnlimited;
    }
  }
  QM_ASSIGN(out.queues, Queues::plant(std::move(rules), out.amounts(total)));
  return out;
}

}  // namespace qm::admission::volcano
