// The fields of a Job and its pods in the Kubernetes API, for documents that no API server has checked yet.
#include "pod.hpp"

#include <map>
#include <string_view>
#include <vector>

namespace qm::config {
namespace {

/// One type a line: its name, then its fields; "field:Type" if the fields of its value or items are also known.
constexpr std::string_view kTypes[] = {
    "Job apiVersion kind metadata:ObjectMeta spec:JobSpec status",
    "ObjectMeta name generateName namespace selfLink uid resourceVersion generation creationTimestamp deletionTimestamp "
    "deletionGracePeriodSeconds labels annotations ownerReferences:OwnerReference finalizers managedFields",
    "OwnerReference apiVersion kind name uid controller blockOwnerDeletion",
    "JobSpec parallelism completions activeDeadlineSeconds podFailurePolicy:PodFailurePolicy successPolicy:SuccessPolicy "
    "backoffLimit backoffLimitPerIndex maxFailedIndexes selector:LabelSelector manualSelector template:PodTemplate "
    "ttlSecondsAfterFinished completionMode suspend podReplacementPolicy managedBy",
    "PodFailurePolicy rules:PodFailurePolicyRule",
    "PodFailurePolicyRule action onExitCodes:OnExitCodes onPodConditions:OnPodCondition",
    "OnExitCodes containerName operator values",
    "OnPodCondition type status",
    "SuccessPolicy rules:SuccessPolicyRule",
    "SuccessPolicyRule succeededIndexes succeededCount",
    "LabelSelector matchLabels matchExpressions:Requirement",
    "Requirement key operator values",
    "PodTemplate metadata:ObjectMeta spec:PodSpec",
    "PodSpec volumes:Volume initContainers:Container containers:Container ephemeralContainers restartPolicy "
    "terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount "
    "automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace "
    "securityContext:PodSecurityContext imagePullSecrets:Reference hostname subdomain affinity:Affinity schedulerName "
    "tolerations:Toleration hostAliases:HostAlias priorityClassName priority dnsConfig:DnsConfig readinessGates "
    "runtimeClassName enableServiceLinks preemptionPolicy overhead topologySpreadConstraints:SpreadConstraint "
    "setHostnameAsFQDN os:Reference hostUsers schedulingGates:Reference resourceClaims:PodResourceClaim "
    "resources:Resources hostnameOverride workloadRef schedulingGroup",
    "Reference name",
    "HostAlias ip hostnames",
    "DnsConfig nameservers searches options",
    "PodResourceClaim name resourceClaimName resourceClaimTemplateName",
    "Toleration key operator value effect tolerationSeconds",
    "SpreadConstraint maxSkew topologyKey whenUnsatisfiable labelSelector:LabelSelector minDomains nodeAffinityPolicy "
    "nodeTaintsPolicy matchLabelKeys",
    "Affinity nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAffinity",
    "NodeAffinity requiredDuringSchedulingIgnoredDuringExecution:NodeSelector "
    "preferredDuringSchedulingIgnoredDuringExecution:PreferredNode",
    "NodeSelector nodeSelectorTerms:NodeSelectorTerm",
    "NodeSelectorTerm matchExpressions:Requirement matchFields:Requirement",
    "PreferredNode weight preference:NodeSelectorTerm",
    "PodAffinity requiredDuringSchedulingIgnoredDuringExecution:PodAffinityTerm "
    "preferredDuringSchedulingIgnoredDuringExecution:PreferredPods",
    "PreferredPods weight podAffinityTerm:PodAffinityTerm",
    "PodAffinityTerm labelSelector:LabelSelector namespaces topologyKey namespaceSelector:LabelSelector matchLabelKeys "
    "mismatchLabelKeys",
    "Container name image command args workingDir ports:ContainerPort envFrom:EnvFrom env:EnvVar resources:Resources "
    "resizePolicy restartPolicy restartPolicyRules volumeMounts:VolumeMount volumeDevices:VolumeDevice "
    "livenessProbe:Probe readinessProbe:Probe startupProbe:Probe lifecycle:Lifecycle terminationMessagePath "
    "terminationMessagePolicy imagePullPolicy securityContext:SecurityContext stdin stdinOnce tty",
    "ContainerPort name hostPort containerPort protocol hostIP",
    "EnvFrom prefix configMapRef:OptionalReference secretRef:OptionalReference",
    "OptionalReference name optional",
    "EnvVar name value valueFrom:EnvVarSource",
    "EnvVarSource fieldRef:FieldRef resourceFieldRef:ResourceFieldRef configMapKeyRef:KeyRef secretKeyRef:KeyRef fileKeyRef",
    "FieldRef apiVersion fieldPath",
    "ResourceFieldRef containerName resource divisor",
    "KeyRef name key optional",
    "Resources limits requests claims:ResourceClaim",
    "ResourceClaim name request",
    "VolumeMount name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr",
    "VolumeDevice name devicePath",
    "Probe exec:Exec httpGet:HttpGet tcpSocket:TcpSocket grpc:Grpc initialDelaySeconds timeoutSeconds periodSeconds "
    "successThreshold failureThreshold terminationGracePeriodSeconds",
    "Exec command",
    "HttpGet path port host scheme httpHeaders",
    "TcpSocket port host",
    "Grpc port service",
    "Lifecycle postStart:LifecycleHandler preStop:LifecycleHandler stopSignal",
    "LifecycleHandler exec:Exec httpGet:HttpGet tcpSocket:TcpSocket sleep",
    "SecurityContext capabilities:Capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot "
    "readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile:Profile appArmorProfile:Profile",
    "Capabilities add drop",
    "Profile type localhostProfile",
    "PodSecurityContext seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot supplementalGroups "
    "supplementalGroupsPolicy fsGroup sysctls fsGroupChangePolicy seccompProfile:Profile appArmorProfile:Profile "
    "seLinuxChangePolicy",
    "Volume name hostPath:HostPath emptyDir:EmptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret:SecretVolume "
    "nfs:Nfs iscsi glusterfs persistentVolumeClaim:ClaimVolume rbd flexVolume cinder cephfs flocker downwardAPI fc azureFile "
    "configMap:ConfigMapVolume vsphereVolume quobyte azureDisk photonPersistentDisk projected portworxVolume scaleIO storageos "
    "csi ephemeral image",
    "HostPath path type",
    "EmptyDir medium sizeLimit",
    "SecretVolume secretName items defaultMode optional",
    "ConfigMapVolume name items defaultMode optional",
    "Nfs server path readOnly",
    "ClaimVolume claimName readOnly"};

struct Known {
  std::string_view name, type;
};

const std::vector<Known>& fields_of(std::string_view type) {
  static const std::map<std::string_view, std::vector<Known>> all = [] {
    std::map<std::string_view, std::vector<Known>> out;
    for (std::string_view line : kTypes) {
      std::vector<Known>* fields = nullptr;
      while (!line.empty()) {
        const auto end = std::min(line.find(' '), line.size());
        const auto word = line.substr(0, end);
        line.remove_prefix(std::min(end + 1, line.size()));
        if (fields == nullptr) {
          fields = &out[word];
          continue;
        }
        const auto colon = word.find(':');
        fields->push_back(
            {word.substr(0, colon), colon == std::string_view::npos ? std::string_view() : word.substr(colon + 1)});
      }
    }
    return out;
  }();
  return all.at(type);
}

}  // namespace

void check_known_fields(const Cursor& at, std::string_view type) {
  if (at.value->is_array()) {
    for (std::size_t i = 0; i < at.value->size(); ++i) check_known_fields(at.item(i), type);
    return;
  }
  const auto& fields = fields_of(type);
  for (const auto& [name, value] : at.value->members()) {
    const auto found = std::ranges::find(fields, std::string_view(name), &Known::name);
    if (found == fields.end()) {
      std::vector<std::string_view> names;
      for (const Known& field : fields) names.push_back(field.name);
      unknown_field(at.member(name), names);
    } else if (!found->type.empty()) {
      check_known_fields(at.member(name), found->type);
    }
  }
}

}  // namespace qm::config
