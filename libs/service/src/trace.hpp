#pragma once
#include "qm/service/shell.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::service {

/// Assigns a W3C trace to each event of a batch.
///
/// An event has the trace of the input about the same object: an input with the same key, with a key above or below
/// it ("uid" and "uid/attempt"), or with the key after a prefix ("promise/uid"). Any other event of the batch has no
/// trace: an input about one workload often leads to decisions about others, and a wrong trace is worse than none.
///
/// Threads  one; the inputs must outlive it.
class Traces {
 public:
  explicit Traces(std::span<const Input> inputs);
  /// The traceparent for an event with that key, or empty.
  [[nodiscard]] std::string_view of(std::string_view key) const;
  /// The distinct trace ids, in the order of the inputs.
  [[nodiscard]] const std::vector<std::string_view>& ids() const { return ids_; }

 private:
  std::map<std::string_view, std::string_view> exact_, below_;  // an input's key, and the keys above it
  std::vector<std::string_view> ids_;
};

}  // namespace qm::service
