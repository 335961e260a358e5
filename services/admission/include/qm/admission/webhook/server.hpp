#pragma once
#include "qm/admission_policy/policy.hpp"
#include "qm/http/http.hpp"
#include "qm/metrics/metrics.hpp"

#include <functional>
#include <memory>
#include <string>

namespace qm::admission::webhook {

/// The response to a request of the API server: POST /mutate and POST /validate with an AdmissionReview, GET /readyz.
///
/// Threads  any; reads only its arguments.
[[nodiscard]] http::Response respond(const http::Request& request, const admission_policy::Settings& settings,
                                     const admission_policy::View& view);

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  int threads = 4;
  std::size_t max_body = 8 << 20;  ///< an object and its old state, each at most what etcd accepts, as JSON
};

/// Serves the API server over HTTPS. It decides from the view that `view` returns without blocking, so neither the
/// engine nor the database can delay it.
///
/// Counts   qm_webhook_reviews_total{path,answer}, qm_webhook_review_seconds{path}.
class Server {
 public:
  Server(ServerOptions options, admission_policy::Settings settings,
         std::function<std::shared_ptr<const admission_policy::View>()> view, metrics::Registry& registry);
  ~Server();
  /// Starts with the first certificate, and switches to each later one.
  Status serve(const http::Identity& identity);
  /// Keeps serving, but closes each connection with its next response; takes two seconds if the API server keeps
  /// one open.
  void drain();
  void stop();                               ///< drains first
  [[nodiscard]] std::uint16_t port() const;  ///< 0 until it serves

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::admission::webhook
