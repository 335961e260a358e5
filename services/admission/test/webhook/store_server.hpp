#pragma once
#include "qm/base/json.hpp"
#include "qm/http/http.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace qm::admission::webhook {

/// Stores any kind of object by its path, with resource versions that a write must name: the part of the API that a
/// keeper needs.
class StoreServer {
 public:
  StoreServer() : server_(options(), [this](const http::Request& r) { return http::Answer(answer(r)); }) {
    EXPECT_TRUE(server_.start());
  }
  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  [[nodiscard]] Json object(const std::string& path) const {
    const std::scoped_lock lock(mutex_);
    const auto found = objects_.find(path);
    return found == objects_.end() ? Json() : found->second;
  }
  void put(const std::string& path, Json value) {
    const std::scoped_lock lock(mutex_);
    store(path, std::move(value));
  }
  void away(bool yes) {
    const std::scoped_lock lock(mutex_);
    away_ = yes;
  }
  [[nodiscard]] int writes() const {
    const std::scoped_lock lock(mutex_);
    return writes_;
  }

 private:
  static http::ServerOptions options() {
    http::ServerOptions out;
    out.threads = 4;
    return out;
  }
  static http::Response refused(int code, const char* reason) {
    return http::json(
        code, Json::object({{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", reason}}).dump());
  }
  Json& store(const std::string& path, Json value) {
    value.set("metadata").set("resourceVersion", std::to_string(++version_));
    ++writes_;
    return objects_[path] = std::move(value);
  }
  http::Response answer(const http::Request& request) {
    const std::scoped_lock lock(mutex_);
    if (away_) return refused(503, "ServiceUnavailable");
    const auto body = Json::parse(request.body);
    auto path = request.path();
    if (request.method == "POST") {
      path += "/" + (*body)["metadata"]["name"].string();
      if (objects_.contains(path)) return refused(409, "AlreadyExists");
      return http::json(201, store(path, *body).dump());
    }
    const auto found = objects_.find(path);
    if (found == objects_.end()) return refused(404, "NotFound");
    if (request.method == "PUT") {
      if ((*body)["metadata"]["resourceVersion"] != found->second["metadata"]["resourceVersion"]) {
        return refused(409, "Conflict");
      }
      return http::json(200, store(path, *body).dump());
    }
    return http::json(200, found->second.dump());
  }

  mutable std::mutex mutex_;
  std::map<std::string, Json> objects_;
  std::uint64_t version_ = 0;
  int writes_ = 0;
  bool away_ = false;
  http::Server server_;
};

}  // namespace qm::admission::webhook
