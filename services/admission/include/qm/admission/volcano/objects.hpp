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

/// A remark on one field: its path and a full sentence.
struct Remark {
  std::string field, text;
  friend bool operator==(const Remark&, const Remark&) = default;
};

/// The result of parsing an object. An object with refusals must not be used. Notes name fields that are kept without
/// effect, or whose effect here differs from Volcano.
template <class T>
struct Reading {
  T value;
  std::vector<Remark> refused, notes;
};

/// A PodGroup as written.
struct GroupObject {
  std::string queue, priority_class;
  std::int32_t min_member = 1;
  Gang::Pods min_task_member;
  std::optional<Named> min_resources;
  std::optional<Duration> waiting_time;  ///< annotation sla-waiting-time
  bool preemptable = true;               ///< annotation or label volcano.sh/preemptable
};

/// Parses Volcano's objects (scheduling.volcano.sh/v1beta1). The object itself is not changed.
/// Law      each field is applied, kept with a note, or refused by name; docs/fields.md lists them.
/// Cost     O(fields). Threads  any.
/// Source   Volcano, apis scheduling/v1beta1 and its webhooks.
[[nodiscard]] Reading<QueueObject> read_queue(const Json& object);
[[nodiscard]] Reading<GroupObject> read_group(const Json& object);

/// Numbers instead of names: the resources of the total and of all queues, in the order of their names.
struct Planted {
  std::vector<std::string> resources;
  Queues queues;
  /// Resources that are not named are zero, and unknown resources are omitted.
  [[nodiscard]] Resources amounts(const Named& named) const;
  [[nodiscard]] Gang gang(const GroupObject& group) const;
};
[[nodiscard]] Result<Planted> plant(const std::vector<QueueObject>& queues, const Named& total);

}  // namespace qm::admission::volcano
