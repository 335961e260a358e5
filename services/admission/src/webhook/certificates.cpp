#include "qm/admission/webhook/certificates.hpp"

#include "qm/base/base64.hpp"
#include "qm/base/log.hpp"
#include "qm/base/wake.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

namespace qm::admission::webhook {
namespace {

const kube::Resource kSecrets{"", "v1", "secrets", true};
constexpr std::chrono::milliseconds kAgain{500};

std::string field(const Json& secret, const char* name) {
  return from_base64(secret["data"][name].string()).value_or(std::string());
}

Bundle bundle_of(const Json& secret) {
  Bundle out;
  out.authorities = http::split_certificates(field(secret, "ca.crt"));
  out.authority_key = field(secret, "ca.key");
  out.serving = {field(secret, "tls.crt"), field(secret, "tls.key")};
  return out;
}

void write(Json& secret, const Bundle& bundle) {
  auto& data = secret.set("data");
  data.set("ca.crt", base64(bundle.text()));
  data.set("ca.key", base64(bundle.authority_key));
  data.set("tls.crt", base64(bundle.serving.certificate));
  data.set("tls.key", base64(bundle.serving.key));
}

}  // namespace

struct CertificateKeeper::Impl {
  Impl(kube::Client& client_, KeeperOptions options_, std::function<WallTime()> clock_, Serve serve_, Enrol enrol_)
      : client(client_),
        options(std::move(options_)),
        clock(std::move(clock_)),
        serve(std::move(serve_)),
        enrol(std::move(enrol_)) {}

  /// The Secret as it is now; a null value where it does not exist.
  Result<Json> read() const {
    auto secret = client.get(kSecrets, options.ns, options.secret);
    if (secret) return secret;
    if (secret.error().code == Code::kNotFound) return Json();
    return fail(secret.error());
  }

  /// Fails with kAborted where another replica wrote first.
  Status store(Json secret, const Bundle& bundle) const {
    if (secret.is_null()) {
      secret = Json::object({{"apiVersion", "v1"},
                             {"kind", "Secret"},
                             {"metadata", Json::object({{"name", options.secret}, {"namespace", options.ns}})},
                             {"type", "kubernetes.io/tls"}});
      write(secret, bundle);
      const auto made = client.create(kSecrets, options.ns, secret);
      if (made) return {};
      if (made.error().code != Code::kAlreadyExists) return fail(made.error());
      return fail(Code::kAborted, "another replica made the secret {}/{}", options.ns, options.secret);
    }
    write(secret, bundle);
    const auto written = client.update(kSecrets, options.ns, options.secret, secret);
    if (!written) return fail(written.error());
    return {};
  }

  Status look() {
    QM_ASSIGN(const auto secret, read());
    const auto have = bundle_of(secret);
    const bool known = !have.authorities.empty() && have.text() == enrolled;
    QM_ASSIGN(const auto want, renewed(have, clock(), options.names, known, options.life));
    if (!(want == have)) {
      QM_TRY(store(secret, want));
      log::info("webhook certificate renewed", {{"authorities", want.authorities.size()},
                                                {"new_serving", want.serving != have.serving},
                                                {"secret", options.ns + "/" + options.secret}});
    }
    // The bundle is registered before its certificate is served. A certificate is also served where the API server
    // does not accept the registration now.
    const auto text = want.text();
    const auto trusted = enrol(text);
    enrolled = trusted ? text : std::string();
    if (!(want.serving == served)) {
      QM_TRY(serve(want.serving));
      served = want.serving;
      if (const auto facts = http::read_certificate(served.certificate)) until = facts->until;
    }
    if (!trusted) return fail(trusted.error());
    return {};
  }

  void run(const std::stop_token& stop) {
    bool well = true;
    while (!stop.stop_requested()) {
      const auto looked = look();
      if (!looked && (well || looked.error().code != Code::kUnavailable)) {
        log::warn("webhook not set up yet", {{"error", looked.error().to_string()}});
      }
      well = looked.has_value();
      sleep_unless_stopped(well ? options.period : std::min(options.period, kAgain), stop);
    }
  }

  kube::Client& client;
  const KeeperOptions options;
  std::function<WallTime()> clock;
  Serve serve;
  Enrol enrol;
  http::Identity served;
  std::string enrolled;  // the bundle that the API server is known to trust
  std::atomic<WallTime> until{WallTime{}};
  std::jthread thread;
};

CertificateKeeper::CertificateKeeper(kube::Client& client, KeeperOptions options, std::function<WallTime()> clock,
                                     Serve on_serving, Enrol enrol)
    : impl_(std::make_unique<Impl>(client, std::move(options), std::move(clock), std::move(on_serving),
                                   std::move(enrol))) {}

CertificateKeeper::~CertificateKeeper() { stop(); }

Status CertificateKeeper::look() { return impl_->look(); }

void CertificateKeeper::start() {
  impl_->thread = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->run(stop); });
}

void CertificateKeeper::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->thread.request_stop();
  impl_->thread.join();
}

WallTime CertificateKeeper::serving_until() const { return impl_->until; }

}  // namespace qm::admission::webhook
