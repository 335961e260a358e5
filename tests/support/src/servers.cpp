#include "qm/testing/testing.hpp"
#include "spawn.hpp"

#include <pqxx/pqxx>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace qm::testing {
namespace {

using namespace std::chrono_literals;
constexpr const char* kPostgresUser = "postgres";

/// The programs of the newest installed server, or "" if there is none.
std::string postgres_bin() {
  std::error_code ignored;
  std::string best;
  int newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/usr/lib/postgresql", ignored)) {
    const int version = std::atoi(entry.path().filename().c_str());
    if (version > newest && std::filesystem::exists(entry.path() / "bin/initdb")) {
      newest = version;
      best = entry.path() / "bin";
    }
  }
  return best;
}

bool redis_answers(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const timeval limit{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char answer[5] = {};
  const bool pong = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                    ::send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && ::recv(fd, answer, 5, MSG_WAITALL) == 5 &&
                    std::string_view(answer, 5) == "+PONG";
  ::close(fd);
  return pong;
}

}  // namespace

struct Postgres::Impl {
  TempDir dir;
  std::string bin = postgres_bin();
  int port = 0;
  Child server;
  std::atomic<int> databases{0};

  [[nodiscard]] std::string log() const { return dir.path() + "/log"; }
  [[nodiscard]] std::string data() const { return dir.path() + "/data"; }
  [[nodiscard]] std::string conninfo(const std::string& database) const {
    return fmt::format("host={} port={} user=postgres dbname={}", dir.path(), port, database);
  }
  [[nodiscard]] Spawn program(std::vector<std::string> argv) const {
    argv[0] = bin + "/" + argv[0];
    return Spawn{std::move(argv), {{"LC_ALL", "C"}, {"TZ", "UTC"}}, log(), kPostgresUser};
  }

  Status initialise() {
    if (bin.empty()) return fail(Code::kNotFound, "no PostgreSQL server is installed (package postgresql-15)");
    if (::geteuid() == 0) {
      const passwd* user = ::getpwnam(kPostgresUser);
      if (user == nullptr)
        return fail(Code::kNotFound, "we are root and there is no user postgres to run the server as");
      if (::chown(dir.path().c_str(), user->pw_uid, user->pw_gid) != 0) {
        return fail(Code::kPermissionDenied, "cannot give {} to postgres", dir.path());
      }
    }
    return run_program(program({"initdb", "-D", data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale",
                                "--no-sync", "--no-instructions"}),
                       dir.path() + "/initdb", 120s);
  }

  /// The data need not survive a power loss, but must survive the server's crash, which tests provoke.
  Status start() {
    std::vector<std::string> argv{"postgres", "-D", data(), "-p", std::to_string(port), "-k", dir.path()};
    for (const char* setting :
         {"listen_addresses=127.0.0.1", "fsync=off", "full_page_writes=off", "max_connections=200",
          "shared_buffers=32MB", "dynamic_shared_memory_type=mmap", "autovacuum=off", "restart_after_crash=off"}) {
      argv.insert(argv.end(), {"-c", setting});
    }
    auto started = Child::start(program(argv));
    if (!started) return fail(started.error());
    server = *started;
    std::string last;
    const bool ready = wait_until(
        [&] {
          if (!server.running()) return true;
          try {
            const pqxx::connection probe(conninfo("postgres"));
            last.clear();
            return true;
          } catch (const std::exception& error) {
            last = error.what();
            return false;
          }
        },
        60s);
    if (ready && server.running()) return {};
    kill9();
    return fail(Code::kUnavailable, "PostgreSQL did not start: {}\n{}", last, read_file(log()));
  }

  void kill9() {
    if (!server.running()) return;
    // Its children are in their own sessions, so a signal to the group does not reach them; while stopped, it starts
    // no more.
    server.signal(SIGSTOP);
    const std::vector<pid_t> children = children_of(server.pid());
    for (const pid_t child : children) ::kill(child, SIGKILL);
    server.kill9();
    wait_until(
        [&] { return std::all_of(children.begin(), children.end(), [](pid_t p) { return ::kill(p, 0) != 0; }); });
  }

  ~Impl() {
    if (!server.running()) return;
    server.signal(SIGINT);
    if (!server.wait(5s)) kill9();
  }
};

Postgres* Postgres::shared(std::string* why_not) {
  static std::string reason;
  static const std::unique_ptr<Postgres> server = [] {
    auto made = std::make_unique<Postgres>();
    made->impl_ = std::make_unique<Impl>();
    Status status = made->impl_->initialise();
    // Another program may bind the port between our check and the server's bind.
    for (int tries = 0; status && tries < 3; ++tries) {
      made->impl_->port = free_port();
      status = made->impl_->start();
      if (status) return made;
      reason = status.error().to_string();
      status = {};
    }
    if (!status) reason = status.error().to_string();
    return std::unique_ptr<Postgres>();
  }();
  if (!server && why_not != nullptr) *why_not = reason;
  return server.get();
}

std::string Postgres::fresh_database() {
  const std::string name = fmt::format("test_{}", ++impl_->databases);
  pqxx::connection connection(impl_->conninfo("postgres"));
  pqxx::nontransaction(connection).exec("CREATE DATABASE " + name);
  return impl_->conninfo(name);
}

void Postgres::kill9() { impl_->kill9(); }

Status Postgres::restart() {
  impl_->kill9();
  return impl_->start();
}

Postgres::~Postgres() = default;

struct Redis::Impl {
  TempDir dir;
  int port = 0;
  Child server;

  Status start() {
    const std::string log = dir.path() + "/log";
    auto started = Child::start(Spawn{{"redis-server", "--bind", "127.0.0.1", "--port", std::to_string(port), "--save",
                                       "", "--appendonly", "no", "--dir", dir.path()},
                                      {},
                                      log,
                                      {}});
    if (!started) return fail(started.error());
    server = *started;
    const bool ready = wait_until([&] { return !server.running() || redis_answers(port); });
    if (ready && server.running()) return {};
    server.kill9();
    return fail(Code::kUnavailable, "redis-server did not start: {}", read_file(log));
  }
};

std::unique_ptr<Redis> Redis::start(std::string* why_not) {
  auto redis = std::make_unique<Redis>();
  redis->impl_ = std::make_unique<Impl>();
  for (int tries = 0; tries < 3; ++tries) {
    redis->impl_->port = free_port();
    const Status status = redis->impl_->start();
    if (status) return redis;
    if (why_not != nullptr) *why_not = status.error().to_string();
  }
  return nullptr;
}

Redis::~Redis() {
  if (impl_) impl_->server.kill9();
}
int Redis::port() const { return impl_->port; }
void Redis::kill9() { impl_->server.kill9(); }

Status Redis::restart() {
  impl_->server.kill9();
  return impl_->start();
}

}  // namespace qm::testing
