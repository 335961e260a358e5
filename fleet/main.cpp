// Wiring of the simulated fleet: flags, clock file, three ports, and a file that contains their numbers.
#include "aws.hpp"
#include "fleet.hpp"
#include "qm/base/log.hpp"
#include "qm/base/option_range.hpp"
#include "qm/http/http.hpp"

#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

namespace {

struct Flags {
  std::string dir = "build/run/fleet", shape = "p5.48xlarge", spot_shape = "g5.12xlarge", nodes_file, prices_file,
              faults_file, start, address = "127.0.0.1";
  int nodes = 4, spot_nodes = 0;
  std::uint16_t kube_port = 0, aws_port = 0, node_port = 0;
  qm::fleet::Fleet::Options fleet;
  qm::fleet::AwsApi::Options aws;
};

qm::Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return qm::fail(qm::Code::kNotFound, "cannot read {}", path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

qm::Result<std::vector<qm::fleet::LaunchSpec>> initial_nodes(const Flags& flags, qm::fleet::PriceTable& prices) {
  using namespace qm::fleet;
  std::vector<LaunchSpec> all;
  if (flags.nodes_file.empty()) {
    QM_ASSIGN(all, uniform_nodes(flags.nodes, flags.shape, Market::kOnDemand, prices));
  } else {
    QM_ASSIGN(const auto csv, read_text(flags.nodes_file));
    QM_ASSIGN(all, read_nodes_file(csv, prices));
  }
  QM_ASSIGN(const auto spot, uniform_nodes(flags.spot_nodes, flags.spot_shape, Market::kSpot, prices));
  all.insert(all.end(), spot.begin(), spot.end());
  return all;
}

/// Readers wait for the file to appear, so it is written under another name and renamed.
qm::Status write_endpoints(const std::string& dir, const qm::http::Server& kube, const qm::http::Server& aws,
                           const qm::http::Server& node) {
  const std::string path = dir + "/fleet.json";
  const qm::Json ports = qm::Json::object({{"kube", kube.port()}, {"aws", aws.port()}, {"node", node.port()}});
  std::ofstream(path + ".new") << ports.dump() << "\n";
  std::error_code error;
  std::filesystem::rename(path + ".new", path, error);
  if (error) return qm::fail(qm::Code::kUnavailable, "cannot write {}: {}", path, error.message());
  return {};
}

/// The EC2NodeClass of NodePools that name no other one: the plain image, and all subnets of the account.
qm::Status make_default_node_class(qm::fleet::Fleet& fleet) {
  using qm::Json;
  const auto terms = [](const char* key, Json value) { return Json::array({Json::object({{key, std::move(value)}})}); };
  const Json tags = Json::object({{"karpenter.sh/discovery", "quartermaster"}});
  const Json spec = Json::object({{"amiFamily", "Custom"},
                                  {"amiSelectorTerms", terms("id", qm::fleet::kPlainImage)},
                                  {"subnetSelectorTerms", terms("tags", tags)},
                                  {"securityGroupSelectorTerms", terms("tags", tags)},
                                  {"instanceProfile", "fleet-nodes"}});
  const auto made =
      fleet.store.create(qm::fleet::kind_of("ec2nodeclasses"), "",
                         Json::object({{"metadata", Json::object({{"name", "default"}})}, {"spec", spec}}));
  if (!made) return qm::fail(qm::Code::kInternal, "the default EC2NodeClass: {}", made.error().message);
  return {};
}

/// The health probe of container runtimes: when the node port serves its state, all three ports are served.
int probe(const Flags& flags) {
  qm::http::ClientOptions options;
  options.timeout = std::chrono::milliseconds(2000);
  const std::string url = "http://127.0.0.1:" + std::to_string(flags.node_port);
  const auto answer = qm::http::Client(url, options).send({.target = "/fleet/state"});
  return answer && answer->status == 200 ? 0 : 1;
}

qm::Status run(Flags flags) {
  using namespace qm;
  // Blocked before any thread starts, so that only this thread receives the signal.
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGTERM);
  sigaddset(&ending, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::error_code error;
  std::filesystem::create_directories(flags.dir, error);
  if (error) return fail(Code::kUnavailable, "cannot make the folder {}: {}", flags.dir, error.message());
  fleet::PriceTable prices = fleet::PriceTable::built_in();
  if (!flags.prices_file.empty()) {
    QM_ASSIGN(const auto csv, read_text(flags.prices_file));
    QM_ASSIGN(prices, fleet::PriceTable::parse(csv));
  }
  QM_ASSIGN(const auto initial, initial_nodes(flags, prices));
  Instant start = SystemClock().now();
  if (!flags.start.empty()) {
    QM_ASSIGN(start, from_rfc3339(flags.start));
  }
  QM_ASSIGN(auto writer, ScaledClockWriter::create(flags.dir + "/clock", start, flags.fleet.world.factor));

  flags.fleet.world.id_seed = (std::uint64_t{std::random_device{}()} << 32) ^ std::random_device{}();
  flags.fleet.world.history_path = flags.dir + "/history.jsonl";
  fleet::Fleet fleet(flags.fleet, std::move(prices), fleet::file_clock(std::move(writer)));
  fleet::AwsApi aws_api(fleet.world, flags.aws);
  for (const auto& spec : initial) {
    QM_TRY(fleet.world.launch_instance(spec));
  }
  QM_TRY(make_default_node_class(fleet));
  if (!flags.faults_file.empty()) {
    QM_ASSIGN(const auto script, read_text(flags.faults_file));
    QM_TRY(fleet.faults.plan(script));
  }

  http::ServerOptions server;
  server.address = flags.address;
  server.max_stream_backlog = 64 << 20;
  server.max_body = 4 << 20;
  server.port = flags.kube_port;
  http::Server kube_server(server, [&](const http::Request& request) { return fleet.kube.handle(request); });
  server.port = flags.aws_port;
  http::Server aws_server(server, [&](const http::Request& request) { return aws_api.handle(request); });
  server.port = flags.node_port;
  http::Server node_server(server, [&](const http::Request& request) { return fleet.node.handle(request); });

  for (auto* started : {&kube_server, &aws_server, &node_server}) QM_TRY(started->start());
  fleet.start();
  QM_TRY(write_endpoints(flags.dir, kube_server, aws_server, node_server));
  log::info("fleet is up", {{"kube", kube_server.port()},
                            {"aws", aws_server.port()},
                            {"node", node_server.port()},
                            {"nodes", initial.size()},
                            {"factor", flags.fleet.world.factor}});
  int signal = 0;
  sigwait(&ending, &signal);
  log::info("fleet stops", {{"signal", signal}});
  fleet.stop();
  node_server.stop();
  aws_server.stop();
  kube_server.stop();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.fleet.cluster.kubelet_differs = 0.01;
  flags.aws.event_queue = "quartermaster";
  auto& world = flags.fleet.world;
  CLI::App app("A simulated GPU fleet: Kubernetes API, EC2, Auto Scaling, SQS, IMDSv2 and DCGM exporter pages.");
  app.option_defaults()->always_capture_default();
  app.add_option("--dir", flags.dir, "Folder for fleet.json, clock and history.jsonl");
  app.add_option("--nodes", flags.nodes, "On-demand nodes at the start");
  app.add_option("--shape", flags.shape, "Their instance type");
  app.add_option("--nodes-file", flags.nodes_file, "Nodes by a table instead: sn,cpu_milli,memory_mib,gpu,model");
  app.add_option("--spot-nodes", flags.spot_nodes, "Spot nodes at the start");
  app.add_option("--spot-shape", flags.spot_shape, "Their instance type");
  app.add_option("--start", flags.start, "Domain time at the start, RFC 3339; now if not given");
  qm::ranged(app.add_option("--factor", world.factor, "Domain seconds for a second"),
             qm::OptionRange<double>(0.0, 1e6, "seconds in a second"));
  app.add_option("--seed", world.seed, "Seed of everything random but ids");
  qm::ranged(
      app.add_option("--boot-seconds", world.boot_seconds, "Delay until a launched node registers, up to twice that"),
      qm::OptionRange<int>(0, 86400, "seconds"));
  qm::ranged(app.add_option("--kubelet-differs", flags.fleet.cluster.kubelet_differs,
                            "Share of pods whose devices differ from the plan"),
             qm::OptionRange<double>(0.0, 1.0));
  app.add_option("--faults", flags.faults_file, "JSON array of faults, each with at_s");
  app.add_option("--prices", flags.prices_file, "Price table instead of the built-in one");
  app.add_option("--event-queue", flags.aws.event_queue,
                 "SQS queue that gets EventBridge's messages about instances; empty = none");
  app.add_option("--address", flags.address, "Address to listen on");
  app.add_option("--kube-port", flags.kube_port, "0 = any free one");
  app.add_option("--aws-port", flags.aws_port, "0 = any free one");
  app.add_option("--node-port", flags.node_port, "0 = any free one");
  bool asks = false;
  app.add_flag("--probe", asks, "Checks whether the fleet on this --node-port is up, and exits: 0 or 1");
  CLI11_PARSE(app, argc, argv);
  if (asks) return probe(flags);
  qm::log::init("qm-fleet");
  if (const auto ran = run(flags); !ran) {
    std::fprintf(stderr, "qm-fleet: %s\n", ran.error().to_string().c_str());
    return 1;
  }
  return 0;
}
