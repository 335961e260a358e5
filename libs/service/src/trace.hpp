#pragma once
#include "qm/service/shell.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qm::service {

/// Which W3C trace each event of a batch belongs to.
///
/// An event goes on with the trace of the input that it is about: one of the same key, or of a key above or below it
/// ("uid" and "uid/attempt"). One that no input names goes on with the trace of the batch where there is only one, and
/// with none where there are several: no trace is better than that of somebody else.
///
/// Threads  one; the inputs must outlive it.
class Traces {
 public:
  explicit Traces(std::span<const Input> inputs);
  /// The traceparent for an event of that key, or empty.
  [[nodiscard]] std::string_view of(std::string_view key) const;
  /// The distinct trace ids, in the order of the inputs.
  [[nodiscard]] const std::vector<std::string_view>& ids() const { return ids_; }

 private:
  std::map<std::string_view, std::string_view> exact_, below_;  // an input's key, and the keys above it
  std::vector<std::string_view> ids_;
  std::string_view first_;
};

}  // namespace qm::service
