#pragma once
#include "qm/http/certificate.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace qm::bench {

/// The simplest HTTPS server for a webhook, as a baseline for a real one: a blocking thread for each connection, one
/// read and one write for each call, and only the part of HTTP that is needed to find the length of a body.
class PlainServer {
 public:
  using Answer = std::function<std::string(std::string_view body)>;  ///< JSON for JSON; called by several threads
  PlainServer(const http::Identity& identity, Answer answer);
  ~PlainServer();
  [[nodiscard]] std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace qm::bench
