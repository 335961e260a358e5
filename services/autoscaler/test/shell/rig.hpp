#pragma once
// A scripted Kubernetes API and a scripted AWS, around an executor.
#include "qm/autoscaler/shell.hpp"
#include "qm/http/http.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>

namespace qm::autoscaler::testing {

/// The part of a Kubernetes API that the executor uses: NodeClaims, created, patched and deleted by name; nodes that
/// are read and patched; a list of pods; pods whose status is patched.
class NodeClaims {
 public:
  NodeClaims()
      : server_({}, [this](const http::Request& r) {
          const std::scoped_lock lock(mutex_);  // several calls may be in flight
          auto out = answer(r);
          return std::exchange(lose_next, false) ? http::json(503, "{}") : std::move(out);
        }) {
    EXPECT_TRUE(server_.start());
  }
  ~NodeClaims() { server_.stop(); }
  [[nodiscard]] std::string origin() const { return "http://127.0.0.1:" + std::to_string(server_.port()); }
  std::map<std::string, Json> objects;
  std::map<std::string, Json> nodes;
  Json pods = Json::array();
  std::vector<std::string> asked_pods;
  std::map<std::string, Json> statuses;      ///< pods whose status is patched, by name
  std::vector<std::string> status_requests;  ///< the names in such patches, also in those that are refused
  bool lose_next = false;                    ///< the next call is executed, and its response is lost
  std::vector<std::string> evicted;          ///< "namespace/name"
  int status = 0;                            ///< if set, the status of every response
  std::string reason = "Unavailable", message = "Unavailable";  ///< of that response

 private:
  http::Answer answer(const http::Request& r) {
    const auto mark_changed = [](int code, const std::string& why, const std::string& text) {
      return http::json(code,
                        Json::object({{"kind", "Status"}, {"code", code}, {"reason", why}, {"message", text}}).dump());
    };
    const auto refuse = [&](int code, const char* why) { return mark_changed(code, why, why); };
    const std::string path = r.path();
    if (path.starts_with("/api/v1/namespaces/") && path.ends_with("/status"))
      return patch_status(path.substr(0, path.size() - 7), *Json::parse(r.body));
    if (status != 0) return mark_changed(status, reason, message);
    if (path == "/api/v1/pods") {
      asked_pods.push_back(r.query()["fieldSelector"]);
      return http::json(200, Json::object({{"metadata", Json::object()}, {"items", pods}}).dump());
    }
    if (path.ends_with("/eviction")) {  // /api/v1/namespaces/NS/pods/NAME/eviction
      const Json wanted = *Json::parse(r.body);
      evicted.push_back(wanted.path("metadata.namespace").string() + "/" + wanted.path("metadata.name").string());
      return http::json(201, "{}");
    }
    if (path.starts_with("/api/v1/nodes/")) {
      const auto node = nodes.find(path.substr(14));
      if (node == nodes.end()) return refuse(404, "NotFound");
      if (r.method == "PATCH") node->second.merge_patch(*Json::parse(r.body));
      return http::json(200, node->second.dump());
    }
    const std::string base = "/apis/karpenter.sh/v1/nodeclaims";
    if (r.method == "POST" && path == base) {
      const Json object = *Json::parse(r.body);
      const std::string name = kube::name_of(object);
      if (objects.contains(name)) return refuse(409, "AlreadyExists");
      objects[name] = object;
      return http::json(201, object.dump());
    }
    std::string name = path.substr(std::min(path.size(), base.size() + 1));
    if (const auto slash = name.find('/'); slash != std::string::npos) name.resize(slash);
    const auto it = objects.find(name);
    if (it == objects.end()) return refuse(404, "NotFound");
    if (r.method == "DELETE") {
      objects.erase(it);
      return http::json(200, "{}");
    }
    const Json patch = *Json::parse(r.body);
    it->second.set("status", patch["status"]);
    return http::json(200, it->second.dump());
  }
  /// PATCH /api/v1/namespaces/NS/pods/NAME/status, with the preconditions of the API server.
  http::Answer patch_status(const std::string& pod, const Json& patch) {
    const std::string name = pod.substr(pod.rfind('/') + 1);
    status_requests.push_back(name);
    const auto it = statuses.find(name);
    const auto refuse = [&](int code, const std::string& why) {
      return http::json(code,
                        Json::object({{"kind", "Status"}, {"code", code}, {"reason", why}, {"message", why}}).dump());
    };
    if (status != 0) return refuse(status, reason);
    if (it == statuses.end()) return refuse(404, "NotFound");
    for (const char* field : {"uid", "resourceVersion"}) {
      const Json& wanted = patch["metadata"][field];
      if (!wanted.is_null() && wanted != it->second["metadata"][field]) return refuse(409, "Conflict");
    }
    it->second.merge_patch(Json::object({{"status", patch["status"]}}));
    const auto version = std::stoi(it->second["metadata"]["resourceVersion"].string()) + 1;
    it->second.set("metadata").set("resourceVersion", std::to_string(version));
    return http::json(200, it->second.dump());
  }
  std::mutex mutex_;
  http::Server server_;
};

/// A scripted EC2 that records its requests.
struct Ec2 {
  std::mutex mutex;
  std::vector<std::string> bodies;
  std::map<std::string, std::string> answers;  ///< action -> XML
  std::map<std::string, std::string> errors;   ///< action -> error code
  bool lose_next = false;

  cloud::Aws aws() {
    cloud::AwsOptions o;
    o.endpoint = "http://cloud:1";
    o.access_key = "key";
    o.secret_key = "secret";
    o.max_attempts = 1;
    o.outside.send = [this](const std::string&, const http::Request& r,
                            std::chrono::milliseconds) -> Result<http::Response> {
      const std::scoped_lock lock(mutex);
      bodies.push_back(r.body);
      const std::string action = r.body.substr(7, r.body.find('&') - 7);
      if (std::exchange(lose_next, false)) return fail(Code::kUnknown, "the connection broke");
      if (const auto e = errors.find(action); e != errors.end()) {
        return http::Response{
            e->second == "Unavailable" ? 503 : 400,
            {},
            "<R><Errors><Error><Code>" + e->second + "</Code><Message>m</Message></Error></Errors></R>"};
      }
      return http::Response{200, {}, answers[action]};
    };
    o.outside.sleep = [](SteadyDuration) {};
    return cloud::Aws(o);
  }
  [[nodiscard]] int count(const std::string& action) {
    const std::scoped_lock lock(mutex);
    return static_cast<int>(std::count_if(bodies.begin(), bodies.end(),
                                          [&](const auto& b) { return b.starts_with("Action=" + action + "&"); }));
  }
  void set(const std::string& action, std::string xml) {
    const std::scoped_lock lock(mutex);
    answers[action] = std::move(xml);
  }
};

inline std::string instance_xml(const std::string& id, const std::string& tags, const std::string& state = "running",
                                const std::string& reason = "") {
  return "<item><instanceId>" + id +
         "</instanceId><instanceType>p5.48xlarge</instanceType><placement><availabilityZone>z1</availabilityZone></placement>"
         "<instanceState><name>" +
         state + "</name></instanceState><reason>" + reason + "</reason><privateDnsName>n-" + id +
         "</privateDnsName><launchTime>2026-11-21T09:14:29.000Z</launchTime><tagSet>" + tags + "</tagSet></item>";
}
inline std::string tag_xml(const std::string& key, const std::string& value) {
  return "<item><key>" + key + "</key><value>" + value + "</value></item>";
}
inline std::string described(const std::string& instances) {
  return "<R><reservationSet><item><instancesSet>" + instances + "</instancesSet></item></reservationSet></R>";
}

/// The parameters of a class with an image and nothing else, which needs no account.
inline Result<cloud::InstanceRequest> plain_parameters(const std::string& node_class, const PlannedInstance& planned) {
  if (node_class == "missing") return fail(Code::kInvalid, "EC2NodeClass missing does not exist; create it");
  cloud::InstanceRequest out;
  out.image_id = "ami-1";
  out.instance_type = planned.instance_type;
  out.zone = planned.zone;
  out.spot = planned.spot;
  out.tags = {{"karpenter.sh/nodeclaim", planned.claim}, {"karpenter.sh/nodepool", planned.pool}};
  return out;
}

struct Rig {
  NodeClaims kube;
  Ec2 ec2;
  kube::Client client{{kube.origin(), {}, {}, {}, {}}};
  cloud::Aws aws = ec2.aws();
  Executor executor{client, aws, Driver::kEc2, "east", plain_parameters};
  store::IntentRow launch{
      "launch/p-1", "instance.launch", "p-1", 0,
      R"({"claim":"p-1","pool":"p","type":"p5.48xlarge","zone":"z1","spot":true,"labels":{"a":"b"},"taints":[],"reason":"why"})"};
  store::IntentRow gang{
      "launch/p-1x2", "gang.launch", "p-1x2", 0,
      R"({"launch":"p-1x2","claims":["p-1","p-2"],"claim":"p-1","pool":"p","type":"p5.48xlarge","zone":"z1","spot":false,"labels":{},"taints":[],"reason":"why"})"};
  store::IntentRow choice{
      "launch/p-1x2", "gang.launch", "p-1x2", 0,
      R"({"launch":"p-1x2","claims":["p-1","p-2"],"claim":"p-1","pool":"p","type":"p5.48xlarge","zone":"z1","spot":false,"labels":{},"taints":[],"reason":"why","others":[{"type":"p5.48xlarge","zone":"z2"},{"type":"p4d.24xlarge","zone":"z1"}]})"};
  store::IntentRow terminate{"terminate/p-1/5", "instance.terminate", "p-1", 0, R"({"claim":"p-1","instance":"i-1"})"};

  Rig() {
    ec2.set("RunInstances", "<R><instancesSet>" + instance_xml("i-1", "") + "</instancesSet></R>");
    ec2.set("TerminateInstances", "<R/>");
  }
  /// CreateFleet launches these instances, of which those in `states` are in another state than running.
  void fleet(const std::vector<std::string>& ids, const std::map<std::string, std::string>& states = {},
             const std::string& errors = "") {
    std::string items, instances;
    for (const auto& id : ids) {
      items += "<item>" + id + "</item>";
      instances += instance_xml(id, "", states.contains(id) ? states.at(id) : "running");
    }
    if (!ids.empty()) items = "<item><instanceIds>" + items + "</instanceIds></item>";
    ec2.set("CreateFleet",
            "<R><errorSet>" + errors + "</errorSet><fleetInstanceSet>" + items + "</fleetInstanceSet></R>");
    ec2.set("DescribeInstances", described(instances));
    ec2.set("CreateLaunchTemplate", "<R/>");
    ec2.set("DescribeLaunchTemplates", "<R/>");
    ec2.set("DeleteLaunchTemplate", "<R/>");
    ec2.set("CreateTags", "<R/>");
  }
  Json run(const store::IntentRow& intent) {
    const auto done = executor.execute(intent);
    EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
    return done ? *Json::parse(done->bytes) : Json();
  }
};

}  // namespace qm::autoscaler::testing
