#include "stack.hpp"

#include "qm/base/log.hpp"
#include "qm/kube/connect.hpp"

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace qm::demo {
namespace fs = std::filesystem;

namespace {
constexpr auto kStartTimeout = std::chrono::seconds(60);

std::string own_folder() { return fs::read_symlink("/proc/self/exe").parent_path().string(); }
}  // namespace

const std::vector<std::string>& Stack::services() {
  static const std::vector<std::string> names = {"admission", "placement", "autoscaler", "telemetry", "cost"};
  return names;
}

Stack::Stack(const Options& options, Plan plan) : options_(options), plan_(std::move(plan)), bin_(own_folder()) {
  options_.dir = fs::absolute(options_.dir).string();
  // A broker outlives the run, and process ids repeat: a separate shard keeps the keys of this run apart from those
  // of earlier runs.
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  if (options_.bus == "kafka") shard_ = fmt::format("run{}_{}", seconds.count(), ::getpid());
}

Stack::~Stack() { stop(); }

Status Stack::make_dirs() {
  std::error_code error;
  for (const char* old : {"logs", "fleet"}) fs::remove_all(fs::path(options_.dir) / old, error);
  for (const char* sub : {"logs", "fleet", "config"}) {
    fs::create_directories(fs::path(options_.dir) / sub, error);
    if (error) {
      return fail(Error{Code::kUnavailable, fmt::format("cannot make {}/{}: {}", options_.dir, sub, error.message()),
                        "--dir", "name a folder that can be written"});
    }
  }
  // A full disk is detected here, before any program runs that could lose data.
  const auto space = fs::space(options_.dir, error);
  if (!error && space.available < 512ULL << 20) {
    return fail(Error{Code::kExhausted, fmt::format("{} MiB are free in {}", space.available >> 20, options_.dir),
                      "--dir", "free 512 MiB, or name another folder"});
  }
  return {};
}

Status Stack::start_database() {
  std::string why;
  if (options_.postgres.empty()) {
    postgres_ = testing::Postgres::shared(&why);
    if (postgres_ == nullptr)
      return fail(Error{Code::kUnavailable, "no PostgreSQL: " + why, {}, "./qm setup installs it"});
    conninfo_ = postgres_->fresh_database();
  } else {
    conninfo_ = options_.postgres;
  }
  redis_ = testing::Redis::start(&why);
  if (!redis_) return fail(Error{Code::kUnavailable, "no Redis: " + why, {}, "./qm setup installs it"});
  return {};
}

Status Stack::choose_bus() {
  if (options_.bus == "postgres") {
    bus_ = "postgres:" + conninfo_;
    return {};
  }
  const char* set = std::getenv("QM_KAFKA");
  std::string bootstrap = set != nullptr ? set : "";
  if (bootstrap.empty()) {
    own_broker_ = true;
    QM_TRY(output_of("tools/peers/kafka.sh get 2>&1 && tools/peers/kafka.sh start 2>&1"));
    QM_ASSIGN(const std::string env, output_of("tools/peers/kafka.sh env"));
    const auto at = env.find("QM_KAFKA=");
    if (at == std::string::npos)
      return fail(Code::kUnavailable, "tools/peers/kafka.sh env prints no QM_KAFKA: {}", env);
    bootstrap = env.substr(at + 9, env.find_first_of("\r\n ", at) - at - 9);
  }
  bus_ = "kafka:" + bootstrap;
  return {};
}

std::string Stack::tail_of(const std::string& name) const {
  std::ifstream in(log_of(name));
  std::string last;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

Status Stack::spawn(const std::string& name, std::vector<std::string> argv) {
  argv_[name] = argv;
  testing::Process::Options o;
  o.argv = std::move(argv);
  o.env = {{"AWS_ACCESS_KEY_ID", "test"},
           {"AWS_SECRET_ACCESS_KEY", "test"},
           {"QM_ENDPOINTS", options_.dir + "/endpoints.json"}};
  o.output = log_of(name);
  auto started = testing::Process::start(std::move(o));
  if (!started) return fail(started.error().with_context(name));
  processes_[name] = std::move(*started);
  return {};
}

Status Stack::start_fleet() {
  const std::string dir = options_.dir + "/fleet";
  QM_TRY(spawn("fleet", {bin_ + "/qm-fleet", "--dir", dir, "--nodes", std::to_string(plan_.nodes), "--shape",
                         "p5.48xlarge", "--spot-nodes", std::to_string(plan_.spot_nodes), "--spot-shape", "p5.48xlarge",
                         "--factor", "1", "--boot-seconds", std::to_string(options_.boot_s), "--seed",
                         std::to_string(options_.seed), "--start", options_.kube == "fleet" ? plan_.start : ""}));
  Json ports;
  const bool up = testing::wait_until(
      [&] {
        std::ifstream in(dir + "/fleet.json");
        std::stringstream text;
        text << in.rdbuf();
        auto parsed = Json::parse(text.str());
        if (!parsed) return !running("fleet");
        ports = std::move(*parsed);
        return true;
      },
      kStartTimeout);
  if (!up || !running("fleet") || ports.is_null())
    return fail(Code::kUnavailable, "the fleet does not start: {}", tail_of("fleet"));
  const auto url = [&](const char* name) { return "http://127.0.0.1:" + std::to_string(ports[name].integer()); };
  kube_url_ = url("kube");
  aws_url_ = url("aws");
  node_url_ = url("node");
  // A real control plane uses real time, and so do all others then.
  clock_setting_ = options_.kube == "fleet" ? "scaled:" + dir + "/clock" : "system";
  QM_ASSIGN(clock_, make_clock(clock_setting_));
  fleet_ = std::make_unique<http::Client>(node_url_);
  return {};
}

Status Stack::start_cluster() {
  if (options_.kube == "fleet") return {};
  QM_ASSIGN(real_, RealCluster::open(options_.kube, options_.dir));
  QM_TRY(real_->begin(kube_url_, static_cast<std::size_t>(plan_.nodes + plan_.spot_nodes), !options_.up));
  kube_url_ = real_->setting();
  return {};
}

bool Stack::breakable(const std::string& what) const {
  if (what == "api") return real_ && real_->breakable();
  return what == "kafka" ? own_broker_ : what == "postgres" && postgres_ != nullptr;
}

Status Stack::break_outside(const std::string& what) {
  if (what == "api") {
    QM_TRY(real_->kill_api());
    return real_->restart_api();
  }
  if (what == "kafka") {
    QM_TRY(output_of("tools/peers/kafka.sh kill9 2>&1 && tools/peers/kafka.sh start 2>&1"));
    return {};
  }
  postgres_->kill9();
  return postgres_->restart();
}

std::vector<std::string> Stack::replicas(const std::string& service) const {
  std::vector<std::string> names{service};
  for (int i = 2; i <= options_.replicas; ++i) names.push_back(fmt::format("{}-{}", service, i));
  return names;
}

std::string Stack::grpc(const std::string& service) const {
  std::string addresses;
  for (const auto& replica : replicas(service))
    addresses += fmt::format("{}127.0.0.1:{}", addresses.empty() ? "" : ",", grpc_.at(replica));
  return addresses;
}

void Stack::choose_ports(const std::string& service) {
  for (const auto& replica : replicas(service)) {
    if (grpc_.contains(replica)) continue;
    grpc_[replica] = testing::free_port();
    http_[replica] = testing::free_port();
  }
}

Status Stack::start_service(const std::string& service) {
  for (const auto& name : services()) choose_ports(name);
  for (const auto& replica : replicas(service)) {
    if (!running(replica)) QM_TRY(start_replica(service, replica));
  }
  for (const auto& replica : replicas(service)) QM_TRY(wait_ready(replica));
  if (processes_.size() > services().size()) write_endpoints();  // a new pid
  return {};
}

Status Stack::start_replica(const std::string& service, const std::string& replica) {
  std::vector<std::string> argv = {bin_ + "/qm-" + service,
                                   "--grpc",
                                   fmt::format("127.0.0.1:{}", grpc_[replica]),
                                   "--http",
                                   fmt::format("127.0.0.1:{}", http_[replica]),
                                   "--postgres",
                                   conninfo_,
                                   "--bus",
                                   bus_,
                                   "--redis",
                                   "127.0.0.1:" + std::to_string(redis_->port()),
                                   "--kube",
                                   kube_url_,
                                   "--clock",
                                   clock_setting_};
  if (!shard_.empty()) argv.insert(argv.end(), {"--shard", shard_});
  for (const auto& peer : services()) {
    if (peer != service) argv.insert(argv.end(), {"--peer", peer + "=" + grpc(peer)});
  }
  if (service == "autoscaler") {
    const std::string file = options_.dir + "/config/nodepools.yaml";
    std::ofstream(file) << plan_.pool_manifest;
    QM_ASSIGN(const auto server, kube::find_server(kube_url_));
    argv.insert(argv.end(), {"--config", file, "--set", "aws=" + aws_url_, "--set", "cluster-name=demo", "--set",
                             "cluster-endpoint=" + server.server});
  }
  return spawn(replica, std::move(argv));
}

Status Stack::wait_ready(const std::string& replica) {
  http::Client client("http://127.0.0.1:" + std::to_string(http_[replica]));
  const bool ready = testing::wait_until(
      [&] {
        if (!running(replica)) return true;
        auto answer = client.send({.target = "/readyz"});
        return answer && answer->status == 200;
      },
      kStartTimeout);
  if (!ready || !running(replica)) {
    return fail(Error{Code::kUnavailable,
                      fmt::format("{} does not get ready: {}", replica, tail_of(replica)),
                      {},
                      "its log is " + log_of(replica)});
  }
  return {};
}

Result<Json> Stack::state_of(const std::string& replica) {
  http::Client client("http://127.0.0.1:" + std::to_string(http_.at(replica)));
  QM_ASSIGN(const auto answer, client.send({.target = "/debug/state"}));
  if (answer.status != 200) return fail(Code::kUnavailable, "{} /debug/state: {}", replica, answer.status);
  return Json::parse(answer.body);
}

std::string Stack::leader(const std::string& service) {
  for (const auto& replica : replicas(service)) {
    if (!running(replica)) continue;
    const auto state = state_of(replica);
    if (state && (*state)["host"]["ready"].boolean()) return replica;
  }
  return {};
}

Status Stack::start_agents() {
  QM_ASSIGN(const Json state, fleet_get("/fleet/state"));
  std::vector<std::string> own;
  for (const auto& instance : state["instances"].items()) {
    if (static_cast<int>(own.size()) < plan_.own_agents) own.push_back(instance["node"].string());
  }
  const auto agent = [&](const std::string& name, const std::string& which) {
    std::vector<std::string> argv{bin_ + "/qm-agent",
                                  "--kube",
                                  kube_url_,
                                  "--clock",
                                  clock_setting_,
                                  "--http",
                                  "127.0.0.1:" + std::to_string(testing::free_port())};
    std::vector<std::string> settings{which,
                                      "telemetry=" + grpc("telemetry"),
                                      "dcgm=" + node_url_ + "/node/{node}/metrics",
                                      "imds=" + node_url_ + "/node/{node}",
                                      "sample-period=60s",
                                      "notice-period=10s",
                                      "checkpoint-gateway=" + node_url_ + "/pods/{namespace}/{pod}"};
    for (const auto& more : options_.agent_settings) {
      const auto name_of = [](const std::string& setting) { return setting.substr(0, setting.find('=')); };
      std::erase_if(settings, [&](const std::string& known) { return name_of(known) == name_of(more); });
      settings.push_back(more);
    }
    for (const auto& setting : settings) argv.insert(argv.end(), {"--set", setting});
    return spawn(name, std::move(argv));
  };
  std::string except;
  for (std::size_t i = 0; i < own.size(); ++i) {
    QM_TRY(agent("agent-" + std::to_string(i + 1), "nodes=" + own[i]));
    except += (i > 0 ? "," : "") + own[i];
  }
  return agent("agent-others", "except=" + except);
}

void Stack::write_endpoints() const {
  Json e = Json::object();
  for (const auto& name : services()) e.set(name, grpc(name));
  Json admin = Json::object();
  for (const auto& name : services()) admin.set(name, "http://127.0.0.1:" + std::to_string(http_.at(name)));
  e.set("http", std::move(admin));
  Json all = Json::object();
  for (const auto& name : services()) {
    Json of = Json::object();
    for (const auto& replica : replicas(name)) {
      of.set(replica, Json::object({{"grpc", fmt::format("127.0.0.1:{}", grpc_.at(replica))},
                                    {"http", fmt::format("http://127.0.0.1:{}", http_.at(replica))}}));
    }
    all.set(name, std::move(of));
  }
  e.set("replicas", std::move(all));
  e.set("kube", kube_url_).set("fleet", node_url_).set("redis", "127.0.0.1:" + std::to_string(redis_->port()));
  Json pids = Json::object();
  for (const auto& [name, process] : processes_) pids.set(name, std::int64_t{process->pid()});
  e.set("pids", std::move(pids));
  e.set("clock", options_.dir + "/fleet/clock").set("postgres", conninfo_);
  std::ofstream(options_.dir + "/endpoints.json") << e.pretty() << "\n";
}

Status Stack::start() {
  QM_TRY(make_dirs());
  QM_TRY(start_database());
  QM_TRY(choose_bus());
  QM_TRY(start_fleet());
  QM_TRY(start_cluster());
  for (const auto& service : services()) QM_TRY(start_service(service));
  QM_TRY(start_agents());
  write_endpoints();
  return {};
}

void Stack::stop_services() {
  for (auto& [name, process] : processes_) {
    if (name != "fleet" && process->running()) process->signal(SIGTERM);
  }
  for (auto& [name, process] : processes_) {
    if (name != "fleet") (void)process->wait(std::chrono::seconds(10));
  }
}

void Stack::stop() {
  // The services first, gracefully and in parallel; then the servers that they depend on.
  stop_services();
  if (real_) real_->stop();
  processes_.clear();
  redis_.reset();
}

bool Stack::running(const std::string& process) {
  auto it = processes_.find(process);
  return it != processes_.end() && it->second->running();
}

std::vector<std::string> Stack::processes() const {
  std::vector<std::string> names;
  for (const auto& [name, process] : processes_) names.push_back(name);
  return names;
}

Status Stack::kill9(const std::string& name) {
  auto it = processes_.find(name);
  if (it == processes_.end()) return fail(Code::kNotFound, "no process {}", name);
  it->second->signal(SIGKILL);
  if (!it->second->wait(std::chrono::seconds(5))) return fail(Code::kInternal, "{} survives SIGKILL", name);
  return {};
}

double Stack::peak_mib(const std::string& name) const {
  auto it = processes_.find(name);
  if (it == processes_.end()) return 0;
  std::ifstream in("/proc/" + std::to_string(it->second->pid()) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
  }
  return 0;
}

Result<Json> Stack::fleet_get(const std::string& path) {
  QM_ASSIGN(const auto answer, fleet_->send({.target = path}));
  if (answer.status != 200) return fail(Code::kInternal, "fleet {}: {} {}", path, answer.status, answer.body);
  return Json::parse(answer.body);
}

Result<Json> Stack::fleet_post(const std::string& path, const Json& body) {
  QM_ASSIGN(const auto answer, fleet_->send({.method = "POST", .target = path, .headers = {}, .body = body.dump()}));
  if (answer.status >= 300) return fail(Code::kInternal, "fleet {}: {} {}", path, answer.status, answer.body);
  return Json::parse(answer.body.empty() ? "{}" : answer.body);
}

Status Stack::fleet_delete(const std::string& path) {
  QM_ASSIGN(const auto answer, fleet_->send({.method = "DELETE", .target = path}));
  if (answer.status >= 300) return fail(Code::kInternal, "fleet {}: {} {}", path, answer.status, answer.body);
  return {};
}

Status Stack::make_namespace(const std::string& name) {
  if (real_) return real_->make_namespace(name);
  http::Client kube(kube_url_);
  const Json body =
      Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", name}})}});
  http::Request request{.method = "POST", .target = "/api/v1/namespaces", .headers = {}, .body = body.dump()};
  request.headers.set("Content-Type", "application/json");
  QM_ASSIGN(const auto answer, kube.send(request));
  if (answer.status >= 300 && answer.status != 409)
    return fail(Code::kInternal, "namespace {}: {} {}", name, answer.status, answer.body);
  return {};
}

Result<Json> Stack::debug_state(const std::string& service) {
  for (const auto& replica : replicas(service)) {
    auto state = state_of(replica);
    if (state && !(*state)["host"].is_null()) return state;
  }
  return fail(Code::kUnavailable, "{} has no leader", service);
}

}  // namespace qm::demo
