#include "spawn.hpp"

#include "qm/testing/testing.hpp"

#include <grp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <sstream>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace qm::testing {
namespace {

/// Everything that the child needs, prepared before fork: between fork and exec only async-signal-safe calls are
/// allowed.
struct Prepared {
  std::vector<std::string> env_text;
  std::vector<char*> argv, envp;
  std::string output;
  uid_t uid = 0;
  gid_t gid = 0;
  bool change_user = false;
};

Result<Prepared> prepare(const Spawn& spawn) {
  if (spawn.argv.empty()) return fail(Code::kInvalid, "no program to start");
  Prepared out;
  for (const std::string& arg : spawn.argv) out.argv.push_back(const_cast<char*>(arg.c_str()));
  out.argv.push_back(nullptr);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!spawn.env.contains(std::string(text.substr(0, text.find('='))))) out.env_text.emplace_back(text);
  }
  for (const auto& [key, value] : spawn.env) out.env_text.push_back(key + "=" + value);
  for (std::string& text : out.env_text) out.envp.push_back(text.data());
  out.envp.push_back(nullptr);
  out.output = spawn.output.empty() ? "/dev/null" : spawn.output;
  if (!spawn.user.empty() && ::geteuid() == 0) {
    const passwd* entry = ::getpwnam(spawn.user.c_str());
    if (entry == nullptr) return fail(Code::kNotFound, "there is no user {}", spawn.user);
    out.uid = entry->pw_uid;
    out.gid = entry->pw_gid;
    out.change_user = true;
  }
  return out;
}

[[noreturn]] void become(const Prepared& prepared, pid_t parent, int report) {
  const auto give_up = [&] {
    const int error = errno;
    [[maybe_unused]] const auto written = ::write(report, &error, sizeof error);
    ::_exit(127);
  };
  ::setpgid(0, 0);
  const int in = ::open("/dev/null", O_RDONLY);
  const int out = ::open(prepared.output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (in < 0 || out < 0 || ::dup2(in, 0) < 0 || ::dup2(out, 1) < 0 || ::dup2(out, 2) < 0) give_up();
  if (prepared.change_user &&
      (::setgroups(0, nullptr) != 0 || ::setgid(prepared.gid) != 0 || ::setuid(prepared.uid) != 0)) {
    give_up();
  }
  // After the change of user, which clears it; and the parent may have exited before it took effect.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvpe(prepared.argv[0], prepared.argv.data(), prepared.envp.data());
  give_up();
  ::_exit(127);
}

}  // namespace

Result<Child> Child::start(const Spawn& spawn) {
  QM_ASSIGN(const Prepared prepared, prepare(spawn));
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) return fail(Code::kExhausted, "pipe: {}", std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(prepared, parent, report[1]);
  ::close(report[1]);
  int error = pid < 0 ? errno : 0;
  if (pid > 0 && ::read(report[0], &error, sizeof error) != sizeof error) error = 0;
  ::close(report[0]);
  if (error != 0) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    return fail(Code::kInvalid, "cannot start {}: {}", spawn.argv[0], std::strerror(error));
  }
  return Child(pid);
}

bool Child::reap() {
  if (pid_ <= 0 || status_) return true;
  int status = 0;
  const pid_t got = ::waitpid(pid_, &status, WNOHANG);
  if (got == pid_) {
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  } else if (got < 0 && errno == ECHILD) {
    status_ = 255;
  }
  return status_.has_value();
}

std::optional<int> Child::wait(std::chrono::milliseconds timeout) {
  wait_until([&] { return reap(); }, timeout);
  return status_;
}

void Child::signal(int number) {
  if (!reap()) ::kill(pid_, number);
}

void Child::signal_group(int number) {
  if (!reap()) ::kill(-pid_, number);
}

void Child::kill9() {
  signal_group(SIGKILL);
  wait(std::chrono::seconds(10));
}

Status run_program(Spawn spawn, const std::string& output, std::chrono::milliseconds timeout) {
  spawn.output = output;
  const std::string program = spawn.argv.empty() ? "" : spawn.argv[0];
  QM_ASSIGN(Child child, Child::start(spawn));
  const auto status = child.wait(timeout);
  if (!status) child.kill9();
  if (status == 0) return {};
  return fail(Code::kUnavailable, "{} {}: {}", program,
              status ? fmt::format("ended with {}", *status) : std::string("did not end in time"), read_file(output));
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return c >= '0' && c <= '9'; })) continue;
    // "pid (command) state parent ...": the command may contain spaces and brackets, so parse after its last bracket.
    std::ifstream in(entry.path() / "stat");
    std::string text;
    std::getline(in, text);
    const auto bracket = text.rfind(')');
    if (bracket == std::string::npos) continue;
    std::istringstream rest(text.substr(bracket + 1));
    std::string state;
    pid_t parent = 0;
    if (rest >> state >> parent && parent == pid) children.push_back(static_cast<pid_t>(std::stol(name)));
  }
  return children;
}

}  // namespace qm::testing
