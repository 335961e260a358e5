#include "qm/telemetry/shell.hpp"

namespace qm::telemetry {

service::HostOptions host_options(const std::string& shard) {
  service::HostOptions o;
  o.service = "telemetry";
  o.shard = shard;
  o.consumes = {"qm.capacity", "qm.node"};
  o.produces = {"qm.gpu", "qm.spot"};
  return o;
}

void export_metrics(metrics::Registry& registry, service::Host& host, const Samples& samples, const AgentHub& hub,
                    const RedisMirror& redis) {
  registry.on_scrape([&] {
    const auto c = samples.counters();
    const auto set = [&](const char* name, const char* help, double v) { registry.gauge(name, help).set(v); };
    set("qm_telemetry_frames", "Sample frames taken", static_cast<double>(c.frames));
    set("qm_telemetry_samples", "GPU samples taken", static_cast<double>(c.samples));
    set("qm_telemetry_frame_gaps", "Jumps in a node's frame sequence: samples that were lost", static_cast<double>(c.gaps));
    set("qm_telemetry_late_samples", "Samples older than one already taken, dropped", static_cast<double>(c.late));
    set("qm_telemetry_agents", "Connected agent streams", static_cast<double>(hub.agents()));
    set("qm_telemetry_redis_up", "1 where Redis answers", redis.connected() ? 1 : 0);
    // One series a GPU under the names that dashboards know.
    for (const auto& r : samples.readings()) {
      const auto& s = r.sample();
      const metrics::Labels labels = {{"gpu", std::to_string(s.gpu_index())}, {"UUID", s.gpu_uuid()}, {"Hostname", r.node()},
                                      {"modelName", s.model()}, {"namespace", s.namespace_()}, {"pod", s.pod()}};
      registry.gauge("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)", labels).set(100 * s.utilization());
      registry.gauge("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)", labels).set(static_cast<double>(s.fb_used_bytes()) / (1 << 20));
      registry.gauge("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)", labels).set(s.temperature_c());
      registry.gauge("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W)", labels).set(s.power_watts());
    }
    host.read([&](const service::Shell& shell) {
      const auto& t = engine_of(shell).tables();
      set("qm_telemetry_unhealthy_nodes", "Nodes with a verdict", static_cast<double>(t.health.size()));
      set("qm_telemetry_open_orders", "Checkpoint orders kept for agents", static_cast<double>(t.orders.size()));
    });
  });
}

}  // namespace qm::telemetry
