#include "outside.hpp"

#include <mutex>
#include <random>
#include <thread>

namespace qm::cloud {
namespace {

/// Keeps one HTTP client for each origin and time limit; there are few of both.
class Clients {
 public:
  explicit Clients(std::string ca_file) : ca_file_(std::move(ca_file)) {}

  Result<http::Response> send(const std::string& origin, const http::Request& request,
                              std::chrono::milliseconds timeout) {
    return client(origin, timeout)->send(request);
  }

 private:
  std::shared_ptr<http::Client> client(const std::string& origin, std::chrono::milliseconds timeout) {
    const std::lock_guard lock(mutex_);
    auto& slot = clients_[{origin, timeout.count()}];
    if (!slot) {
      http::ClientOptions options;
      options.timeout = timeout;
      options.connect_timeout = std::min(options.connect_timeout, timeout);
      if (origin.starts_with("https:")) options.ca_file = ca_file_;
      slot = std::make_shared<http::Client>(origin, options);
    }
    return slot;
  }

  std::string ca_file_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::int64_t>, std::shared_ptr<http::Client>> clients_;
};

double draw() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

}  // namespace

Outside with_defaults(Outside outside, std::string ca_file) {
  if (!outside.send) {
    outside.send = [clients = std::make_shared<Clients>(std::move(ca_file))](
                       const std::string& origin, const http::Request& request, std::chrono::milliseconds timeout) {
      return clients->send(origin, request, timeout);
    };
  }
  if (!outside.now) outside.now = [] { return std::chrono::steady_clock::now(); };
  if (!outside.sleep) outside.sleep = [](SteadyDuration d) { std::this_thread::sleep_for(d); };
  if (!outside.jitter) outside.jitter = draw;
  if (!outside.utc_seconds) {
    outside.utc_seconds = [] {
      const auto wall = std::chrono::system_clock::now().time_since_epoch();
      return std::chrono::duration_cast<std::chrono::seconds>(wall).count();
    };
  }
  return outside;
}

}  // namespace qm::cloud
