#include "support.hpp"

#include "qm/http/http.hpp"
#include "qm/pg/connection.hpp"
#include "qm/rpc/channel.hpp"
#include "quartermaster/v1/admission_service.grpc.pb.h"
#include "quartermaster/v1/cost_service.grpc.pb.h"
#include "quartermaster/v1/placement_service.grpc.pb.h"
#include "quartermaster/v1/telemetry_service.grpc.pb.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <arpa/inet.h>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

namespace qm::e2e {
namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kLook = 50ms;
constexpr auto kCall = 10s;

/// Programs read files of the source tree by relative path, as with `./qm`.
void enter_sources() { fs::current_path(QM_SOURCE_DIR); }

std::vector<std::string> split_zeros(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, '\0');) parts.push_back(part);
  return parts;
}

/// True for a process that has ended, even if its parent has not reaped it.
bool gone(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(in, text)) return true;
  const auto bracket = text.rfind(") ");
  return bracket == std::string::npos || text[bracket + 2] == 'Z' || text[bracket + 2] == 'X';
}

/// One blocking call, retried while it is UNAVAILABLE, until the timeout. It uses a new channel, because after a
/// restart an old connection would delay it.
template <class Stub, class Request, class Response>
Result<Response> call(const std::string& address,
                      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                      const std::function<std::unique_ptr<Stub>(std::shared_ptr<grpc::Channel>)>& make,
                      const Request& request, std::chrono::milliseconds timeout = kCall,
                      const std::string& trace_parent = {}) {
  const auto stub = make(rpc::channel_to(address));
  const auto until = std::chrono::system_clock::now() + timeout;
  Response response;
  grpc::Status status;
  (void)testing::wait_until(
      [&] {
        grpc::ClientContext context;
        context.set_deadline(until);
        if (!trace_parent.empty()) context.AddMetadata("traceparent", trace_parent);
        status = (stub.get()->*method)(&context, request, &response);
        return status.error_code() != grpc::StatusCode::UNAVAILABLE;
      },
      timeout);
  if (!status.ok()) return fail(Error{static_cast<Code>(status.error_code()), status.error_message(), {}, {}});
  return response;
}

/// Sends one message to any method and returns the first answer, both as bytes; empty if there is none.
std::string raw_call(const std::string& address, const std::string& method, const std::string& request) {
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCall);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, method, &queue);
  bool ok = true;
  const auto done = [&] {
    void* tag = nullptr;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  if (!done()) return {};
  const grpc::Slice out(request.data(), request.size());
  call->WriteLast(grpc::ByteBuffer(&out, 1), {}, nullptr);
  if (!done()) return {};
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  const bool read = done();
  grpc::Status status;
  call->Finish(&status, nullptr);
  (void)done();
  grpc::Slice in;
  if (!read || !answer.DumpToSingleSlice(&in).ok()) return {};
  return {reinterpret_cast<const char*>(in.begin()), in.size()};
}

}  // namespace

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds timeout) {
  auto next = std::chrono::steady_clock::now();
  return testing::wait_until(
      [&] {
        if (std::chrono::steady_clock::now() < next) return false;
        if (condition()) return true;
        next = std::chrono::steady_clock::now() + kLook;
        return false;
      },
      timeout);
}

std::string program(const std::string& name) { return std::string(QM_BIN_DIR) + "/" + name; }

Ran run(std::vector<std::string> argv, std::chrono::seconds timeout, std::map<std::string, std::string> env) {
  enter_sources();
  const testing::TempDir dir;
  testing::Process::Options options;
  options.argv = std::move(argv);
  options.env = std::move(env);
  options.output = dir.path() + "/output";
  auto process = testing::Process::start(std::move(options));
  if (!process) return {-1, process.error().to_string()};
  const auto code = (*process)->wait(timeout);
  return {code.value_or(-1), testing::read_file(dir.path() + "/output")};
}

const std::vector<std::string>& Suite::services() {
  static const std::vector<std::string> names = {"admission", "placement", "autoscaler", "telemetry", "cost"};
  return names;
}

Result<std::unique_ptr<Suite>> Suite::up(const std::vector<std::string>& more) {
  std::unique_ptr<Suite> suite(new Suite());
  const std::string dir = suite->dir();
  std::vector<std::string> argv = {program("qm-demo"), "--up", "--dir", dir};
  argv.insert(argv.end(), more.begin(), more.end());
  const Ran ran = run(argv, 120s);
  if (ran.code != 0) return fail(Code::kUnavailable, "qm-demo --up ended with {}: {}", ran.code, ran.output);
  // The suite runs in its own session. If this process dies, a watcher must stop it.
  (void)run({"setsid", "-f", "sh", "-c",
             fmt::format("tail --pid={} -f /dev/null; exec {} --down --dir {}", ::getpid(), program("qm-demo"), dir)},
            10s);
  QM_ASSIGN(suite->endpoints_, Json::parse(testing::read_file(dir + "/endpoints.json")));

  QM_TRY(suite->kubectl_create(
      "/api/v1/namespaces",
      Json::object({{"apiVersion", "v1"}, {"kind", "Namespace"}, {"metadata", Json::object({{"name", kNamespace}})}})));
  const Ran applied = suite->qmctl({"apply", "-f", "tests/e2e/queues.yaml"});
  if (applied.code != 0) return fail(Code::kInternal, "no queues: {}", applied.output);
  return suite;
}

Suite::~Suite() {
  for (auto& [name, process] : restarted_) {
    if (name != "postgres") process->signal(SIGTERM);
  }
  for (auto& [name, process] : restarted_) {
    if (name != "postgres") (void)process->wait(10s);
  }
  (void)run({program("qm-demo"), "--down", "--dir", dir()}, 60s);
}

// ---- user actions ---------------------------------------------------------------------------------------------------

Ran Suite::qmctl(std::vector<std::string> args, std::chrono::seconds timeout) {
  args.insert(args.begin(), {program("qmctl"), "--endpoints", dir() + "/endpoints.json"});
  return run(std::move(args), timeout);
}

Status Suite::submit(const JobAsk& ask, std::chrono::milliseconds timeout) {
  pb::SubmitRequest request;
  request.set_request_id("e2e/" + ask.name);
  auto* spec = request.mutable_spec();
  spec->set_namespace_(kNamespace);
  spec->set_name(ask.name);
  spec->set_kind("Job");
  spec->set_queue(ask.queue);
  spec->set_team(kNamespace);
  spec->set_checkpoints(ask.saves);
  auto* set = spec->add_pod_sets();
  set->set_name("main");
  set->set_count(ask.pods);
  set->mutable_shape()->set_cpu_milli(4000);
  set->mutable_shape()->set_memory_bytes(std::int64_t{1} << 30);
  set->mutable_shape()->mutable_gpu()->set_whole(ask.gpus);
  (*request.mutable_pod_annotations())["fleet.quartermaster.dev/run-seconds"] = std::to_string(ask.run_s);
  QM_TRY((call<pb::Admission::Stub>(
      grpc("admission"), &pb::Admission::Stub::Submit, [](auto channel) { return pb::Admission::NewStub(channel); },
      request, timeout, ask.trace_parent)));
  return {};
}

Status Suite::kubectl_create(const std::string& path, const Json& object) {
  QM_ASSIGN(const auto made, kube("POST", path, object));
  if (made.status != 201) return fail(Code::kInternal, "POST {}: {} {}", path, made.status, made.body);
  return {};
}

Result<http::Response> Suite::kube(const std::string& method, const std::string& target, const Json& body) {
  http::Client client(endpoints_["kube"].string());
  http::Request request{.method = method, .target = target, .headers = {}, .body = body.is_null() ? "" : body.dump()};
  request.headers.set("Content-Type", method == "PATCH" ? "application/merge-patch+json" : "application/json");
  return client.send(request);
}

Result<pb::Workload> Suite::workload(const std::string& name, const std::string& ns) {
  pb::GetWorkloadRequest request;
  request.set_namespace_(ns);
  request.set_name(name);
  return call<pb::Admission::Stub>(
      grpc("admission"), &pb::Admission::Stub::Get, [](auto channel) { return pb::Admission::NewStub(channel); },
      request);
}

Result<pb::QueryResponse> Suite::readings() {
  pb::QueryRequest request;
  request.set_page_size(1000);
  return call<pb::Telemetry::Stub>(
      grpc("telemetry"), &pb::Telemetry::Stub::Query, [](auto channel) { return pb::Telemetry::NewStub(channel); },
      request);
}

Result<pb::Statement> Suite::statement() {
  return call<pb::Cost::Stub>(
      grpc("cost"), &pb::Cost::Stub::GetStatement, [](auto channel) { return pb::Cost::NewStub(channel); },
      pb::GetStatementRequest());
}

Result<pb::ListAssignmentsResponse> Suite::assignments() {
  pb::ListAssignmentsRequest request;
  request.set_page_size(1000);
  return call<pb::Placement::Stub>(
      grpc("placement"), &pb::Placement::Stub::List, [](auto channel) { return pb::Placement::NewStub(channel); },
      request);
}

std::string Suite::reflected(const std::string& service) {
  const std::string list_services = "\x3a\x01*";  // field 7 of ServerReflectionRequest
  return raw_call(grpc(service), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", list_services);
}

bool Suite::serving(const std::string& service) {
  return raw_call(grpc(service), "/grpc.health.v1.Health/Check", "") == "\x08\x01";  // status SERVING
}

std::vector<std::string> Suite::log_lines(const std::string& service, const std::vector<std::string>& words) {
  std::vector<std::string> lines;
  std::ifstream in(fmt::format("{}/logs/{}.log", dir(), service));
  for (std::string line; std::getline(in, line);) {
    if (std::ranges::all_of(words, [&](const auto& w) { return line.find(w) != std::string::npos; }))
      lines.push_back(line);
  }
  return lines;
}

std::string Suite::account_of(const std::string& name) {
  const auto own = restarted_.find(name);
  const int process = pid(name);
  std::string out = name + ": process " + std::to_string(process);
  if (own != restarted_.end() && !own->second->running()) {
    out += " has ended with " + std::to_string(own->second->wait(0ms).value_or(-1));
  } else {
    out += gone(process) ? " has ended" : " runs";
  }
  http::ClientOptions options;
  options.timeout = 5s;
  http::Client client(page(name), options);
  for (const char* target : {"/healthz", "/readyz", "/debug/state"}) {
    const auto answer = client.send({.method = "GET", .target = target, .headers = {}, .body = {}});
    out += fmt::format(
        "\n{}: {}", target,
        answer ? fmt::format("{} {}", answer->status, answer->body.substr(0, 1000)) : answer.error().to_string());
  }
  const auto service = name.substr(0, name.find('-'));
  if (const auto session = pg::Connection::open(postgres(), {.application_name = "e2e"}); session) {
    const auto rows = (*session)->exec(
        fmt::format("select (select l::text from {0}.lease l), (select l::text from {0}.leader l), now()::text",
                    pg::quote_name(service)));
    out += rows ? fmt::format("\nlease {}\nleader {}\nat {}", rows->text(0, 0), rows->text(0, 1), rows->text(0, 2))
                : "\n" + rows.error().to_string();
  }
  const auto lines = log_lines(name, {});
  out += "\nlog:";
  for (std::size_t i = lines.size() - std::min<std::size_t>(lines.size(), 30); i < lines.size(); ++i)
    out += "\n" + lines[i];
  if (!gone(process)) {
    const auto stacks = run({"gdb", "-p", std::to_string(process), "-batch", "-ex", "thread apply all bt 12"}, 30s);
    out += "\nthreads:\n" + stacks.output.substr(0, 60'000);
  }
  return out;
}

bool Suite::finished(const std::string& name) {
  const auto found = workload(name);
  return found && found->state().phase() == pb::FINISHED && found->state().succeeded();
}

// ---- pages for operators --------------------------------------------------------------------------------------------

std::string Suite::page(const std::string& name) const {
  if (const Json* known = endpoints_["http"].find(name)) return known->string();
  for (const auto& service : services()) {
    if (const Json* replica = endpoints_["replicas"][service].find(name)) return (*replica)["http"].string();
  }
  return {};
}

std::vector<std::string> Suite::replicas(const std::string& service) const {
  std::vector<std::string> names;
  for (const auto& [name, replica] : endpoints_["replicas"][service].members()) names.push_back(name);
  return names;
}

std::string Suite::leader(const std::string& service) {
  for (const auto& name : replicas(service)) {
    if (gone(pid(name))) continue;
    const auto state = debug_state(name);
    if (state && (*state)["host"]["ready"].boolean()) return name;
  }
  return {};
}

bool Suite::ready(const std::string& service) {
  http::ClientOptions options;
  options.timeout = 2s;
  http::Client client(page(service), options);
  const auto answer = client.send({.method = "GET", .target = "/readyz", .headers = {}, .body = {}});
  return answer && answer->status == 200;
}

Result<Json> Suite::debug_state(const std::string& service) {
  http::ClientOptions options;
  options.timeout = 5s;
  http::Client client(page(service), options);
  QM_ASSIGN(const auto answer, client.send({.method = "GET", .target = "/debug/state", .headers = {}, .body = {}}));
  if (answer.status != 200) return fail(Code::kUnavailable, "{} /debug/state: {}", service, answer.status);
  return Json::parse(answer.body);
}

bool Suite::quiet(std::string* who) {
  for (const auto& service : services()) {
    const auto leads = leader(service);
    const auto state = debug_state(leads.empty() ? service : leads);
    if (!state) {
      if (who != nullptr) *who = state.error().to_string();
      return false;
    }
    for (const char* counter : {"outbox_backlog", "mailbox", "bus_lag", "open_intents"}) {
      const auto value = (*state)["host"][counter].integer();
      if (value == 0) continue;
      if (who != nullptr) *who = fmt::format("{} has {} {}", service, value, counter);
      return false;
    }
  }
  return true;
}

// ---- fault injection ------------------------------------------------------------------------------------------------

int Suite::pid(const std::string& name) const {
  const auto it = restarted_.find(name);
  return it != restarted_.end() ? it->second->pid() : static_cast<int>(endpoints_["pids"][name].integer());
}

std::vector<std::string> Suite::command_line(const std::string& service) const {
  return split_zeros(testing::read_file(fmt::format("/proc/{}/cmdline", pid(service))));
}

void Suite::signal(const std::string& service, int number) {
  const int target = pid(service);
  if (target > 0 && !gone(target)) ::kill(target, number);
}

Status Suite::stop_all() {
  for (const auto& service : services()) QM_TRY(remember(service));
  for (const auto& service : services()) signal(service, SIGTERM);
  for (const auto& service : services()) QM_TRY(wait_gone(service));
  return {};
}

Status Suite::stop(const std::string& service, int number) {
  QM_TRY(remember(service));
  signal(service, number);
  return wait_gone(service);
}

Status Suite::remember(const std::string& service) {
  const int target = pid(service);
  if (target <= 0 || gone(target)) return fail(Code::kNotFound, "{} does not run\n{}", service, account_of(service));
  if (auto [seen, first] = programs_.try_emplace(service); first) {
    seen->second.argv = command_line(service);
    for (const auto& line : split_zeros(testing::read_file(fmt::format("/proc/{}/environ", target)))) {
      if (const auto equals = line.find('='); equals != std::string::npos)
        seen->second.env[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  return {};
}

Status Suite::wait_gone(const std::string& service) {
  // The suite is our child process, so it is reaped here.
  const int target = pid(service);
  const auto own = restarted_.find(service);
  const bool ended =
      testing::wait_until([&] { return own != restarted_.end() ? !own->second->running() : gone(target); }, 20s);
  if (!ended) return fail(Code::kDeadlineExceeded, "{} does not end on a signal", service);
  return {};
}

Status Suite::start(const std::string& service) {
  QM_TRY(launch(service));
  return wait_ready(service);
}

Status Suite::launch(const std::string& service, const std::map<std::string, std::string>& flags) {
  const auto it = programs_.find(service);
  if (it == programs_.end()) return fail(Code::kFailedPrecondition, "{} was never stopped", service);
  enter_sources();
  auto argv = it->second.argv;
  for (std::size_t i = 0; i + 1 < argv.size(); ++i) {
    if (const auto flag = flags.find(argv[i]); flag != flags.end()) argv[i + 1] = flag->second;
  }
  QM_ASSIGN(restarted_[service],
            testing::Process::start({std::move(argv), it->second.env, fmt::format("{}/logs/{}.log", dir(), service)}));
  return {};
}

Status Suite::wait_ready(const std::string& service) {
  auto& process = *restarted_.at(service);
  const bool up = eventually([&] { return !process.running() || ready(service); }, 60s);
  if (!up || !process.running())
    return fail(Code::kUnavailable, "{} does not come back\n{}", service, account_of(service));
  return {};
}

Status Suite::kill_postgres() {
  QM_ASSIGN(const auto connection, pg::Connection::open(postgres(), {.application_name = "e2e"}));
  QM_ASSIGN(const auto rows, connection->exec("select current_setting('data_directory'), "
                                              "current_setting('unix_socket_directories'), current_setting('port')"));
  const std::string pid_file = rows.str(0, 0) + "/postmaster.pid";
  std::ifstream in(pid_file);
  int postmaster = 0;
  if (!(in >> postmaster)) return fail(Code::kInternal, "no {}", pid_file);
  programs_["postgres"].argv = split_zeros(testing::read_file(fmt::format("/proc/{}/cmdline", postmaster)));
  // While stopped, it starts no more children.
  ::kill(postmaster, SIGSTOP);
  std::vector<int> family = {postmaster};
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", postmaster));
  for (int child = 0; children >> child;) family.push_back(child);
  for (const int member : family) ::kill(member, SIGKILL);
  if (!testing::wait_until([&] { return std::all_of(family.begin(), family.end(), gone); })) {
    return fail(Code::kInternal, "PostgreSQL survives SIGKILL");
  }
  // The parent reaps it only at the end; until then a new server would consider the pid in its files a running server.
  fs::remove(pid_file);
  fs::remove(fmt::format("{}/.s.PGSQL.{}.lock", rows.text(0, 1), rows.text(0, 2)));
  return {};
}

Status Suite::restart_postgres() {
  std::vector<std::string> argv = programs_["postgres"].argv;
  if (::geteuid() == 0) {
    argv.insert(argv.begin(),
                {"setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--pdeathsig", "KILL"});
  }
  QM_ASSIGN(restarted_["postgres"],
            testing::Process::start({argv, {{"LC_ALL", "C"}, {"TZ", "UTC"}}, dir() + "/logs/postgres.log"}));
  auto& process = *restarted_["postgres"];
  const bool up = eventually(
      [&] { return !process.running() || pg::Connection::open(postgres(), {.application_name = "e2e"}).has_value(); },
      60s);
  if (!up || !process.running())
    return fail(Code::kUnavailable, "PostgreSQL does not come back: {}",
                testing::read_file(dir() + "/logs/postgres.log"));
  return {};
}

Result<std::string> Suite::redis(const std::string& command) {
  const std::string address = endpoints_["redis"].string();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const timeval limit{2, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) {
    // After QUIT the server closes, so the answer is all that comes.
    const std::string line = command + "\r\nQUIT\r\n";
    (void)!::send(fd, line.data(), line.size(), MSG_NOSIGNAL);
    char buffer[4096];
    for (ssize_t n = 0; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
      answer.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(fd);
  if (answer.empty()) return fail(Code::kUnavailable, "Redis at {} does not answer", address);
  return answer;
}

Status Suite::kill_redis() {
  QM_ASSIGN(const auto info, redis("INFO server"));
  const auto at = info.find("process_id:");
  if (at == std::string::npos) return fail(Code::kInternal, "Redis has no process id: {}", info);
  const int target = std::stoi(info.substr(at + 11));
  ::kill(target, SIGKILL);
  if (!testing::wait_until([&] { return gone(target); })) return fail(Code::kInternal, "Redis survives SIGKILL");
  return {};
}

Status Suite::restart_redis() {
  const std::string address = endpoints_["redis"].string();
  QM_ASSIGN(restarted_["redis"], testing::Process::start({{"redis-server", "--bind", "127.0.0.1", "--port",
                                                           address.substr(address.rfind(':') + 1), "--save", "",
                                                           "--appendonly", "no", "--dir", dir()},
                                                          {},
                                                          dir() + "/logs/redis.log"}));
  if (!eventually([&] { return redis("PING").has_value(); }))
    return fail(Code::kUnavailable, "Redis does not come back");
  return {};
}

// ---- the fleet ------------------------------------------------------------------------------------------------------

Result<Json> Suite::fleet(const std::string& method, const std::string& path, const Json& body) {
  http::Client client(endpoints_["fleet"].string());
  QM_ASSIGN(const auto answer,
            client.send({.method = method, .target = path, .headers = {}, .body = body.is_null() ? "" : body.dump()}));
  if (answer.status >= 300) return fail(Code::kInternal, "fleet {}: {} {}", path, answer.status, answer.body);
  return Json::parse(answer.body.empty() ? "{}" : answer.body);
}

Status Suite::clock(double factor) {
  QM_TRY(fleet("POST", "/fleet/clock", Json::object({{"factor", factor}})));
  return {};
}

Result<Json> Suite::fleet_state() { return fleet("GET", "/fleet/state", Json()); }

Result<Json> Suite::fault(const Json& fault) { return fleet("POST", "/fleet/faults", fault); }

int Suite::count(const std::string& event, const std::string& job) {
  std::ifstream in(dir() + "/fleet/history.jsonl");
  const std::string full = fmt::format("{}/{}", kNamespace, job);
  std::string uid;
  int seen = 0;
  for (std::string text; std::getline(in, text);) {
    // Most lines are about other jobs and are not parsed.
    if (text.find(uid.empty() ? full : uid) == std::string::npos) continue;
    const auto line = Json::parse(text);
    if (!line) continue;
    const std::string kind = (*line)["e"].string();
    if (kind == "job_create" && (*line)["job"].string() == full) uid = (*line)["uid"].string();
    if (uid.empty() || kind != event) continue;
    const std::string of = (*line)[kind.starts_with("pod_") ? "owner" : "uid"].string();
    if (of == uid) ++seen;
  }
  return seen;
}

}  // namespace qm::e2e
