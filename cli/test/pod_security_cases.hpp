#pragma once
#include "qm/base/json.hpp"

#include <functional>
#include <string>
#include <vector>

namespace qm::cli {

/// A pod that the restricted standard allows.
inline Json compliant_pod() {
  return *Json::parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{
    "securityContext":{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}},
    "volumes":[{"name":"cache","emptyDir":{}}],
    "containers":[{"name":"main","image":"i","securityContext":{"allowPrivilegeEscalation":false,
                   "capabilities":{"drop":["ALL"]}}}]}})");
}

struct PodChange {
  const char* what;
  std::function<void(Json& spec)> apply;
};

/// Each changes one field of a pod; some violate a standard, some do not.
inline const std::vector<PodChange>& pod_changes() {
  const auto json = [](const char* text) { return *Json::parse(text); };
  const auto pod = [json](const char* key, const char* value) {
    return [=](Json& spec) { spec.set("securityContext").set(key, json(value)); };
  };
  const auto container = [json](const char* key, const char* value) {
    return [=](Json& spec) { spec.set("containers").items_mut()[0].set("securityContext").set(key, json(value)); };
  };
  const auto volume = [json](const char* value) {
    return [=](Json& spec) { spec.set("volumes").push_back(json(value)); };
  };
  const auto more = [json](const char* list, const char* value) {
    return [=](Json& spec) { spec.set(list).push_back(json(value)); };
  };
  const auto without = [](const char* key) { return [=](Json& spec) { spec.set("securityContext").erase(key); }; };
  const auto own_without = [](const char* key) {
    return [=](Json& spec) { spec.set("containers").items_mut()[0].set("securityContext").erase(key); };
  };
  static const std::vector<PodChange> all{
      {"nothing", [](Json&) {}},
      {"hostNetwork", [](Json& spec) { spec.set("hostNetwork", true); }},
      {"hostPID", [](Json& spec) { spec.set("hostPID", true); }},
      {"hostIPC", [](Json& spec) { spec.set("hostIPC", true); }},
      {"hostPID false", [](Json& spec) { spec.set("hostPID", false); }},
      {"privileged",
       [](Json& spec) {
         auto& context = spec.set("containers").items_mut()[0].set("securityContext");
         context.erase("allowPrivilegeEscalation");
         context.set("privileged", true);
       }},
      {"privileged false", container("privileged", "false")},
      {"keeps capabilities", container("capabilities", R"({"drop":["NET_RAW"]})")},
      {"sets no capabilities", own_without("capabilities")},
      {"adds NET_BIND_SERVICE", container("capabilities", R"({"drop":["ALL"],"add":["NET_BIND_SERVICE"]})")},
      {"adds CHOWN", container("capabilities", R"({"drop":["ALL"],"add":["CHOWN"]})")},
      {"adds IPC_LOCK", container("capabilities", R"({"drop":["ALL"],"add":["IPC_LOCK"]})")},
      {"adds SYS_ADMIN", container("capabilities", R"({"drop":["ALL"],"add":["SYS_ADMIN"]})")},
      {"hostPath", volume(R"({"name":"h","hostPath":{"path":"/data"}})")},
      {"claim", volume(R"({"name":"h","persistentVolumeClaim":{"claimName":"c"}})")},
      {"nfs", volume(R"({"name":"h","nfs":{"server":"s","path":"/"}})")},
      {"secret", volume(R"({"name":"h","secret":{"secretName":"s"}})")},
      {"configMap", volume(R"({"name":"h","configMap":{"name":"c"}})")},
      {"downwardAPI", volume(R"({"name":"h","downwardAPI":{}})")},
      {"csi", volume(R"({"name":"h","csi":{"driver":"d.example.com"}})")},
      {"iscsi",
       volume(R"({"name":"h","iscsi":{"targetPortal":"10.0.0.1:3260","iqn":"iqn.2001-04.com.example:s","lun":0}})")},
      {"hostPort",
       [json](Json& spec) {
         spec.set("containers").items_mut()[0].set("ports", json(R"([{"containerPort":80,"hostPort":80}])"));
       }},
      {"port",
       [json](Json& spec) { spec.set("containers").items_mut()[0].set("ports", json(R"([{"containerPort":80}])")); }},
      {"AppArmor off", pod("appArmorProfile", R"({"type":"Unconfined"})")},
      {"AppArmor default", pod("appArmorProfile", R"({"type":"RuntimeDefault"})")},
      {"AppArmor off in the container", container("appArmorProfile", R"({"type":"Unconfined"})")},
      {"SELinux container_t", pod("seLinuxOptions", R"({"type":"container_t"})")},
      {"SELinux spc_t", pod("seLinuxOptions", R"({"type":"spc_t"})")},
      {"SELinux user", container("seLinuxOptions", R"({"user":"system_u"})")},
      {"SELinux level", container("seLinuxOptions", R"({"level":"s0:c1,c2"})")},
      {"procMount Default", container("procMount", R"("Default")")},
      {"sysctl safe", pod("sysctls", R"([{"name":"net.ipv4.tcp_syncookies","value":"1"}])")},
      {"sysctl unsafe", pod("sysctls", R"([{"name":"net.core.somaxconn","value":"1024"}])")},
      {"seccomp off", pod("seccompProfile", R"({"type":"Unconfined"})")},
      {"seccomp off in the container", container("seccompProfile", R"({"type":"Unconfined"})")},
      {"seccomp local", pod("seccompProfile", R"({"type":"Localhost","localhostProfile":"p.json"})")},
      {"no seccomp", without("seccompProfile")},
      {"seccomp of the container alone",
       [json](Json& spec) {
         spec.set("securityContext").erase("seccompProfile");
         spec.set("containers")
             .items_mut()[0]
             .set("securityContext")
             .set("seccompProfile", json(R"({"type":"RuntimeDefault"})"));
       }},
      {"may gain privileges", container("allowPrivilegeEscalation", "true")},
      {"sets no privileges", own_without("allowPrivilegeEscalation")},
      {"sets no user", without("runAsNonRoot")},
      {"root by the pod", pod("runAsNonRoot", "false")},
      {"root by the container", container("runAsNonRoot", "false")},
      {"no root by the container alone",
       [](Json& spec) {
         spec.set("securityContext").erase("runAsNonRoot");
         spec.set("containers").items_mut()[0].set("securityContext").set("runAsNonRoot", true);
       }},
      {"root by the pod, not by the container",
       [](Json& spec) {
         spec.set("securityContext").set("runAsNonRoot", false);
         spec.set("containers").items_mut()[0].set("securityContext").set("runAsNonRoot", true);
       }},
      {"user 0", pod("runAsUser", "0")},
      {"user 1000", pod("runAsUser", "1000")},
      {"user 0 in the container", container("runAsUser", "0")},
      {"a second container without a security context", more("containers", R"({"name":"side","image":"i"})")},
      {"an init container without a security context", more("initContainers", R"({"name":"init","image":"i"})")},
      {"no context at all",
       [](Json& spec) {
         spec.erase("securityContext");
         spec.set("containers").items_mut()[0].erase("securityContext");
       }},
  };
  return all;
}

}  // namespace qm::cli
