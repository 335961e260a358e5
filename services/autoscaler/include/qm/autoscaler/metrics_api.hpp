#pragma once
#include "qm/autoscaler/replica_watch.hpp"
#include "qm/http/http.hpp"

#include <memory>
#include <mutex>
#include <string>

namespace qm::autoscaler {

/// Serves external.metrics.k8s.io/v1beta1 and custom.metrics.k8s.io/v1beta2 from Prometheus, for
/// HorizontalPodAutoscalers: the API server proxies both groups to it by APIServices. The values are those by which
/// replicas are decided here.
///
/// External metrics are series with the label namespace. Metrics of pods are series with the labels namespace and pod;
/// those of other objects have the name of the object in the label of its kind. Selectors of metrics are matchers.
///
/// Fails    404 for a metric without a series; 503 while Prometheus does not answer.
/// Threads  any.
class MetricsApi {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    std::string prometheus;                  ///< URL
    std::optional<http::TlsFiles> tls;       ///< the API server requires TLS
    std::optional<http::Identity> identity;  ///< instead of tls, a certificate from memory
    std::chrono::milliseconds timeout{3000};
  };
  MetricsApi(kube::Client& client, const DomainClock& clock, Options options);
  ~MetricsApi();
  Status start();
  void stop();
  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::autoscaler
