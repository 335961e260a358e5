#pragma once
#include "qm/http/certificate.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace qm::bench {

/// The plainest HTTPS server that a webhook can have, to hold a real one against: a thread that blocks for each
/// connection, one read and one write for each call, and of HTTP only what is needed to find a body's length.
class PlainServer {
 public:
  using Answer = std::function<std::string(std::string_view body)>;  ///< JSON for JSON; of several threads
  PlainServer(const http::Identity& identity, Answer answer);
  ~PlainServer();
  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::bench
