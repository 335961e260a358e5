#include "qm/admission/webhook/server.hpp"

#include "qm/admission/webhook/review.hpp"

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace qm::admission::webhook {

using admission_policy::Settings, admission_policy::View;

namespace {

/// How long an open connection of the API server may take to learn by a response that the server stops.
constexpr std::chrono::seconds kDrain{2};
/// The API server closes a connection after 90 s without a call. A connection that this side closed first could be the
/// one that it selects for its next call, which then fails.
constexpr std::chrono::seconds kIdle{120};

http::Response refused(const Error& error) { return http::text(400, error.to_string() + "\n"); }

}  // namespace

http::Response respond(const http::Request& request, const Settings& settings, const View& view) {
  const auto path = request.path();
  const bool mutates = path == "/mutate";
  if (!mutates && path != "/validate") return http::text(404, "POST /mutate or /validate\n");
  if (request.method != "POST") return http::text(405, "POST an AdmissionReview\n");
  const auto review = Review::read(request.body);
  if (!review) return refused(review.error());
  const auto subject = review->subject();
  if (!mutates) return http::json(200, answer(*review, validate(subject, settings, view)));
  return http::json(200,
                    answer(*review, subject.object->is_object() ? mutate_and_mark(subject, settings, view) : Json()));
}

struct Server::Impl {
  Impl(ServerOptions options_, Settings settings_, std::function<std::shared_ptr<const View>()> view_,
       metrics::Registry& registry)
      : options(std::move(options_)), settings(std::move(settings_)), view(std::move(view_)) {
    for (const auto* path : {"/mutate", "/validate"}) {
      Measures m;
      for (const auto* answered : {"ok", "refused"}) {
        m.reviews.emplace(answered, registry.counter("qm_webhook_reviews_total", "Admission reviews answered",
                                                     {{"path", path}, {"answer", answered}}));
      }
      m.seconds = registry.histogram("qm_webhook_review_seconds", "Time from a review read to its answer made",
                                     {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1}, {{"path", path}});
      measures.emplace(path, std::move(m));
    }
  }

  http::Response handle(const http::Request& request) {
    if (request.path() == "/readyz") return http::text(200, "ok\n");
    const auto begin = std::chrono::steady_clock::now();
    auto response = respond(request, settings, *view());
    const auto found = measures.find(request.path());
    if (found == measures.end()) return response;
    // Only this service writes the response, so a search in its text is enough.
    const bool ok = response.status == 200 && response.body.find(R"("allowed":true)") != std::string::npos;
    found->second.reviews.at(ok ? "ok" : "refused").add();
    found->second.seconds.observe(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    return response;
  }

  struct Measures {
    std::map<std::string, metrics::Counter> reviews;
    metrics::Histogram seconds;
  };
  const ServerOptions options;
  const Settings settings;
  std::function<std::shared_ptr<const View>()> view;
  std::map<std::string, Measures> measures;
  std::mutex mutex;  // guards the following members
  std::unique_ptr<http::Server> server;
  bool drained = false;
};

Server::Server(ServerOptions options, Settings settings, std::function<std::shared_ptr<const View>()> view,
               metrics::Registry& registry)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(settings), std::move(view), registry)) {}

Server::~Server() { stop(); }

Status Server::serve(const http::Identity& identity) {
  const std::scoped_lock lock(impl_->mutex);
  if (impl_->server) return impl_->server->replace_certificate(identity);
  http::ServerOptions options;
  options.address = impl_->options.address;
  options.port = impl_->options.port;
  options.threads = impl_->options.threads;
  options.pinned = true;  // handlers never block
  options.max_body = impl_->options.max_body;
  options.idle_timeout = kIdle;
  options.identity = identity;
  auto server = std::make_unique<http::Server>(
      options, [impl = impl_.get()](const http::Request& request) { return impl->handle(request); });
  QM_TRY(server->start());
  impl_->server = std::move(server);
  return {};
}

// Without the lock: port() answers meanwhile. The server itself stays until the destruction.
void Server::drain() {
  http::Server* server = nullptr;
  {
    const std::scoped_lock lock(impl_->mutex);
    if (!std::exchange(impl_->drained, true)) server = impl_->server.get();
  }
  if (server != nullptr) server->drain(kDrain);
}

void Server::stop() {
  drain();
  const std::scoped_lock lock(impl_->mutex);
  if (impl_->server) impl_->server->stop();
}

std::uint16_t Server::port() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->server ? impl_->server->port() : 0;
}

}  // namespace qm::admission::webhook
