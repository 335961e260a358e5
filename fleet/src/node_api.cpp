#include "node_api.hpp"

#include "dcgm_page.hpp"

namespace qm::fleet {
namespace {

http::Answer done(const Json& body) { return http::json(200, body.dump()); }

http::Answer refused(const Error& error) {
  const int status = error.code == Code::kInvalid ? 400 : error.code == Code::kNotFound ? 404 : 409;
  return http::json(status,
                    Json::object({{"error", error.message}, {"field", error.field}, {"remedy", error.remedy}}).dump());
}

/// A route that reads a JSON object or an empty body, and answers with an object.
http::Router::Route posted(std::function<Result<Json>(const Json& body)> act) {
  return [act = std::move(act)](const http::Request& request, const http::Router::Params&) {
    const auto body = Json::parse(request.body.empty() ? "{}" : request.body);
    if (!body) return refused(body.error());
    if (!body->is_object()) return refused({Code::kInvalid, "the body is not a JSON object", "", ""});
    const auto result = act(*body);
    return result ? done(*result) : refused(result.error());
  };
}

}  // namespace

NodeApi::NodeApi(World& world, ObjectStore& store, Cluster& cluster, Faults& faults)
    : world_(world), store_(store), cluster_(cluster), imds_(world) {
  using Request = http::Request;
  using Params = http::Router::Params;
  const auto factor = [this] { return Json::object({{"factor", world_.factor()}}); };
  router_.add("GET", "/healthz", [](const Request&, const Params&) -> http::Answer { return http::text(200, "ok"); });
  router_.add("GET", "/node/{name}/metrics",
              [this](const Request&, const Params& params) { return metrics(params.at("name")); });
  for (const char* method : {"GET", "PUT"}) {
    router_.add(method, "/node/{name}/latest/{rest...}",
                [this](const Request& request, const Params& params) -> http::Answer {
                  return imds_.handle(params.at("name"), "/latest/" + params.at("rest"), request);
                });
  }
  router_.add("POST", "/pods/{ns}/{pod}/v1/checkpoint", [this](const Request& request, const Params& params) {
    return checkpoint(params.at("ns"), params.at("pod"), request.body);
  });
  router_.add("GET", "/fleet/state", [this](const Request&, const Params&) { return done(state()); });
  router_.add("POST", "/fleet/faults", posted([&faults](const Json& fault) { return faults.inject(fault); }));
  router_.add("POST", "/fleet/clock", posted([this, factor](const Json& body) -> Result<Json> {
                const double wanted = body["factor"].number(-1);
                if (wanted < 0 || wanted > 1e6) {
                  return fail({Code::kInvalid, "the clock needs a factor from 0 to 1000000", "factor",
                               "0 stops time, 1 is real time"});
                }
                world_.set_factor(wanted);
                return factor();
              }));
  router_.add("POST", "/fleet/hold", posted([this, factor](const Json& body) -> Result<Json> {
                const std::string& name = body["name"].string();
                if (name.empty()) {
                  return fail({Code::kInvalid, "a hold needs a name", "name", "the same name releases it"});
                }
                world_.hold("posted:" + name);
                return factor();
              }));
  router_.add("DELETE", "/fleet/hold/{name}", [this, factor](const Request&, const Params& params) {
    world_.release("posted:" + params.at("name"));
    return done(factor());
  });
}

http::Answer NodeApi::metrics(const std::string& name) const {
  const auto held = world_.lock();
  NodeState* node = cluster_.node(name);
  if (node == nullptr) return http::text(404, "there is no node " + name + "\n");
  if (!node->up || world_.now() < node->metrics_down_until) return http::text(503, "the exporter does not answer\n");
  http::Response response = http::text(200, dcgm_page(*node, cluster_, world_.now()));
  response.headers.set("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  return response;
}

http::Answer NodeApi::checkpoint(const std::string& ns, const std::string& pod, const std::string& order) const {
  const auto body = Json::parse(order.empty() ? "{}" : order);
  if (!body) return refused(body.error());
  const auto held = world_.lock();
  const auto saved = cluster_.checkpoint(ns, pod, *body);
  if (!saved) return http::json(saved.error().code, Json::object({{"error", saved.error().message}}).dump());
  return done(*saved);
}

Json NodeApi::state() const {
  const auto held = world_.lock();
  Json instances = Json::array();
  for (const auto& instance : world_.instances()) {
    Json entry = Json::object({{"id", instance.id},
                               {"type", instance.type},
                               {"zone", instance.zone},
                               {"market", name_of(instance.market)},
                               {"state", name_of(instance.state)},
                               {"node", instance.private_dns},
                               {"initial", instance.initial},
                               {"launched", to_rfc3339(instance.launched)}});
    if (instance.stopped) entry.set("stopped", to_rfc3339(*instance.stopped));
    if (instance.spot_deadline && instance.alive()) entry.set("spot_deadline", to_rfc3339(*instance.spot_deadline));
    instances.push_back(std::move(entry));
  }
  Json phases = Json::object();
  store_.each(kind_of("pods"), [&](const ObjectPtr& pod) {
    const std::string& phase = (*pod)["status"]["phase"].string();
    phases.set(phase, phases[phase].integer() + 1);
  });
  Json holds = Json::array();
  for (const auto& name : world_.holds()) holds.push_back(name);
  return Json::object({{"time", to_rfc3339(world_.now())},
                       {"factor", world_.factor()},
                       {"configured_factor", world_.configured_factor()},
                       {"holds", std::move(holds)},
                       {"cluster", cluster_.summary()},
                       {"pods", std::move(phases)},
                       {"resource_version", store_.resource_version()},
                       {"watches", static_cast<std::int64_t>(store_.watchers())},
                       {"history_lines", static_cast<std::int64_t>(world_.history().count())},
                       {"instances", std::move(instances)}});
}

}  // namespace qm::fleet
