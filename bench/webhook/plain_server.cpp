#include "plain_server.hpp"

#include <fmt/format.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace qm::bench {
namespace {

template <class T, void (*release)(T*)>
struct Freeing {
  void operator()(T* it) const { release(it); }
};
using Context = std::unique_ptr<SSL_CTX, Freeing<SSL_CTX, SSL_CTX_free>>;
using Machine = std::unique_ptr<SSL, Freeing<SSL, SSL_free>>;
using Text = std::unique_ptr<BIO, Freeing<BIO, BIO_free_all>>;

void need(bool well, const char* what) {
  if (well) return;
  std::cerr << "the plain server: " << what << '\n';
  std::exit(1);
}

Text text_of(const std::string& pem) { return Text(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

Context context_of(const http::Identity& identity) {
  Context out(SSL_CTX_new(TLS_server_method()));
  const std::unique_ptr<X509, Freeing<X509, X509_free>> certificate(
      PEM_read_bio_X509(text_of(identity.certificate).get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<EVP_PKEY, Freeing<EVP_PKEY, EVP_PKEY_free>> key(
      PEM_read_bio_PrivateKey(text_of(identity.key).get(), nullptr, nullptr, nullptr));
  need(out && SSL_CTX_use_certificate(out.get(), certificate.get()) == 1 &&
           SSL_CTX_use_PrivateKey(out.get(), key.get()) == 1,
       "its certificate cannot be used");
  return out;
}

/// The start and length of a request's body; nothing while its header is incomplete.
std::optional<std::pair<std::size_t, std::size_t>> body_of(std::string_view got) {
  constexpr std::string_view kLength = "Content-Length: ";
  const auto end = got.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  std::size_t size = 0;
  const auto at = got.substr(0, end).find(kLength);
  if (at != std::string_view::npos) std::from_chars(got.data() + at + kLength.size(), got.data() + end, size);
  return std::pair{end + 4, size};
}

}  // namespace

struct PlainServer::Impl {
  Impl(const http::Identity& identity, Answer answer_) : context(context_of(identity)), answer(std::move(answer_)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    need(::bind(listener, reinterpret_cast<sockaddr*>(&at), size) == 0 && ::listen(listener, 16) == 0 &&
             ::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size) == 0,
         "it cannot listen");
    port = ntohs(at.sin_port);
    accepting = std::thread([this] { accept(); });
  }
  ~Impl() {
    ::shutdown(listener, SHUT_RDWR);
    accepting.join();
    {
      const std::scoped_lock lock(mutex);
      for (const int fd : open) ::shutdown(fd, SHUT_RDWR);
    }
    for (auto& one : serving) one.join();
    ::close(listener);
  }

  void accept() {
    for (int fd = ::accept(listener, nullptr, nullptr); fd >= 0; fd = ::accept(listener, nullptr, nullptr)) {
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const std::scoped_lock lock(mutex);
      open.insert(fd);
      serving.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    const Machine ssl(SSL_new(context.get()));
    SSL_set_fd(ssl.get(), fd);
    std::string got;
    std::array<char, 16384> piece{};
    for (bool well = SSL_accept(ssl.get()) == 1; well;) {
      const auto body = body_of(got);
      if (!body || got.size() < body->first + body->second) {
        const int n = SSL_read(ssl.get(), piece.data(), static_cast<int>(piece.size()));
        well = n > 0;
        if (well) got.append(piece.data(), static_cast<std::size_t>(n));
        continue;
      }
      const auto reported = answer(std::string_view(got).substr(body->first, body->second));
      got.erase(0, body->first + body->second);
      const auto out = fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                                   reported.size(), reported);
      well = SSL_write(ssl.get(), out.data(), static_cast<int>(out.size())) > 0;
    }
    const std::scoped_lock lock(mutex);
    open.erase(fd);
    ::close(fd);
  }

  Context context;
  Answer answer;
  int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  std::uint16_t port = 0;
  std::mutex mutex;  // guards the members below
  std::set<int> open;
  std::vector<std::thread> serving;
  std::thread accepting;
};

PlainServer::PlainServer(const http::Identity& identity, Answer answer)
    : impl_(std::make_unique<Impl>(identity, std::move(answer))) {}

PlainServer::~PlainServer() = default;

std::uint16_t PlainServer::port() const { return impl_->port; }

}  // namespace qm::bench
