#include "agent.hpp"

#include "node_hardware.hpp"
#include "node_view.hpp"
#include "notices.hpp"
#include "qm/base/assert.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/client.hpp"
#include "qm/model/resources.hpp"
#include "qm/wire/model.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

namespace qm::agent {
namespace {

constexpr const char* kVersion = "0.1.0";

std::string boot_id() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::string kernel_boot_id() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace

struct Agent::Meters {
  metrics::Counter ok, empty, failed, bad_lines, notices, reconnects, dropped, kubelet_ok, kubelet_failed;
  metrics::Gauge pending, nodes, pods, pod_objects;
  Link::Counters seen;  // the values that the counters above already include
};

/// The state of a node's devices, from its exporter page and from its kubelet.
struct Agent::View {
  explicit View(const std::string& node) : devices(node) {}
  std::mutex mutex;  // the page and the kubelet are read at different periods
  NodeView devices;
};

Agent::Agent(Options options, const DomainClock& clock, metrics::Registry& registry)
    : Agent(options, clock, registry, http_pages(options.dcgm), instance_metadata(options.imds)) {}

Agent::Agent(Options options, const DomainClock& clock, metrics::Registry& registry, std::unique_ptr<PageSource> pages,
             std::unique_ptr<MetadataSource> metadata, std::unique_ptr<DeviceSource> devices)
    : options_(std::move(options)),
      clock_(clock),
      pages_(std::move(pages)),
      metadata_(std::move(metadata)),
      devices_(std::move(devices)),
      facts_(boot_id()),
      meters_(std::make_unique<Meters>()),
      checkpoints_(
          pods_, facts_, clock,
          {.gateway = options_.checkpoint_gateway, .kubelet_pods = options_.kubelet_pods, .proc = options_.proc}),
      link_({options_.telemetry, kVersion, [this](const pb::CheckpointOrder& o) { order(o); }, options_.security},
            facts_),
      pacer_(clock, kThreads) {
  Meters& m = *meters_;
  const auto scrapes = [&](const char* result) {
    return registry.counter("qm_agent_scrapes_total", "Reads of exporter pages.", {{"result", result}});
  };
  m.ok = scrapes("ok"), m.empty = scrapes("empty"), m.failed = scrapes("failed");
  const auto answers = [&](const char* result) {
    return registry.counter("qm_agent_pod_resources_total", "Reads of the device allocations of the kubelet.",
                            {{"result", result}});
  };
  m.kubelet_ok = answers("ok"), m.kubelet_failed = answers("failed");
  m.bad_lines = registry.counter("qm_agent_bad_lines_total", "Lines of exporter pages that cannot be parsed.");
  m.notices = registry.counter("qm_agent_notices_total", "Notices of the cloud for its instances.");
  m.reconnects = registry.counter("qm_agent_reconnects_total", "Streams to the telemetry service after the first.");
  m.dropped =
      registry.counter("qm_agent_frames_dropped_total", "Frames dropped because no stream to telemetry was open.");
  m.pending = registry.gauge("qm_agent_facts_pending", "Facts that are not confirmed yet.");
  m.nodes = registry.gauge("qm_agent_nodes", "Nodes that this agent serves.");
  m.pods = registry.gauge("qm_agent_pods", "Bound pods of its nodes that have not ended.");
  m.pod_objects = registry.gauge("qm_agent_pod_objects", "Pod objects in lists and watches since the start.");
  registry.on_scrape([this] {
    const auto now = link_.counters();
    meters_->reconnects.add(static_cast<double>(now.reconnects - meters_->seen.reconnects));
    meters_->dropped.add(static_cast<double>(now.frames_dropped - meters_->seen.frames_dropped));
    meters_->seen = now;
    meters_->pending.set(static_cast<double>(facts_.size()));
    meters_->pods.set(static_cast<double>(pods_.size()));
    meters_->pod_objects.set(static_cast<double>(pod_objects()));
    const std::lock_guard lock(mutex_);
    meters_->nodes.set(static_cast<double>(nodes_.size()));
  });

  if (!options_.pod_resources.empty()) holding_ = pod_resources(options_.pod_resources);
  if (!options_.device_plugin.empty()) {
    plugin_ = std::make_unique<DevicePlugin>(
        DevicePlugin::Options{options_.device_plugin, options_.nodes[0], options_.device_plugin_sharing,
                              options_.device_plugin_mps, options_.device_plugin_strict,
                              options_.device_plugin_schedulers},
        *devices_, pods_, registry);
  }
  kube_ = std::make_unique<kube::Client>(options_.kube);
  for (const auto& node : options_.nodes) watch_pods(node, "spec.nodeName=" + node);
  if (options_.nodes.empty()) {
    std::string fields = "spec.nodeName!=";  // bound pods
    for (const auto& node : options_.except) fields += ",spec.nodeName!=" + node;
    watch_pods({}, fields);
    node_informer_ = std::make_unique<kube::Informer>(
        *kube_, kube::resources::kNodes, "",
        kube::Informer::Callbacks{[this](const Json& node, bool deleted) {
                                    {
                                      const std::lock_guard lock(mutex_);
                                      boots_[kube::name_of(node)] = node.path("status.nodeInfo.bootID").string();
                                      if (deleted) boots_.erase(kube::name_of(node));
                                    }
                                    node_changed(kube::name_of(node), deleted);
                                  },
                                  [this] {
                                    {
                                      const std::lock_guard lock(mutex_);
                                      nodes_listed_ = true;
                                    }
                                    publish_nodes();
                                  }});
  }
}

Agent::~Agent() { stop(); }

void Agent::watch_pods(const std::string& node, const std::string& fields) {
  pod_informers_.push_back(std::make_unique<kube::Informer>(
      *kube_, kube::resources::kPods, kube::Scope("", fields),
      kube::Informer::Callbacks{[this](const Json& pod, bool deleted) { pods_.apply(pod, deleted); },
                                [this, node] { pods_.synced(node); }}));
}

void Agent::start() {
  for (const auto& informer : pod_informers_) informer->start();
  // A single node in `nodes` is the node that the agent runs on.
  if (options_.nodes.size() == 1) boots_[options_.nodes[0]] = kernel_boot_id();
  for (const auto& node : options_.nodes) add_node(node);
  if (node_informer_) {
    node_informer_->start();
  } else {
    publish_nodes();
  }
  link_.start();
  if (plugin_) plugin_->start();
}

void Agent::stop() {
  link_.stop();
  pods_.close();
  if (plugin_) plugin_->stop();
  checkpoints_.stop();
  pacer_.stop();
  if (node_informer_) node_informer_->stop();
  for (const auto& informer : pod_informers_) informer->stop();
}

void Agent::node_changed(const std::string& node, bool gone) {
  bool publish_all = false;
  {
    const std::lock_guard lock(mutex_);
    if (options_.except.contains(node) || nodes_.contains(node) != gone) return;
    publish_all = nodes_listed_;
  }
  gone ? remove_node(node) : add_node(node);
  if (publish_all) publish_nodes();  // the nodes of the first list are published together
}

std::string Agent::boot_of(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  const auto known = boots_.find(node);
  return known == boots_.end() ? std::string() : known->second;
}

void Agent::add_node(const std::string& node) {
  {
    const std::lock_guard lock(mutex_);
    nodes_.insert(node);
  }
  const auto view = std::make_shared<View>(node);
  pacer_.add("page/" + node, options_.sample_period, [this, node, view] {
    scrape(*view, node);
    return true;
  });
  if (holding_) {
    pacer_.add("held/" + node, options_.pod_resources_period, [this, node, view] {
      ask_kubelet(*view, node);
      return true;
    });
  }
  if (!options_.sysfs.empty() || !options_.model_cache.empty()) {
    pacer_.add("probe/" + node, options_.probe_period, [this, node] {
      probe(node);
      return true;
    });
  }
  auto watch = std::make_shared<NoticeWatch>(node, notice_source(node), facts_);
  // A source that waits is read again at once.
  const Duration period = waits_for_notices() ? kReadAgain : options_.notice_period;
  pacer_.add("notice/" + node, period, [this, watch] {
    if (watch->look(clock_.now()) == NoticeWatch::Look::kNotice) meters_->notices.add();
    return true;
  });
}

// A read that waits for a change needs a thread: only an agent of one node has one to spare.
bool Agent::waits_for_notices() const { return options_.cloud == Cloud::kGcp && options_.nodes.size() == 1; }

std::unique_ptr<NoticeSource> Agent::notice_source(const std::string& node) {
  const auto url = fill_template(options_.imds, {{"node", node}});
  if (options_.cloud == Cloud::kGcp) return gcp_notices(http_metadata(url), waits_for_notices());
  if (options_.cloud == Cloud::kAzure) return azure_notices(http_metadata(url));
  return aws_notices(node, *metadata_, options_.lifecycle_time);
}

void Agent::remove_node(const std::string& node) {
  pacer_.remove("page/" + node);
  pacer_.remove("notice/" + node);
  pacer_.remove("held/" + node);
  pacer_.remove("probe/" + node);
  metadata_->forget(node);
  const std::lock_guard lock(mutex_);
  nodes_.erase(node);
}

void Agent::publish_nodes() {
  const std::lock_guard lock(mutex_);
  link_.serve({nodes_.begin(), nodes_.end()});
}

void Agent::scrape(View& view, const std::string& node) {
  const Instant at = clock_.now();
  const auto text = pages_->page(node);
  const std::lock_guard lock(view.mutex);
  if (!text) {
    log::debug("exporter cannot be read", {{"node", node}, {"error", text.error().to_string()}});
    meters_->failed.add();
    view.devices.miss();
    return;
  }
  DcgmPage page = parse_dcgm_page(*text);
  leave_out_ended(page, pods_.known(node));
  if (page.bad_lines > 0) meters_->bad_lines.add(static_cast<double>(page.bad_lines));
  if (page.devices.empty()) {
    meters_->empty.add();
    view.devices.miss();
    return;
  }
  meters_->ok.add();
  // Before the first list the pods are unknown, so a page without labels is not trusted.
  const bool gpu_pods = !pods_.wait_synced(node, {}) || pods_.gpu_pods(node);
  view.devices.booted(boot_of(node));
  auto frame =
      view.devices.take(page, at, gpu_pods, [&](pb::AgentFact fact) { return facts_.add(node, std::move(fact)); });
  frame.set_agent(facts_.boot());
  link_.frame(std::move(frame));
  if (plugin_) plugin_->faulty(view.devices.broken());
}

void Agent::ask_kubelet(View& view, const std::string& node) {
  const Instant at = clock_.now();
  const auto held = holding_->held();
  const auto devices = devices_->devices();
  if (!held || !devices) {
    log::debug("the device allocations of the kubelet cannot be read",
               {{"node", node}, {"error", (held ? devices.error() : held.error()).to_string()}});
    meters_->kubelet_failed.add();
    return;
  }
  meters_->kubelet_ok.add();
  if (plugin_) plugin_->given(ids_by_pod(*held));
  const bool gpu_pods = !pods_.wait_synced(node, {}) || pods_.gpu_pods(node);
  const std::lock_guard lock(view.mutex);
  view.devices.held(holders_of(*held, *devices, pods_.known(node)), *devices, at, gpu_pods,
                    [&](pb::AgentFact fact) { return facts_.add(node, std::move(fact)); });
}

/// Reads the node's hardware and kubelet configuration. A part that cannot be read is logged and omitted.
void Agent::probe(const std::string& node) {
  NodeReport report;
  const auto missing = [&](const Error& error) {
    log::warn("part of the hardware of the node cannot be read", {{"node", node}, {"error", error.to_string()}});
  };
  const auto settings = [&](const std::string& file) -> Result<KubeletSettings> {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) return fail(Code::kUnavailable, "{} cannot be read", file);
    return kubelet_settings(text, file);
  };
  if (!options_.sysfs.empty()) {
    const auto devices = devices_->devices();
    const auto joints = devices_->joints();
    if (devices && joints) {
      report.labels = island_labels(*devices, *joints);
      if (auto switches = switches_annotation(*devices, *joints); !switches.empty())
        report.annotations["quartermaster.dev/pcie-switches"] = std::move(switches);
    } else {
      missing((devices ? joints.error() : devices.error()));
    }
    report.labels.merge(fabric_labels(options_.sysfs));
    const auto nodes = numa_nodes(options_.sysfs);
    if (!nodes) missing(nodes.error());
    const auto kubelet = options_.kubelet_config.empty() ? KubeletSettings() : settings(options_.kubelet_config);
    if (!kubelet) missing(kubelet.error());
    if (nodes && kubelet && devices && !options_.kubelet_config.empty()) {
      if (auto zones = numa_annotation(*nodes, *kubelet, *devices); !zones.empty())
        report.annotations["quartermaster.dev/numa"] = std::move(zones);
    }
    if (nodes && devices && !options_.nccl_topology.empty()) {
      // Written under another name and renamed, so that a container that mounts the file never reads a part of it.
      const std::string text = nccl_topology(*nodes, *devices, options_.sysfs), next = options_.nccl_topology + ".next";
      std::error_code error;
      if (std::ofstream file(next); file << text << std::flush)
        std::filesystem::rename(next, options_.nccl_topology, error);
      if (error || !std::filesystem::exists(options_.nccl_topology, error))
        missing({Code::kUnavailable, fmt::format("{} cannot be written", options_.nccl_topology), {}, {}});
    }
    if (kubelet && !options_.kubelet_wanted.empty()) {
      const auto wanted = settings(options_.kubelet_wanted);
      if (!wanted) missing(wanted.error());
      // An empty text clears an earlier finding.
      const auto found = wanted ? differences(*kubelet, *wanted) : std::vector<std::string>();
      if (!found.empty()) log::warn("the kubelet is not set as it should be", {{"node", node}, {"how", found.front()}});
      report.annotations["quartermaster.dev/findings"] = fmt::format("{}", fmt::join(found, "; "));
    }
  }
  if (!options_.model_cache.empty()) {
    report.owned_prefixes = {std::string(kModelPrefix)};
    report.labels.merge(model_labels(options_.model_cache));
  }
  pb::AgentFact fact;
  *fact.mutable_node_report() = wire::to_pb(NodeName(node), report, clock_.now());
  (void)facts_.add(node, std::move(fact));  // a full queue: published again at the next probe
}

void Agent::order(const pb::CheckpointOrder& order) {
  std::vector<std::string> own;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& node : order.nodes()) {
      if (nodes_.contains(node)) own.push_back(node);
    }
  }
  checkpoints_.order(order, own);
}

std::uint64_t Agent::pod_objects() const {
  std::uint64_t out = 0;
  for (const auto& informer : pod_informers_) {
    const auto counters = informer->counters();
    out += counters.listed + counters.events;
  }
  return out;
}

Json Agent::state() const {
  Json nodes = Json::array();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& node : nodes_) nodes.push_back(node);
  }
  const auto link = link_.counters();
  return Json::object({{"device_plugin", plugin_ ? plugin_->state() : Json()},
                       {"boot", facts_.boot()},
                       {"nodes", std::move(nodes)},
                       {"stream", link_.up()},
                       {"frames", link.frames},
                       {"frames_dropped", link.frames_dropped},
                       {"facts_pending", static_cast<std::int64_t>(facts_.size())},
                       {"pods", static_cast<std::int64_t>(pods_.size())},
                       {"pod_objects", static_cast<std::int64_t>(pod_objects())}});
}

}  // namespace qm::agent
