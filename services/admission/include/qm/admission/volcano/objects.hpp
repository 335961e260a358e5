#pragma once
#include "qm/admission/volcano/gang.hpp"
#include "qm/admission/volcano/queues.hpp"
#include "qm/base/json.hpp"
#include "qm/base/time.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace qm::admission::volcano {

/// Something about one field: its path and a whole sentence.
struct Remark {
  std::string field, text;
  friend bool operator==(const Remark&, const Remark&) = default;
};

/// What was read of an object. An object with refusals is not to be used; notes say what is kept without effect, or has an
/// effect here that it does not have in Volcano.
template <class T>
struct Reading {
  T value;
  std::vector<Remark> refused, notes;
};

/// A PodGroup as it is written.
struct GroupObject {
  std::string queue, priority_class;
  std::int32_t min_member = 1;
  Gang::Pods min_task_member;
  std::optional<Named> min_resources;
  std::optional<Duration> waiting_time;  ///< annotation sla-waiting-time
  bool preemptable = true;               ///< annotation or label volcano.sh/preemptable
};

/// Reads Volcano's objects (scheduling.volcano.sh/v1beta1). The object itself is not changed.
/// Law      each field is obeyed, kept with a note, or refused by name; docs/fields.md lists them.
/// Cost     O(fields). Threads  any.
/// Source   Volcano, apis scheduling/v1beta1 and its webhooks.
[[nodiscard]] Reading<QueueObject> read_queue(const Json& object);
[[nodiscard]] Reading<GroupObject> read_group(const Json& object);

/// Names become numbers: the resources of the total and of all queues, in the order of their names.
struct Planted {
  std::vector<std::string> resources;
  Queues queues;
  /// What is not named is zero, and what is not a resource here is left out.
  [[nodiscard]] Resources amounts(const Named& named) const;
  [[nodiscard]] Gang gang(const GroupObject& group) const;
};
[[nodiscard]] Result<Planted> plant(const std::vector<QueueObject>& queues, const Named& total);

}  // namespace qm::admission::volcano
