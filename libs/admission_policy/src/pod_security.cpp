// The Pod Security Standards, rule by rule. Baseline forbids access to the host; restricted also requires a pod to
// drop privileges that it does not need.
#include "qm/admission_policy/pod_security.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

namespace qm::admission_policy {
namespace {

using Findings = std::vector<Finding>;

/// One pod that is checked.
struct Examined {
  const Json& spec;
  PodSecurity level;
  Findings& out;

  void refuse(std::string field, std::string what, std::string remedy) const {
    out.push_back({"pod-security", std::move(what), std::move(field), std::move(remedy)});
  }
};

template <class Do>
void each_container_at(const Json& spec, const Do& act) {
  for (const char* list : {"initContainers", "containers", "ephemeralContainers"}) {
    const auto& items = spec[list].items();
    for (std::size_t i = 0; i < items.size(); ++i) act(items[i], fmt::format("spec.{}[{}]", list, i));
  }
}

/// Calls `act` with the security context of the pod and of each container, and the field.
template <class Do>
void each_context(const Json& spec, const Do& act) {
  act(spec["securityContext"], "spec.securityContext");
  each_container_at(spec,
                    [&](const Json& c, const std::string& at) { act(c["securityContext"], at + ".securityContext"); });
}

template <std::size_t N>
bool among(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

bool names(const Json& object, const char* key) { return !object[key].is_null(); }

// ---- baseline ------------------------------------------------------------------------------------------------------

void host_namespaces(const Examined& pod) {
  for (const char* key : {"hostNetwork", "hostPID", "hostIPC"}) {
    if (pod.spec[key].boolean()) pod.refuse(fmt::format("spec.{}", key), fmt::format("{} is true", key), "remove it");
  }
}

void privileged(const Examined& pod) {
  each_context(pod.spec, [&](const Json& context, const std::string& at) {
    if (context["privileged"].boolean()) pod.refuse(at + ".privileged", "it is privileged", "set it to false");
    if (context["windowsOptions"]["hostProcess"].boolean())
      pod.refuse(at + ".windowsOptions.hostProcess", "it is a process of the host", "set it to false");
  });
}

void capabilities(const Examined& pod) {
  static constexpr std::array<std::string_view, 13> kBaseline{
      "AUDIT_WRITE",      "CHOWN",   "DAC_OVERRIDE", "FOWNER",  "FSETID", "KILL",      "MKNOD",
      "NET_BIND_SERVICE", "SETFCAP", "SETGID",       "SETPCAP", "SETUID", "SYS_CHROOT"};
  const bool restricted = pod.level == PodSecurity::kRestricted;
  each_container_at(pod.spec, [&](const Json& container, const std::string& at) {
    const auto& caps = container["securityContext"]["capabilities"];
    for (const auto& one : caps["add"].items()) {
      const auto& name = one.string();
      if (restricted ? name == "NET_BIND_SERVICE" : among(kBaseline, name)) continue;
      pod.refuse(at + ".securityContext.capabilities.add", fmt::format("it adds capability {}", name), "remove it");
    }
    if (restricted && std::ranges::none_of(caps["drop"].items(), [](const Json& d) { return d.string() == "ALL"; }))
      pod.refuse(at + ".securityContext.capabilities.drop", "it keeps capabilities", "set drop to [ALL]");
  });
}

void volumes(const Examined& pod) {
  static constexpr std::array<std::string_view, 9> kAllowed{"configMap", "csi",       "downwardAPI",
                                                            "emptyDir",  "ephemeral", "persistentVolumeClaim",
                                                            "projected", "secret",    "image"};
  const auto& items = pod.spec["volumes"].items();
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const auto& [kind, value] : items[i].members()) {
      if (kind == "name") continue;
      const bool refused = pod.level == PodSecurity::kRestricted ? !among(kAllowed, kind) : kind == "hostPath";
      if (!refused) continue;
      pod.refuse(fmt::format("spec.volumes[{}].{}", i, kind),
                 fmt::format("volume {} is a {}", items[i]["name"].string(), kind),
                 "use a persistentVolumeClaim, or emptyDir");
    }
  }
}

void host_ports(const Examined& pod) {
  each_container_at(pod.spec, [&](const Json& container, const std::string& at) {
    for (const auto& port : container["ports"].items()) {
      if (port["hostPort"].integer() != 0)
        pod.refuse(at + ".ports.hostPort", fmt::format("it uses port {} of the host", port["hostPort"].integer()),
                   "remove it; a Service reaches the pod");
    }
  });
}

void app_armor(const Examined& pod) {
  each_context(pod.spec, [&](const Json& context, const std::string& at) {
    if (context["appArmorProfile"]["type"].string() == "Unconfined")
      pod.refuse(at + ".appArmorProfile.type", "AppArmor is off", "use RuntimeDefault or Localhost");
  });
}

void selinux(const Examined& pod) {
  static constexpr std::array<std::string_view, 5> kTypes{"", "container_t", "container_init_t", "container_kvm_t",
                                                          "container_engine_t"};
  each_context(pod.spec, [&](const Json& context, const std::string& at) {
    const auto& options = context["seLinuxOptions"];
    if (!among(kTypes, options["type"].string()))
      pod.refuse(at + ".seLinuxOptions.type", "its SELinux type is not one of containers", "remove it");
    for (const char* key : {"user", "role"}) {
      if (!options[key].string().empty())
        pod.refuse(fmt::format("{}.seLinuxOptions.{}", at, key), fmt::format("it sets the SELinux {}", key),
                   "remove it");
    }
  });
}

void proc_mount(const Examined& pod) {
  each_container_at(pod.spec, [&](const Json& container, const std::string& at) {
    const auto& mount = container["securityContext"]["procMount"].string();
    if (!mount.empty() && mount != "Default")
      pod.refuse(at + ".securityContext.procMount", fmt::format("/proc is {}", mount), "remove it");
  });
}

void sysctls(const Examined& pod) {
  static constexpr std::array<std::string_view, 13> kSafe{"kernel.shm_rmid_forced",
                                                          "net.ipv4.ip_local_port_range",
                                                          "net.ipv4.ip_unprivileged_port_start",
                                                          "net.ipv4.tcp_syncookies",
                                                          "net.ipv4.ping_group_range",
                                                          "net.ipv4.ip_local_reserved_ports",
                                                          "net.ipv4.tcp_keepalive_time",
                                                          "net.ipv4.tcp_fin_timeout",
                                                          "net.ipv4.tcp_keepalive_intvl",
                                                          "net.ipv4.tcp_keepalive_probes",
                                                          "net.ipv4.tcp_rmem",
                                                          "net.ipv4.tcp_wmem",
                                                          "net.ipv4.tcp_notsent_lowat"};
  for (const auto& one : pod.spec["securityContext"]["sysctls"].items()) {
    if (!among(kSafe, one["name"].string()))
      pod.refuse("spec.securityContext.sysctls", fmt::format("it sets {}", one["name"].string()), "remove it");
  }
}

/// Baseline refuses Unconfined in every context; restricted requires one of the other types for each container.
void seccomp(const Examined& pod) {
  const auto confined = [](const Json& context) {
    const auto& type = context["seccompProfile"]["type"].string();
    return type == "RuntimeDefault" || type == "Localhost";
  };
  each_context(pod.spec, [&](const Json& context, const std::string& at) {
    if (names(context, "seccompProfile") && !confined(context))
      pod.refuse(at + ".seccompProfile.type", "seccomp is off", "use RuntimeDefault or Localhost");
  });
  if (pod.level != PodSecurity::kRestricted || confined(pod.spec["securityContext"])) return;
  each_container_at(pod.spec, [&](const Json& container, const std::string& at) {
    const auto& context = container["securityContext"];
    if (!names(context, "seccompProfile"))
      pod.refuse(at + ".securityContext.seccompProfile", "it has no seccomp profile",
                 "set spec.securityContext.seccompProfile.type to RuntimeDefault");
  });
}

// ---- restricted ----------------------------------------------------------------------------------------------------

void escalation(const Examined& pod) {
  each_container_at(pod.spec, [&](const Json& container, const std::string& at) {
    const auto& allowed = container["securityContext"]["allowPrivilegeEscalation"];
    if (allowed.is_null() || allowed.boolean())
      pod.refuse(at + ".securityContext.allowPrivilegeEscalation", "it may gain privileges", "set it to false");
  });
}

void non_root(const Examined& pod) {
  const auto& whole = pod.spec["securityContext"]["runAsNonRoot"];
  const bool by_pod = whole.boolean();
  if (names(pod.spec["securityContext"], "runAsNonRoot") && !by_pod)
    pod.refuse("spec.securityContext.runAsNonRoot", "it may run as root", "set it to true");
  each_container_at(pod.spec, [&](const Json& container, const std::string& at) {
    const auto& own = container["securityContext"]["runAsNonRoot"];
    if (own.is_null() ? by_pod || !whole.is_null() : own.boolean()) return;
    pod.refuse(at + ".securityContext.runAsNonRoot", "it may run as root",
               "set spec.securityContext.runAsNonRoot to true");
  });
  each_context(pod.spec, [&](const Json& context, const std::string& at) {
    if (names(context, "runAsUser") && context["runAsUser"].integer() == 0)
      pod.refuse(at + ".runAsUser", "it runs as root", "give a user id above 0");
  });
}

}  // namespace

std::optional<PodSecurity> pod_security_of(std::string_view word) {
  if (word == "privileged") return PodSecurity::kPrivileged;
  if (word == "baseline") return PodSecurity::kBaseline;
  if (word == "restricted") return PodSecurity::kRestricted;
  return std::nullopt;
}

Findings pod_security_findings(const Json& pod_spec, PodSecurity level) {
  Findings out;
  if (level == PodSecurity::kPrivileged) return out;
  const Examined pod{pod_spec, level, out};
  for (const auto rule : {host_namespaces, privileged, capabilities, volumes, host_ports, app_armor, selinux,
                          proc_mount, sysctls, seccomp})
    rule(pod);
  if (level == PodSecurity::kRestricted) {
    escalation(pod);
    non_root(pod);
  }
  return out;
}

}  // namespace qm::admission_policy
