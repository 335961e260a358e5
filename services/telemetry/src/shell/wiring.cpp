#include "qm/telemetry/shell.hpp"
#include "qm/wire/sample.hpp"

namespace qm::telemetry {

service::HostOptions host_options(const std::string& shard) {
  service::HostOptions o;
  o.service = "telemetry";
  o.shard = shard;
  o.consumes = {"qm.capacity", "qm.node"};
  o.gather = std::chrono::milliseconds(250);  // nothing waits for one sample
  o.produces = {"qm.gpu", "qm.spot"};
  return o;
}

namespace {

using metrics::Family;

Family counter(const char* name, const char* help, std::uint64_t value) {
  return {name, help, Family::Kind::kCounter, {{{}, static_cast<double>(value)}}};
}
Family gauge(const char* name, const char* help, double value) {
  return {name, help, Family::Kind::kGauge, {{{}, value}}};
}

/// One series per GPU with the names, texts and units of dcgm-exporter that dashboards use, of both generations.
std::vector<Family> dcgm(Samples& samples) {
  const auto family = [](const char* name, const char* help) { return Family{name, help, Family::Kind::kGauge, {}}; };
  std::vector<Family> out = {family("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)."),
                             family("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB)."),
                             family("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB)."),
                             family("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)."),
                             family("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W)."),
                             family("DCGM_FI_DEV_XID_ERRORS", "Value of the last XID error encountered.")};
  // Values that a GPU or an exporter may not have.
  Family double_bit{
      "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Total number of double-bit volatile ECC errors.", Family::Kind::kCounter, {}};
  Family reasons = family("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "Clocks event reasons bitmask.");
  Family fan = family("DCGM_FI_DEV_FAN_SPEED", "Fan speed for the device in percent 0-100.");
  constexpr double kMib = 1 << 20;
  for (const auto& r : samples.readings()) {
    const auto& s = r.sample();
    metrics::Labels labels = {{"gpu", std::to_string(s.gpu_index())},
                              {"UUID", s.gpu_uuid()},
                              {"modelName", s.model()},
                              {"Hostname", r.node()}};
    if (!s.pod().empty())
      labels.insert(labels.end(), {{"container", s.container()}, {"namespace", s.namespace_()}, {"pod", s.pod()}});
    using S = pb::GpuSample;
    const std::pair<int, double> values[] = {
        {S::kUtilizationFieldNumber, 100 * s.utilization()},
        {S::kFbUsedBytesFieldNumber, static_cast<double>(s.fb_used_bytes()) / kMib},
        {S::kFbFreeBytesFieldNumber, static_cast<double>(s.fb_free_bytes()) / kMib},
        {S::kTemperatureCFieldNumber, s.temperature_c()},
        {S::kPowerWattsFieldNumber, s.power_watts()},
        {S::kXidFieldNumber, static_cast<double>(s.xid())}};
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (wire::has_value(s, values[i].first)) out[i].series.push_back({labels, values[i].second});
    }
    if (s.has_double_bit_errors()) double_bit.series.push_back({labels, static_cast<double>(s.double_bit_errors())});
    if (s.has_clocks_event_reasons()) reasons.series.push_back({labels, static_cast<double>(s.clocks_event_reasons())});
    if (s.has_fan_percent()) fan.series.push_back({labels, s.fan_percent()});
  }
  out.insert(out.end(), {std::move(double_bit), std::move(reasons), std::move(fan)});
  // Many dashboards use the names of the exporter's first generation.
  const char* const first_names[] = {"dcgm_gpu_utilization", "dcgm_fb_used", "dcgm_fb_free", "dcgm_gpu_temp",
                                     "dcgm_power_usage"};
  for (std::size_t i = 0; i < std::size(first_names); ++i) {
    Family same = out[i];
    same.name = first_names[i];
    out.push_back(std::move(same));
  }
  return out;
}

}  // namespace

void export_metrics(metrics::Registry& registry, service::Host& host, Samples& samples, const AgentHub& hub,
                    const RedisMirror& redis) {
  registry.on_collect([&] {
    std::vector<Family> out = dcgm(samples);
    const auto c = samples.counters();
    out.push_back(counter("qm_telemetry_frames_total", "Sample frames received.", c.frames));
    out.push_back(counter("qm_telemetry_samples_total", "GPU samples accepted.", c.samples));
    out.push_back(
        counter("qm_telemetry_frame_gaps_total", "Jumps in a node's frame sequence: samples that were lost.", c.gaps));
    out.push_back(
        counter("qm_telemetry_late_samples_total", "Samples dropped because a newer one was accepted before.", c.late));
    out.push_back(gauge("qm_telemetry_agents", "Connected agent streams.", static_cast<double>(hub.agents())));
    out.push_back(gauge("qm_telemetry_redis_up", "1 where Redis answers.", redis.connected() ? 1 : 0));
    host.read([&](const service::Shell& shell) {
      const auto& t = engine_of(shell).tables();
      out.push_back(
          gauge("qm_telemetry_unhealthy_nodes", "Nodes with a verdict.", static_cast<double>(t.health.size())));
      out.push_back(gauge("qm_telemetry_open_orders", "Checkpoint orders not yet acknowledged by agents.",
                          static_cast<double>(t.orders.size())));
    });
    return out;
  });
}

}  // namespace qm::telemetry
