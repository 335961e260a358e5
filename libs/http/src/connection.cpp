#include "connection.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace qm::http {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kStopSlice{100};

std::string tls_error() {
  const auto code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "connection closed";
  std::array<char, 256> buffer{};
  ERR_error_string_n(code, buffer.data(), buffer.size());
  return buffer.data();
}

bool is_ip(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

}  // namespace

Result<Origin> Origin::parse(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(Error{Code::kInvalid, fmt::format("'{}' is not a valid origin: {}", text, why), "origin",
                      "write http://host:port or https://host:port"});
  };
  Origin origin;
  std::string_view rest = text;
  if (rest.starts_with("http://")) {
    rest.remove_prefix(7);
  } else if (rest.starts_with("https://")) {
    origin.tls = true;
    rest.remove_prefix(8);
  } else {
    return bad("it has no scheme");
  }
  if (rest.ends_with('/')) rest.remove_suffix(1);
  if (rest.find_first_of("/?#@ ") != std::string_view::npos) return bad("it is more than an origin");
  origin.authority = std::string(rest);
  std::string_view port;
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close == std::string_view::npos) return bad("a bracket is open");
    origin.host = std::string(rest.substr(1, close - 1));
    rest.remove_prefix(close + 1);
    if (!rest.empty() && rest.front() != ':') return bad("the port is unreadable");
    port = rest.empty() ? rest : rest.substr(1);
  } else {
    const auto colon = rest.find(':');
    origin.host = std::string(rest.substr(0, colon));
    port = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  }
  if (origin.host.empty()) return bad("it has no host");
  if (!std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; }) || port.size() > 5) {
    return bad("the port is unreadable");
  }
  origin.port = port.empty() ? (origin.tls ? "443" : "80") : std::string(port);
  return origin;
}

namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using TrustedCertificate = std::unique_ptr<X509, decltype(&X509_free)>;

Bio bytes_of(const std::string& pem) { return {BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free}; }

Result<TrustedCertificate> parse_certificate(const std::string& pem, std::string_view what) {
  TrustedCertificate made(PEM_read_bio_X509(bytes_of(pem).get(), nullptr, nullptr, nullptr), &X509_free);
  if (!made) return fail(Code::kInvalid, "{}: {}", what, tls_error());
  return made;
}

Status use_identity(SSL_CTX* context, const Identity& identity) {
  bool first = true;
  for (const auto& pem : split_certificates(identity.certificate)) {
    QM_ASSIGN(const auto certificate, parse_certificate(pem, "client certificate"));
    const int used = std::exchange(first, false) ? SSL_CTX_use_certificate(context, certificate.get())
                                                 : SSL_CTX_add1_chain_cert(context, certificate.get());
    if (used != 1) return fail(Code::kInvalid, "client certificate: {}", tls_error());
  }
  if (first) return fail(Code::kInvalid, "client certificate: no PEM certificate is in it");
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
      PEM_read_bio_PrivateKey(bytes_of(identity.key).get(), nullptr, nullptr, nullptr), &EVP_PKEY_free);
  if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    return fail(Code::kInvalid, "client key: {}", tls_error());
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<TlsClient>> TlsClient::make(const ClientOptions& options) {
  auto* context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return fail(Code::kInternal, "no TLS context: {}", tls_error());
  std::unique_ptr<TlsClient> made(new TlsClient(context));
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, options.insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  if (options.at) {
    X509_VERIFY_PARAM_set_time(SSL_CTX_get0_param(context), options.at->time_since_epoch().count());
  }
  for (const auto& pem : split_certificates(options.ca)) {
    QM_ASSIGN(const auto authority, parse_certificate(pem, "CA"));
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get());
  }
  if (!options.ca_file.empty()) {
    if (SSL_CTX_load_verify_locations(context, options.ca_file.c_str(), nullptr) != 1) {
      return fail(Code::kInvalid, "CA file '{}': {}", options.ca_file, tls_error());
    }
  } else if (options.ca.empty()) {
    SSL_CTX_set_default_verify_paths(context);
  }
  if (options.identity) {
    QM_TRY(use_identity(context, *options.identity));
  } else if (!options.certificate.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context, options.certificate.c_str()) != 1) {
      return fail(Code::kInvalid, "certificate '{}': {}", options.certificate, tls_error());
    }
    if (SSL_CTX_use_PrivateKey_file(context, options.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      return fail(Code::kInvalid, "private key '{}': {}", options.key, tls_error());
    }
  }
  return made;
}

TlsClient::~TlsClient() { SSL_CTX_free(static_cast<SSL_CTX*>(context_)); }

/// TLS works on two memory buffers, and this class moves the bytes, so that no write can raise SIGPIPE and
/// every wait has the same deadline and stop.
struct Connection::Tls {
  explicit Tls(SSL* machine) : ssl(machine) {}
  ~Tls() { SSL_free(ssl); }
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;
  SSL* ssl;
};

Connection::Connection() = default;

Connection::~Connection() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<Connection>> Connection::open(const Origin& origin, const TlsClient* tls, Patience patience) {
  std::unique_ptr<Connection> made(new Connection);
  QM_TRY(made->connect(origin, patience));
  if (origin.tls && tls != nullptr) QM_TRY(made->handshake(origin, *tls, patience));
  return made;
}

Status Connection::connect(const Origin& origin, Patience patience) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(origin.host.c_str(), origin.port.c_str(), &hints, &found);
  if (rc != 0) {
    return fail(Code::kUnavailable, "cannot resolve '{}': {}", origin.host, gai_strerror(rc));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  int last = ECONNREFUSED;
  for (const auto* at = found; at != nullptr; at = at->ai_next) {
    fd_ = ::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (fd_ < 0) {
      last = errno;
      continue;
    }
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (::connect(fd_, at->ai_addr, at->ai_addrlen) == 0) return {};
    last = errno;
    if (last == EINPROGRESS) {
      if (auto waited = wait(POLLOUT, patience); !waited) {
        if (waited.error().code == Code::kCancelled) return waited;
        last = ETIMEDOUT;
      } else {
        socklen_t size = sizeof last;
        getsockopt(fd_, SOL_SOCKET, SO_ERROR, &last, &size);
        if (last == 0) return {};
      }
    }
    ::close(fd_);
    fd_ = -1;
  }
  return fail(Code::kUnavailable, "cannot connect: {}", std::strerror(last));
}

Status Connection::handshake(const Origin& origin, const TlsClient& tls, Patience patience) {
  tls_ = std::make_unique<Tls>(SSL_new(static_cast<SSL_CTX*>(tls.context())));
  auto* ssl = tls_->ssl;
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  SSL_set_connect_state(ssl);
  if (is_ip(origin.host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), origin.host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl, origin.host.c_str());
    SSL_set1_host(ssl, origin.host.c_str());
  }
  auto done = drive([ssl] { return SSL_do_handshake(ssl); }, "TLS handshake", patience);
  if (done) return {};
  const auto verdict = SSL_get_verify_result(ssl);
  if (verdict != X509_V_OK) {
    return fail(Error{Code::kUnauthenticated,
                      fmt::format("the certificate of {} is not trusted: {}", origin.authority,
                                  X509_verify_cert_error_string(verdict)),
                      "ca_file", "name the CA that signed it"});
  }
  return fail(done.error());
}

Status Connection::wait(short events, Patience patience) const {
  for (;;) {
    if (patience.stop != nullptr && *patience.stop && (*patience.stop)()) {
      return fail(Code::kCancelled, "stopped by the caller");
    }
    const auto now = std::chrono::steady_clock::now();
    if (now >= patience.until) return fail(Code::kDeadlineExceeded, "no progress in time");
    auto slice =
        std::chrono::ceil<milliseconds>(std::min<SteadyDuration>(patience.until - now, std::chrono::seconds(10)));
    if (patience.stop != nullptr && patience.wake == nullptr) slice = std::min(slice, kStopSlice);
    std::array<pollfd, 2> entries{pollfd{fd_, events, 0}, pollfd{}};
    if (patience.wake != nullptr) entries[1] = {patience.wake->descriptor(), POLLIN, 0};
    const int ready = ::poll(entries.data(), patience.wake == nullptr ? 1 : 2, static_cast<int>(slice.count()));
    if (entries[1].revents != 0) (void)patience.wake->take();
    if (ready > 0 && entries[0].revents != 0) return {};
    if (ready < 0 && errno != EINTR) {
      return fail(Code::kUnavailable, "poll: {}", std::strerror(errno));
    }
  }
}

Status Connection::send_raw(std::string_view bytes, Patience patience) {
  while (!bytes.empty()) {
    const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      QM_TRY(wait(POLLOUT, patience));
    } else if (errno != EINTR) {
      return fail(Code::kUnavailable, "the connection broke: {}", std::strerror(errno));
    }
  }
  return {};
}

Result<std::size_t> Connection::receive_raw(std::span<char> into, Patience patience) {
  for (;;) {
    const auto n = ::recv(fd_, into.data(), into.size(), 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      QM_TRY(wait(POLLIN, patience));
    } else if (errno != EINTR) {
      return fail(Code::kUnavailable, "the connection broke: {}", std::strerror(errno));
    }
  }
}

Result<std::size_t> Connection::drive(const std::function<int()>& call, std::string_view what, Patience patience) {
  std::array<char, 16384> buffer{};
  auto* ssl = tls_->ssl;
  for (;;) {
    ERR_clear_error();
    const int rc = call();
    const int problem = rc > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl, rc);
    const auto why = problem == SSL_ERROR_SSL ? tls_error() : std::string("connection closed");
    for (;;) {
      const int n = BIO_read(SSL_get_wbio(ssl), buffer.data(), static_cast<int>(buffer.size()));
      if (n <= 0) break;
      QM_TRY(send_raw({buffer.data(), static_cast<std::size_t>(n)}, patience));
    }
    if (rc > 0) return static_cast<std::size_t>(rc);
    if (problem == SSL_ERROR_ZERO_RETURN) return 0;
    if (problem != SSL_ERROR_WANT_READ) return fail(Code::kUnavailable, "{}: {}", what, why);
    QM_ASSIGN(const auto n, receive_raw(buffer, patience));
    if (n == 0) {
      if (what == "TLS read") return 0;
      return fail(Code::kUnavailable, "{}: the peer closed the connection", what);
    }
    BIO_write(SSL_get_rbio(ssl), buffer.data(), static_cast<int>(n));
  }
}

Status Connection::write(std::string_view bytes, Patience patience) {
  if (!tls_) return send_raw(bytes, patience);
  while (!bytes.empty()) {
    const auto piece = bytes.substr(0, 1 << 20);
    QM_ASSIGN(const auto n, drive([&] { return SSL_write(tls_->ssl, piece.data(), static_cast<int>(piece.size())); },
                                  "TLS write", patience));
    if (n == 0) return fail(Code::kUnavailable, "the peer closed the connection");
    bytes.remove_prefix(n);
  }
  return {};
}

Result<std::size_t> Connection::read(std::span<char> into, Patience patience) {
  if (!tls_) return receive_raw(into, patience);
  return drive([&] { return SSL_read(tls_->ssl, into.data(), static_cast<int>(into.size())); }, "TLS read", patience);
}

bool Connection::fresh() const {
  pollfd entry{fd_, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 0;
}

}  // namespace qm::http
