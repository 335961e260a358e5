#include "qm/admission/cluster.hpp"

namespace qm::admission {

Result<ClusterSettings> ClusterSettings::parse(const std::map<std::string, std::string>& extra) {
  ClusterSettings out;
  const auto read = [&](const char* name, std::string& into) {
    const auto it = extra.find(name);
    if (it != extra.end() && !it->second.empty()) into = it->second;
  };
  read("quota", out.quota);
  read("binding", out.binding);
  std::string placement = "own";
  read("placement", placement);
  if (placement != "own" && placement != "none") {
    return fail({Code::kInvalid, fmt::format("setting placement={} is not understood", placement), "placement",
                 "use own, or none where another scheduler binds everything"});
  }
  out.placement = placement == "own";
  return out;
}

Cluster::Cluster(kube::Client& client, service::Host& host, const DomainClock& clock, ClusterSettings settings)
    : quota_(client, {"quota", settings.quota, kube::rivals_of("quota")}),
      binding_(client, {"binding", settings.binding, kube::rivals_of("binding")}),
      jobs_(client, host, {&quota_, &binding_, settings.placement}),
      pods_(client, host, {&quota_, &binding_, settings.placement}),
      config_(client, host),
      status_(client, host, config_, clock, &quota_) {
  for (auto* owner : {&quota_, &binding_}) {
    owner->listen([this] {
      jobs_.owners_changed();
      pods_.owners_changed();
    });
  }
}

Cluster::~Cluster() { stop(); }

void Cluster::start() {
  quota_.start();
  binding_.start();
  config_.start();
  jobs_.start();
  pods_.start();
  status_.start();
}

void Cluster::stop() {
  status_.stop();
  jobs_.stop();
  pods_.stop();
  config_.stop();
  quota_.stop();
  binding_.stop();
}

bool Cluster::synced() const {
  return quota_.known() && binding_.known() && config_.synced() && jobs_.synced() && pods_.synced();
}

Json Cluster::debug_state() const { return Json::object({{"leftToOthers", quota_.left_alone()}}); }

}  // namespace qm::admission
