#pragma once
#include "qm/admission/engine.hpp"
#include "qm/base/json.hpp"
#include "qm/service/engine_shell.hpp"
#include "qm/service/host.hpp"

#include <span>
#include <vector>

namespace qm::admission {

inline constexpr const char* kTopic = "qm.workload";
/// The input by which the API records the answer to a When call. Internal only.
inline constexpr const char* kEstimated = "Estimated";
/// The input of a watch: nodes that changed, as state::NodesInput.
inline constexpr const char* kNodesInput = "nodes";

/// Translates for the admission service: inputs to commands of its engine; decisions to rows, events and intents.
///
/// Requests "Submit", "Cancel", "Apply"; watches "job" and "pods" (one object, one group of pods; "deleted": true when
/// it was deleted) with "job.synced" and "pods.synced" (a JSON array of uids), "object" (a queue or other
/// configuration) and "object.synced", "nodes" (kNodesInput); topics qm.placement and qm.capacity; outcomes of job.* intents.
/// Threads  the engine thread of the host; stateless.
class Codec {
 public:
  /// `external_scheduler`: submitted jobs go to the scheduler that they name, not to the Quartermaster scheduler.
  explicit Codec(bool external_scheduler = false) : external_scheduler_(external_scheduler) {}
  Result<std::vector<Command>> decode(const service::Input& input) const;
  void encode(const Engine& engine, const Output& output, std::span<const std::size_t> origin,
              service::Effects& effects) const;
  Status load(Engine& engine, std::span<const store::StateRow> rows) const;
  void debug_state(const Engine& engine, service::StateDump& out) const;

 private:
  bool external_scheduler_ = false;
};

/// Messages of the bus and outcomes that no workload waits for while none is pending: assignments that are bound or
/// released, capacity, spending, and the results of writes. Any thread; parses an assignment.
[[nodiscard]] service::Urgency urgency_of(const service::Input& input);

using AdmissionShell = service::EngineShell<Engine, Codec>;

/// Engine::awaits of the engine in this host. Any thread.
[[nodiscard]] bool awaits(service::Host& host, const std::string& ns, const std::string& name,
                          const std::string& intent);

}  // namespace qm::admission
