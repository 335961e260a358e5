#include "qm/testing/testing.hpp"

#include "qm/base/assert.hpp"
#include "spawn.hpp"

#include <arpa/inet.h>
#include <cstddef>
#include <filesystem>
#include <mutex>
#include <netinet/in.h>
#include <random>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

extern "C" __attribute__((weak)) void __asan_init();  // NOLINT: of the sanitizer's library, where it is linked

namespace qm::testing {

TempDir::TempDir() {
  const char* base = std::getenv("TMPDIR");
  // Unix sockets are created in this folder, and their paths are limited to 107 bytes.
  const std::string parent = base != nullptr && std::string_view(base).size() < 60 ? base : "/tmp";
  path_ = parent + "/qm-test-XXXXXX";
  QM_ASSERT(::mkdtemp(path_.data()) != nullptr, "cannot make {}", path_);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

struct Process::Impl {
  Child child;
};

Result<std::unique_ptr<Process>> Process::start(Options options) {
  Spawn spawn;
  spawn.argv = std::move(options.argv);
  spawn.env = std::move(options.env);
  spawn.output = std::move(options.output);
  QM_ASSIGN(Child child, Child::start(spawn));
  auto process = std::make_unique<Process>();
  process->impl_ = std::make_unique<Impl>(Impl{child});
  return process;
}

Process::~Process() {
  if (impl_) impl_->child.kill9();
}

pid_t Process::pid() const { return impl_->child.pid(); }
void Process::signal(int number) { impl_->child.signal(number); }
std::optional<int> Process::wait(std::chrono::milliseconds timeout) { return impl_->child.wait(timeout); }
bool Process::running() { return impl_->child.running(); }

bool wait_until(const std::function<bool()>& condition, std::chrono::milliseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (condition()) return true;
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

namespace {

/// Reserves a port for this process until it ends, by an abstract Unix socket named after it. A port is free until
/// its server binds it: of the twenty or so that each of two suites draws first, two would be equal once in fifty
/// starts.
bool reserved(int port) {
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "quartermaster-test-port-" + std::to_string(port);
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0) return true;
  if (fd >= 0) ::close(fd);
  return false;
}

}  // namespace

bool address_sanitizer() { return __asan_init != nullptr; }

int free_port() {
  // Below the range of local ports of outgoing connections: a port in that range may be in use by an outgoing
  // connection by the time a server binds it.
  static std::minstd_rand draw{std::random_device{}()};
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = std::uniform_int_distribution(10'240, 32'767)(draw);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const bool bound = fd >= 0 && ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    if (fd >= 0) ::close(fd);
    if (bound && reserved(port)) return port;
  }
  QM_ASSERT(false, "no free loopback port");
  return 0;
}

}  // namespace qm::testing
