#include "translate/pool_objects.hpp"

#include "qm/admission/volcano/objects.hpp"
#include "qm/kube/client.hpp"

namespace qm::admission {

bool is_volcano_queue(const config::Document& doc) {
  return doc.kind == "Queue" && doc.api_version.starts_with("scheduling.volcano.sh/");
}

Result<ClusterQueue> volcano_queue_of(const config::Document& doc, std::vector<std::string>& warnings) {
  auto read = volcano::read_queue(doc.content);
  if (!read.refused.empty()) {
    const auto& first = read.refused.front();
    return fail({Code::kInvalid, fmt::format("{} {}", first.field, first.text), first.field, "correct the field"});
  }
  for (const auto& note : read.notes) {
    warnings.push_back(fmt::format("Queue/{}: {} {}", doc.name, note.field, note.text));
  }
  ClusterQueue out;
  out.name = QueueName(doc.name);
  out.strategy = read.value.rules.strict ? Strategy::kStrictFifo : Strategy::kBestEffortFifo;
  out.volcano = std::move(read.value);
  return out;
}

Status read_pool(const Json& object, Cohort& cohort) {
  const auto rules = kube::annotation(object, kQueueRules), time = kube::annotation(object, kWaitingTime);
  const auto field = [](std::string_view name) { return fmt::format("metadata.annotations[{}]", name); };
  if (!rules.empty()) {
    cohort.sharing = volcano::sharing_of(rules);
    if (!cohort.sharing) {
      return fail({Code::kInvalid, fmt::format("{} is not a queue rule", rules), field(kQueueRules),
                   "use one of proportion, capacity, drf"});
    }
    if (!cohort.parent.empty()) {
      return fail({Code::kInvalid, "a Cohort that is a pool of Volcano queues has no parent", "spec.parentName",
                   "leave it out"});
    }
    for (const auto& group : cohort.groups) {
      if (group.flavors.size() == 1) continue;
      return fail({Code::kInvalid, "a Cohort that is a pool of Volcano queues has one flavor of each resource",
                   "spec.resourceGroups.flavors", "name one flavor in each group"});
    }
  }
  if (!time.empty()) {
    const auto read = config::parse_duration(time);
    if (!read || read->count() <= 0 || !cohort.sharing) {
      return fail({Code::kInvalid,
                   cohort.sharing ? fmt::format("{} is not a duration above zero", time)
                                  : fmt::format("it has an effect only together with {}", kQueueRules),
                   field(kWaitingTime), "write for example 1h30m"});
    }
    cohort.waiting_time = *read;
  }
  return {};
}

}  // namespace qm::admission
