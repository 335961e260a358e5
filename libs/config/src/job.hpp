#pragma once
#include "pod.hpp"

#include <string>

namespace qm::config {

/// The parsed fields of an object with pods, except for counts: of the object, and of the last parsed template.
struct JobRead {
  std::string name, generate_name, ns = "default", uid;
  Instant created{};
  Labels labels;
  std::string queue_annotation, queue_of_pods;
  std::int64_t parallelism = 1, min_parallelism = 0, all_parallel = 0;
  std::int64_t completions = -1;  ///< -1 = absent: as many as parallelism
  std::string completion_mode;
  Labels pod_labels;
  Duration expected{0};
  bool checkpoints = false;
  CheckpointTerms checkpoint;
  PodRead pod;
};

/// The row of an object's metadata.
Field<JobRead> object_metadata();
/// The rows of a pod template.
Table<JobRead> template_rows();
/// The workload, without its pod sets. `read.labels` and similar members are moved from.
WorkloadSpec workload_of(JobRead& read, std::string kind);
WorkloadSpec read_job(const Cursor& root);

/// Runs a reader on a value without a file; returns its first error.
template <class Fn>
auto without_file(const Json& value, Fn&& fn) -> Result<decltype(fn(std::declval<const Cursor&>()))> {
  Document document;
  Scope scope(document, Origin::kCluster);
  auto out = fn(Cursor{&scope, {}, &value});
  if (!scope.failed()) return out;
  for (Diagnostic& diagnostic : scope.diagnostics()) {
    if (diagnostic.severity != Diagnostic::Severity::kError) continue;
    return fail(Error{Code::kInvalid,
                      fmt::format("{} {}", diagnostic.field.empty() ? "it" : diagnostic.field, diagnostic.message),
                      std::move(diagnostic.field), std::move(diagnostic.remedy)});
  }
  return out;
}

}  // namespace qm::config
