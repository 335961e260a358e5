#pragma once
#include "qm/base/time.hpp"
#include "qm/http/http.hpp"
#include "world.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <string>

namespace qm::fleet {

/// The instance metadata service, version 2 only: a session token first, then reads.
///
/// Tokens expire in steady time, as all credentials do. A token is valid only for the instance that issued it.
/// Answers   400 token request without a TTL of 1 to 21600; 401 a read without a live token; 404 an
///           unknown path, and spot/instance-action before there is a notice. Bodies are EC2's
///           short XHTML pages.
/// Threads   any; takes the world's lock.
class Imds {
 public:
  using SteadyNow = std::function<SteadyInstant()>;
  explicit Imds(World& world, SteadyNow now = std::chrono::steady_clock::now) : world_(world), now_(std::move(now)) {}
  /// `path` starts at "/latest"; `node` is the instance's private DNS name.
  [[nodiscard]] http::Response handle(const std::string& node, const std::string& path, const http::Request& request);

 private:
  struct Token {
    std::string instance;
    SteadyInstant ends;
    std::int64_t ttl_s;
  };
  [[nodiscard]] http::Response issue(const Instance& instance, const http::Request& request);
  [[nodiscard]] std::optional<std::string> read(const Instance& instance, const std::string& path) const;

  World& world_;
  SteadyNow now_;
  std::map<std::string, Token> tokens_;
};

}  // namespace qm::fleet
