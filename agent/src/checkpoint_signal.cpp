#include "checkpoint_signal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/syscall.h>
#include <unistd.h>

namespace qm::agent {
namespace {

constexpr std::string_view kSandbox = "pause";

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

bool is_of_pod(const std::string& process, const std::string& uid, const std::string& systemd_uid) {
  const auto cgroup = text_of(process + "/cgroup");
  return cgroup.find("pod" + uid) != std::string::npos || cgroup.find("pod" + systemd_uid) != std::string::npos;
}

/// Whether the process is number 1 of its innermost pid namespace, and not of the host's alone.
bool is_first(const std::string& process) {
  std::ifstream in(process + "/status");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("NSpid:")) continue;
    const auto numbers = std::ranges::count(line, '\t');
    return numbers > 1 && line.ends_with("\t1");
  }
  return false;
}

}  // namespace

int signal_number(std::string_view name) {
  if (name == "SIGUSR1") return SIGUSR1;
  if (name == "SIGUSR2") return SIGUSR2;
  if (name == "SIGHUP") return SIGHUP;
  return name == "SIGTERM" ? SIGTERM : 0;
}

std::vector<int> first_processes(const std::string& proc, const std::string& pod_uid) {
  std::vector<int> out;
  std::string systemd_uid = pod_uid;
  std::ranges::replace(systemd_uid, '-', '_');
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(proc, error)) {
    const auto name = entry.path().filename().string();
    int pid = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || end != name.data() + name.size()) continue;
    const auto process = entry.path().string();
    if (!is_of_pod(process, pod_uid, systemd_uid) || !is_first(process)) continue;
    if (text_of(process + "/comm").starts_with(kSandbox)) continue;
    out.push_back(pid);
  }
  std::ranges::sort(out);
  return out;
}

Status signal_pod(const std::string& proc, const std::string& pod_uid, std::string_view signal) {
  const auto pids = first_processes(proc, pod_uid);
  if (pids.empty()) return fail(Code::kNotFound, "no container of pod {} runs in {}", pod_uid, proc);
  std::string systemd_uid = pod_uid;
  std::ranges::replace(systemd_uid, '-', '_');
  for (const int pid : pids) {
    // The descriptor is of one process: after it, the number cannot come to mean another one.
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) continue;  // it has ended
    const bool same = is_of_pod(fmt::format("{}/{}", proc, pid), pod_uid, systemd_uid);
    const long sent = same ? ::syscall(SYS_pidfd_send_signal, fd, signal_number(signal), nullptr, 0) : 0;
    const int why = errno;
    ::close(fd);
    if (sent != 0 && why != ESRCH)
      return fail(Code::kPermissionDenied, "{} to process {} of pod {}: {}", signal, pid, pod_uid, std::strerror(why));
  }
  return {};
}

}  // namespace qm::agent
