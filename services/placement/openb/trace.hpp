#pragma once
#include "qm/base/result.hpp"
#include "qm/placement/pack/fragmentation.hpp"

#include <string>
#include <vector>

namespace qm::placement::openb {

/// A cluster and the requests on it: the CSV files of Alibaba's trace cluster-trace-gpu-v2023.
struct Trace {
  std::vector<pack::NodeState> nodes;  ///< empty
  std::vector<pack::PodClass> pods;    ///< by name
  std::vector<std::string> models;     ///< by number
  /// How often each class is requested, ignoring memory. Allowed models that are spelled
  /// differently form different classes, as in the paper's program.
  std::vector<pack::Demand> mix;
};

/// Reads nodes (cpu_milli, memory_mib, gpu, model) and pods (name, cpu_milli, memory_mib, num_gpu,
/// gpu_milli and, optionally, gpu_spec: models with | between them, empty = any). Other columns are
/// ignored; files may be compressed with gzip.
///
/// Fails    with file, line and column of the first error.
[[nodiscard]] Result<Trace> read_trace(const std::string& nodes, const std::string& pods);

}  // namespace qm::placement::openb
