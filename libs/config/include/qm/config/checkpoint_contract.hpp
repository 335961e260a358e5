#pragma once
#include "qm/base/json.hpp"
#include "qm/base/result.hpp"
#include "qm/model/checkpoint.hpp"

#include <string>
#include <string_view>

namespace qm::config {

/// How the ranks of a workload get an order to save: the annotation quartermaster.dev/checkpoint of their pods.
///
/// Form     a URL ("http://{podIP}:8480/v1/checkpoint"), or a JSON object with at least one mode:
///            {"http": URL, "file": VOLUME, "signal": "SIGUSR1", "quorum": 1, "interval": "10m", "expected": "40s",
///             "uri": "s3://bucket/run", "copy": "gs://bucket/spot-recovery"}
/// Modes    an agent uses the first that works, in the order http, file, signal.
struct CheckpointContract {
  std::string http;    ///< URL template of the POST; empty = not offered
  std::string file;    ///< emptyDir volume of the pod in which orders and answers are exchanged; empty = not offered
  std::string signal;  ///< sent to the first process of each container; empty = not offered
  std::string copy;    ///< second destination of each checkpoint, for the loss of the first; empty = none
  CheckpointTerms terms;
  friend bool operator==(const CheckpointContract&, const CheckpointContract&) = default;
};

/// Parses the annotation. A URL is not checked here: the agent compares it with the addresses of the pod.
///
/// Fails    kInvalid names the member, its value and the valid form.
[[nodiscard]] Result<CheckpointContract> checkpoint_contract(std::string_view annotation);

/// Steps between the saves of a trainer by the argument --checkpoint-freq=N (or --checkpoint-freq N) of some container
/// of the pod; 0 where there is none, or its value is not a positive number.
[[nodiscard]] std::int64_t checkpoint_steps(const Json& pod_spec);

}  // namespace qm::config
