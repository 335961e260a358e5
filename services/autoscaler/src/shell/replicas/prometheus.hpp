#pragma once
#include "qm/base/result.hpp"
#include "qm/http/http.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace qm::autoscaler {

/// One element of an instant vector.
struct PrometheusElement {
  std::map<std::string, std::string> labels;
  double value = 0;
};

/// Instant queries of one Prometheus. Any thread.
class Prometheus {
 public:
  Prometheus(const std::string& url, std::chrono::milliseconds timeout);
  /// The vector; a scalar is a vector of one element without labels.
  ///
  /// Fails    kUnavailable and kDeadlineExceeded as http::Client; kInvalid: the expression or its result is not one.
  Result<std::vector<PrometheusElement>> query(const std::string& expression);

 private:
  std::string path_;
  http::Client client_;
};

// The expressions for metrics of HorizontalPodAutoscalers. `selector` is the query form of the selector of the metric;
// the names of labels are those that Prometheus Operator gives them: namespace and pod.
[[nodiscard]] std::string pods_expression(const std::string& metric, const std::string& ns,
                                          const std::vector<std::string>& pods, const std::string& selector);
[[nodiscard]] std::string object_expression(const std::string& metric, const std::string& ns, const std::string& kind,
                                            const std::string& name, const std::string& selector);
[[nodiscard]] std::string external_expression(const std::string& metric, const std::string& ns,
                                              const std::string& selector);

/// A value in thousandths as Prometheus Adapter publishes it: truncated; NaN is 0.
[[nodiscard]] std::int64_t milli_from(double value);

}  // namespace qm::autoscaler
