#pragma once
#include "qm/base/json.hpp"
#include "qm/http/http.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace qm::kube {

/// An API server with scripted responses. Lists, watches and other calls have a script each; a script's last step
/// repeats.
class ScriptedApi {
 public:
  using Step = std::function<http::Answer(const http::Request&)>;

  ScriptedApi() : server_({}, [this](const http::Request& request) { return answer(request); }) {
    EXPECT_TRUE(server_.start());
  }
  ~ScriptedApi() { server_.stop(); }

  std::vector<Step> lists, watches, calls;

  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  [[nodiscard]] std::vector<http::Request> seen() const {
    const std::scoped_lock lock(mutex_);
    return seen_;
  }
  /// The resourceVersion of the watch number `n` (from 0); empty before it was received.
  [[nodiscard]] std::string watched_from(std::size_t n) const {
    const std::scoped_lock lock(mutex_);
    return n < watched_.size() ? watched_[n] : "";
  }
  /// Ends the hanging watches.
  void end_watches() {
    const std::scoped_lock lock(mutex_);
    for (auto& stream : hanging_) stream->close();
    hanging_.clear();
  }

  // ---- steps ----
  static Step status(int code, std::string reason, std::string message) {
    return [=](const http::Request&) { return http::json(code, status_object(code, reason, message).dump()); };
  }
  static Step body(Json object) {
    return [=](const http::Request&) { return http::json(200, object.dump()); };
  }
  static Step list(std::vector<Json> items, std::string version, std::string next = {}) {
    auto metadata = Json::object({{"resourceVersion", version}});
    if (!next.empty()) metadata.set("continue", next);
    return body(Json::object({{"kind", "PodList"}, {"metadata", metadata}, {"items", Json(items)}}));
  }
  /// The lines, then a plain end.
  static Step watch(std::string lines) {
    return [=](const http::Request&) {
      return http::Answer(http::json(200, ""), [=](std::shared_ptr<http::Stream> stream) {
        stream->write(lines);
        stream->close();
      });
    };
  }
  /// The lines, then silence until end_watches().
  Step watch_and_hang(std::string lines) {
    return [=, this](const http::Request&) {
      return http::Answer(http::json(200, ""), [=, this](std::shared_ptr<http::Stream> stream) {
        if (!lines.empty()) stream->write(lines);
        const std::scoped_lock lock(mutex_);
        hanging_.push_back(std::move(stream));
      });
    };
  }
  static Json status_object(int code, const std::string& reason, const std::string& message) {
    return Json::object(
        {{"kind", "Status"}, {"status", "Failure"}, {"code", code}, {"reason", reason}, {"message", message}});
  }
  static std::string event(const std::string& type, const Json& object) {
    return Json::object({{"type", type}, {"object", object}}).dump() + "\n";
  }
  static Json pod(const std::string& name, const std::string& version, const std::string& uid = {}) {
    return Json::object({{"kind", "Pod"},
                         {"metadata", Json::object({{"name", name},
                                                    {"namespace", "ns"},
                                                    {"uid", uid.empty() ? "uid-" + name : uid},
                                                    {"resourceVersion", version}})}});
  }
  static Json bookmark(const std::string& version) {
    return Json::object({{"kind", "Pod"}, {"metadata", Json::object({{"resourceVersion", version}})}});
  }

 private:
  http::Answer answer(const http::Request& request) {
    Step step;
    {
      const std::scoped_lock lock(mutex_);
      seen_.push_back(request);
      const auto query = request.query();
      auto* script = &calls;
      auto* at = &call_at_;
      if (query.contains("watch")) {
        const auto from = query.find("resourceVersion");
        watched_.push_back(from == query.end() ? "" : from->second);
        script = &watches;
        at = &watch_at_;
      } else if (request.method == "GET" && request.path().ends_with("pods")) {
        script = &lists;
        at = &list_at_;
      }
      if (script->empty()) return http::text(500, "no script for " + request.target);
      step = (*script)[std::min(*at, script->size() - 1)];
      ++*at;
    }
    return step(request);
  }

  mutable std::mutex mutex_;
  std::vector<http::Request> seen_;
  std::vector<std::string> watched_;
  std::vector<std::shared_ptr<http::Stream>> hanging_;
  std::size_t list_at_ = 0, watch_at_ = 0, call_at_ = 0;
  http::Server server_;
};

}  // namespace qm::kube
