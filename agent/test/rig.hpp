#pragma once
#include "qm/base/json.hpp"
#include "qm/http/http.hpp"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"
#include "sources.hpp"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qm::agent::testing {

namespace pb = quartermaster::v1;

/// The telemetry service as an agent sees it: records messages, confirms the facts that the test selects, can be
/// unavailable.
class FakeTelemetry final : public pb::Telemetry::Service {
 public:
  explicit FakeTelemetry(int port = 0) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeTelemetry() override { server_->Shutdown(std::chrono::system_clock::now()); }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  grpc::Status Push(grpc::ServerContext*, grpc::ServerReaderWriter<pb::AgentOrder, pb::AgentMessage>* call) override {
    {
      const std::lock_guard lock(mutex_);
      call_ = call;
      ++streams_;
    }
    pb::AgentMessage message;
    while (call->Read(&message)) {
      const std::lock_guard lock(mutex_);
      if (message.has_hello()) hellos_.push_back(message.hello());
      if (message.has_frame()) frames_.push_back(message.frame());
      if (message.has_fact()) {
        facts_.push_back(message.fact());
        if (confirm_) confirm(*call, message.fact().id());
      }
    }
    const std::lock_guard lock(mutex_);
    call_ = nullptr;
    return grpc::Status::OK;
  }

  void confirm_facts(bool yes) {
    const std::lock_guard lock(mutex_);
    confirm_ = yes;
  }
  /// False while no agent is connected.
  bool order(const pb::CheckpointOrder& checkpoint) {
    const std::lock_guard lock(mutex_);
    pb::AgentOrder order;
    *order.mutable_checkpoint() = checkpoint;
    return call_ != nullptr && call_->Write(order);
  }
  std::vector<pb::AgentHello> hellos() const { return copy(hellos_); }
  std::vector<pb::SampleFrame> frames() const { return copy(frames_); }
  std::vector<pb::AgentFact> facts() const { return copy(facts_); }
  std::vector<pb::CheckpointAck> acks() const {
    std::vector<pb::CheckpointAck> out;
    for (const auto& fact : facts()) {
      if (fact.has_ack()) out.push_back(fact.ack());
    }
    return out;
  }
  [[nodiscard]] int streams() const {
    const std::lock_guard lock(mutex_);
    return streams_;
  }

 private:
  template <class T>
  T copy(const T& list) const {
    const std::lock_guard lock(mutex_);
    return list;
  }
  static void confirm(grpc::ServerReaderWriter<pb::AgentOrder, pb::AgentMessage>& call, const std::string& id) {
    pb::AgentOrder order;
    order.set_fact_committed(id);
    call.Write(order);
  }

  mutable std::mutex mutex_;
  int port_ = 0, streams_ = 0;
  bool confirm_ = true;
  grpc::ServerReaderWriter<pb::AgentOrder, pb::AgentMessage>* call_ = nullptr;
  std::vector<pb::AgentHello> hellos_;
  std::vector<pb::SampleFrame> frames_;
  std::vector<pb::AgentFact> facts_;
  std::unique_ptr<grpc::Server> server_;
};

/// Pods and nodes to list and watch; just enough of the API for an informer.
class FakeKube {
 public:
  FakeKube() : server_({.threads = 2}, [this](const http::Request& r) { return answer(r); }) {
    started_ = server_.start().has_value();
  }
  ~FakeKube() { server_.stop(); }
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  void put(const std::string& plural, Json object) { change(plural, "ADDED", std::move(object)); }
  void remove(const std::string& plural, Json object) { change(plural, "DELETED", std::move(object)); }
  /// Field selectors of all lists and watches of the kind: "list spec.nodeName=a".
  [[nodiscard]] std::set<std::string> selectors(const std::string& plural) {
    const std::lock_guard lock(mutex_);
    return selectors_[plural];
  }

 private:
  using Watcher = std::pair<std::string, std::shared_ptr<http::Stream>>;
  struct Event {
    std::string plural;
    int version;
    std::string line;
  };
  void change(const std::string& plural, const std::string& type, Json object) {
    const std::lock_guard lock(mutex_);
    object.set("metadata").set("resourceVersion", std::to_string(++version_));
    const std::string name = object.path("metadata.name").string();
    if (type == "ADDED") {
      objects_[plural].insert_or_assign(name, object);
    } else {
      objects_[plural].erase(name);
    }
    const std::string line = Json::object({{"type", type}, {"object", std::move(object)}}).dump() + "\n";
    events_.push_back({plural, version_, line});
    for (auto& [kind, stream] : watchers_) {
      if (kind == plural) stream->write(line);
    }
  }
  http::Answer answer(const http::Request& request) {
    const std::string path = request.path(), plural = path.substr(path.rfind('/') + 1);
    http::Response head = http::json(200, "");
    {
      const std::lock_guard lock(mutex_);
      selectors_[plural].insert((request.query().contains("watch") ? "watch " : "list ") +
                                request.query()["fieldSelector"]);
    }
    if (request.query().contains("watch")) {
      const int from = std::atoi(request.query()["resourceVersion"].c_str());
      return {head, [this, plural, from](std::shared_ptr<http::Stream> stream) {
                const std::lock_guard lock(mutex_);
                for (const auto& event : events_) {
                  if (event.plural == plural && event.version > from) stream->write(event.line);
                }
                watchers_.emplace_back(plural, std::move(stream));
              }};
    }
    const std::lock_guard lock(mutex_);
    Json items = Json::array();
    for (const auto& [name, object] : objects_[plural]) items.push_back(object);
    head.body = Json::object({{"kind", "List"},
                              {"metadata", Json::object({{"resourceVersion", std::to_string(version_)}})},
                              {"items", std::move(items)}})
                    .dump();
    return head;
  }

  std::mutex mutex_;
  int version_ = 1;
  std::map<std::string, std::map<std::string, Json>> objects_;
  std::map<std::string, std::set<std::string>> selectors_;
  std::vector<Event> events_;  ///< for watches that begin at an older version
  std::vector<Watcher> watchers_;
  http::Server server_;
  bool started_ = false;
};

/// The checkpoint endpoints of ranks behind a gateway: POST /<pod>; answers are set by pod.
class FakeRanks {
 public:
  FakeRanks() : server_({.threads = 2}, [this](const http::Request& r) { return answer(r); }) {
    started_ = server_.start().has_value();
  }
  ~FakeRanks() { server_.stop(); }
  [[nodiscard]] bool started() const { return started_; }
  [[nodiscard]] std::string url_template() const {
    return "http://127.0.0.1:" + std::to_string(server_.port()) + "/{pod}";
  }
  /// The checkpoint annotation of its ranks.
  static constexpr const char* kUrl = "http://{podIP}:8480/save";
  /// Sets successive answers; the last one remains.
  void say(const std::string& pod, std::deque<http::Response> answers) {
    const std::lock_guard lock(mutex_);
    answers_[pod] = std::move(answers);
  }
  void saved(const std::string& pod, int step) {
    say(pod, {http::json(200, Json::object({{"step", step}, {"uri", "s3://" + pod}}).dump())});
  }
  /// The connection is accepted and never answered.
  void silent(const std::string& pod) {
    const std::lock_guard lock(mutex_);
    silent_.insert(pod);
  }
  std::vector<std::pair<std::string, std::string>> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  http::Answer answer(const http::Request& request) {
    const std::lock_guard lock(mutex_);
    const std::string pod = request.path().substr(1, request.path().find('/', 1) - 1);
    asked_.emplace_back(pod, request.body);
    if (silent_.contains(pod)) {
      return {http::json(200, ""), [this](std::shared_ptr<http::Stream> stream) {
                const std::lock_guard hold(mutex_);
                held_.push_back(std::move(stream));
              }};
    }
    auto& answers = answers_[pod];
    if (answers.empty()) return http::text(404, "no such pod");
    http::Response next = answers.front();
    if (answers.size() > 1) answers.pop_front();
    return next;
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::deque<http::Response>> answers_;
  std::set<std::string> silent_;
  std::vector<std::shared_ptr<http::Stream>> held_;
  std::vector<std::pair<std::string, std::string>> asked_;
  http::Server server_;
  bool started_ = false;
};

/// Pages that the test sets by node; a node without one does not answer.
class FakePages final : public PageSource {
 public:
  Result<std::string> page(const std::string& node) override {
    const std::lock_guard lock(mutex_);
    ++looks_[node];
    const auto at = pages_.find(node);
    if (at == pages_.end()) return fail(Code::kUnavailable, "no exporter on {}", node);
    return at->second;
  }
  void set(const std::string& node, std::string text) {
    const std::lock_guard lock(mutex_);
    pages_[node] = std::move(text);
  }
  void down(const std::string& node) {
    const std::lock_guard lock(mutex_);
    pages_.erase(node);
  }
  [[nodiscard]] int looks(const std::string& node) const {
    const std::lock_guard lock(mutex_);
    const auto at = looks_.find(node);
    return at == looks_.end() ? 0 : at->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> pages_;
  std::map<std::string, int> looks_;
};

/// Metadata by "node/path"; a node that is unavailable fails.
class FakeMetadata final : public MetadataSource {
 public:
  Result<std::optional<std::string>> get(const std::string& node, const std::string& path) override {
    const std::lock_guard lock(mutex_);
    ++looks_[node + "/" + path];
    if (away_) return fail(Code::kUnavailable, "metadata of {} is away", node);
    const auto at = values_.find(node + "/" + path);
    if (at == values_.end()) return std::optional<std::string>{};
    return std::optional(at->second);
  }
  void forget(const std::string&) override {}
  void set(const std::string& key, const std::string& value) {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  void clear(const std::string& key) {
    const std::lock_guard lock(mutex_);
    values_.erase(key);
  }
  void away(bool yes) {
    const std::lock_guard lock(mutex_);
    away_ = yes;
  }
  [[nodiscard]] int looks(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto at = looks_.find(key);
    return at == looks_.end() ? 0 : at->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, int> looks_;
  bool away_ = false;
};

/// One family line of a page, as the exporter writes it.
inline std::string line(const std::string& family, int gpu, const std::string& value, const std::string& pod = {}) {
  std::string out = family + "{gpu=\"" + std::to_string(gpu) + "\",UUID=\"GPU-" + std::to_string(gpu) +
                    "\",device=\"nvidia" + std::to_string(gpu) + "\"";
  if (!pod.empty()) out += ",container=\"main\",namespace=\"team\",pod=\"" + pod + "\"";
  return out + "} " + value + "\n";
}
/// A page of two GPUs, the first held by `pod`.
inline std::string page_of(const std::string& pod, int util = 50, int xid = 0) {
  return line("DCGM_FI_DEV_GPU_UTIL", 0, std::to_string(util), pod) + line("DCGM_FI_DEV_GPU_UTIL", 1, "0") +
         line("DCGM_FI_DEV_XID_ERRORS", 0, std::to_string(xid), pod) + line("DCGM_FI_DEV_XID_ERRORS", 1, "0");
}

/// A pod of a Job, as the API returns it.
inline Json pod_of(const std::string& name, const std::string& node, const std::string& job_uid, int attempt,
                   const std::string& checkpoint = {}, const std::string& phase = "Running",
                   const std::string& ns = "team") {
  Json annotations = Json::object({{"quartermaster.dev/attempt", std::to_string(attempt)}});
  if (!checkpoint.empty()) annotations.set("quartermaster.dev/checkpoint", checkpoint);
  return Json::object(
      {{"metadata",
        Json::object({{"name", name},
                      {"namespace", ns},
                      {"uid", "uid-" + name},
                      {"annotations", std::move(annotations)},
                      {"ownerReferences",
                       Json::array({Json::object({{"kind", "Job"}, {"uid", job_uid}, {"controller", true}})})}})},
       {"spec",
        Json::object({{"nodeName", node},
                      {"schedulerName", "quartermaster"},
                      {"containers",
                       Json::array({Json::object(
                           {{"name", "main"},
                            {"image", "trainer:1"},
                            {"resources", Json::object({{"limits", Json::object({{"nvidia.com/gpu", "1"}})}})}})})}})},
       {"status", Json::object({{"phase", phase}, {"podIP", "10.0.0.1"}})}});
}

}  // namespace qm::agent::testing
