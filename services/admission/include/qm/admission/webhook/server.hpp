#pragma once
#include "qm/admission/webhook/policy.hpp"
#include "qm/http/http.hpp"
#include "qm/metrics/metrics.hpp"

#include <functional>
#include <memory>
#include <string>

namespace qm::admission::webhook {

/// The answer to one request of the API server: POST /mutate and POST /validate with an AdmissionReview, GET /readyz.
///
/// Threads  any; reads only its arguments.
[[nodiscard]] http::Response respond(const http::Request& request, const Settings& settings, const View& view);

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  int threads = 4;
  std::size_t max_body = 8 << 20;  ///< an object and its old state, each at most what etcd takes, as JSON
};

/// Answers the API server over HTTPS. It decides from the view that `view` gives at once, so neither the engine nor the
/// database can hold it up.
///
/// Counts   qm_webhook_reviews_total{path,answer}, qm_webhook_review_seconds{path}.
class Server {
 public:
  Server(ServerOptions options, Settings settings, std::function<std::shared_ptr<const View>()> view,
         metrics::Registry& registry);
  ~Server();
  /// Begins with the first certificate, goes on with each later one.
  Status serve(const http::Identity& identity);
  /// Answers on, but ends each connection with its next answer; takes two seconds where the API server keeps one.
  void drain();
  void stop();                               ///< drains first
  [[nodiscard]] std::uint16_t port() const;  ///< 0 until it serves

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::admission::webhook
