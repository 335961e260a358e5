#include "agent_settings.hpp"

#include "checkpoint_target.hpp"
#include "qm/base/log.hpp"
#include "qm/kube/connect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace qm::agent {

namespace {

tl::unexpected<Error> bad(const std::string& field, std::string message, std::string remedy) {
  return fail(Error{Code::kInvalid, std::move(message), field, std::move(remedy)});
}

// ---- kinds of values ----

constexpr const char* kUrl = "^https?://.+";  ///< pattern of a URL

template <class List = std::set<std::string>>
settings::Kind<List> names_of(const char* what) {
  return settings::list<List>(
      fmt::format("names of {}, separated by commas, without blanks", what), {}, [](const auto& names) {
        return std::ranges::all_of(
            names, [](const std::string& name) { return name.find_first_of(" /{}") == std::string::npos; });
      });
}

// ---- places in the options that are not one member ----

auto shares_of_a_gpu() {
  return settings::Property{
      [](const Options& o) { return o.device_plugin_sharing.of(std::string(words::kGpuResource)); },
      [](Options& o, std::int64_t shares) {
        o.device_plugin_sharing.shares[std::string(words::kGpuResource)] = static_cast<int>(shares);
      }};
}

auto plugin_configuration() {
  return settings::into([](Options& o, const std::string& file) -> Status {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    if (!in) return bad("device-plugin-config", fmt::format("{} cannot be read", file), "name a file");
    QM_ASSIGN(o.device_plugin_sharing, sharing_of(text, file));
    for (const auto& warning : o.device_plugin_sharing.warnings)
      log::warn("device plugin's configuration", {{"warning", warning}});
    return {};
  });
}

// ---- combinations ----

/// Files and folders of a node require an agent for that node alone.
Status check_paths(const Options& options) {
  for (const auto& [setting, path] :
       {std::pair("pod-resources", options.pod_resources), std::pair("device-plugin", options.device_plugin),
        std::pair("sysfs", options.sysfs), std::pair("kubelet-config", options.kubelet_config),
        std::pair("kubelet-wanted", options.kubelet_wanted), std::pair("nccl-topology", options.nccl_topology),
        std::pair("model-cache", options.model_cache), std::pair("kubelet-pods", options.kubelet_pods),
        std::pair("proc", options.proc)}) {
    if (!path.empty() && options.nodes.size() != 1)
      return bad(setting, "it is a file of one node", "add --set nodes=NAME with the name of this node");
  }
  return {};
}

Status check_nodes(const Options& options) {
  if (options.nodes.empty() == options.except.empty()) {
    return bad("nodes", options.nodes.empty() ? "no node is named" : "both nodes and except are given",
               "add either --set nodes=NAME,... or --set except=NAME,... (then the agent serves all other nodes)");
  }
  if (options.telemetry.empty())
    return bad("telemetry", "the telemetry service is not given", "add --set telemetry=host:port");
  for (const auto& [setting, url] : {std::pair("dcgm", options.dcgm), std::pair("imds", options.imds)}) {
    if (options.nodes.size() != 1 && url.find("{node}") == std::string::npos)
      return fail(settings::wrong_value(setting, url, "a URL with {node} in the place of the node's name"));
  }
  return {};
}

}  // namespace

const settings::Table<Options>& settings_table() {
  using namespace settings;
  using namespace std::chrono_literals;
  const auto url = text("http://HOST:PORT/PATH", kUrl, is_url);
  const auto period = duration(1ms);
  static const settings::Table<Options> table{
      // Nodes and peers.
      {"nodes", names_of<std::vector<std::string>>("nodes"), at(&Options::nodes),
       "Nodes of the agent; those that read files of the node require exactly one."},
      {"except", names_of("nodes"), at(&Options::except),
       "The agent serves all nodes of the cluster but these, as nodes are added and removed."},
      {"telemetry", text("HOST:PORT"), at(&Options::telemetry), "Address of the telemetry service; required."},
      {"checkpoint-gateway",
       text("http://HOST:PORT/PATH, in which {namespace} and {pod} are filled in", kUrl, is_gateway),
       at(&Options::checkpoint_gateway), "URL that receives the checkpoint orders of all pods instead of the pods."},
      {"kubelet-pods", path(), at(&Options::kubelet_pods),
       "Folder of the kubelet with the volumes of pods, for checkpoint orders by file."},
      {"proc", path(), at(&Options::proc), "Mount of the host's /proc, for checkpoint orders by signal."},
      // Samples and notices.
      {"dcgm", url, at(&Options::dcgm), "Metrics page of dcgm-exporter; {node} is the name of the node."},
      {"imds", url, at(&Options::imds), "Instance metadata service; {node} is the name of the node."},
      {"cloud",
       choice<Cloud>({{"aws", Cloud::kAws}, {"gcp", Cloud::kGcp}, {"azure", Cloud::kAzure}}, "aws, gcp or azure"),
       at(&Options::cloud), "Cloud whose metadata service that is."},
      {"lifecycle-time", duration(20s), at(&Options::lifecycle_time),
       "Time until an Auto Scaling group terminates an instance; at most the heartbeat of its lifecycle hook."},
      {"sample-period", period, at(&Options::sample_period), "Domain time between two reads of the metrics page."},
      {"notice-period", period, at(&Options::notice_period), "Domain time between two reads of the metadata."},
      // The kubelet of the one node.
      {"pod-resources", path(), at(&Options::pod_resources),
       "Socket of the kubelet that lists the devices of each pod; not set = the labels of the metrics page count."},
      {"pod-resources-period", period, at(&Options::pod_resources_period),
       "Domain time between two requests to that socket."},
      {"device-plugin", path(), at(&Options::device_plugin),
       "Device-plugin folder of the kubelet, in which the agent registers as device plugin."},
      {"device-plugin-config", text("the path of a configuration of NVIDIA's device plugin"), plugin_configuration(),
       "File with time slicing, MPS and the MIG strategy; not set = GPUs are allocated whole."},
      {"device-plugin-shares", integer(1, 128, "shares"), shares_of_a_gpu(), "Shares of each whole GPU."},
      {"device-plugin-strict", boolean(), at(&Options::device_plugin_strict),
       "An allocation that differs from the assignment is refused."},
      {"device-plugin-schedulers", names_of("schedulers"), at(&Options::device_plugin_schedulers),
       "Schedulers whose pods have valid device annotations."},
      {"device-plugin-mps", path(), at(&Options::device_plugin_mps), "Folder of the MPS daemon of the node."},
      // The hardware of the one node.
      {"sysfs", path(), at(&Options::sysfs), "Mount of /sys, the source of the node report."},
      {"kubelet-config", path(), at(&Options::kubelet_config), "Configuration file of the kubelet, for NUMA nodes."},
      {"kubelet-wanted", path(), at(&Options::kubelet_wanted),
       "Configuration that the kubelet should have; differences are reported."},
      {"nccl-topology", path(), at(&Options::nccl_topology), "Topology file that the agent writes for NCCL."},
      {"model-cache", path(), at(&Options::model_cache), "Folder with one subfolder for each cached model."},
      {"probe-period", period, at(&Options::probe_period), "Domain time between two node reports."}};
  return table;
}

Result<Options> Options::from_settings(const rpc::Settings& settings) {
  if (settings.kube.empty())
    return bad("kube", "the Kubernetes API is not given", "add --kube in-cluster, or --kube http://host:port");
  auto kube = kube::find_server(settings.kube);
  if (!kube) return bad("kube", kube.error().message, "write in-cluster, kubeconfig, or http://host:port");
  QM_ASSIGN(auto out, settings_table().read(settings.extra));
  out.kube = std::move(*kube);
  out.security = rpc::client_security(settings);
  QM_TRY(check_paths(out));
  QM_TRY(check_nodes(out));
  return out;
}

}  // namespace qm::agent
