{{- /* The cluster-wide RBAC rules of each process. Each verb corresponds to a call in the process's shell; a new call needs
its rule here. */ -}}
{{- define "qm.clusterRules" -}}
admission:
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [batch]
  resources: [jobs/status]
  verbs: [patch]
{{- range $kind := .Values.workloadKinds }}
{{- if ne $kind "Job" }}
- apiGroups: [{{ if eq $kind "JobSet" }}jobset.x-k8s.io{{ else if hasPrefix "Ray" $kind }}ray.io{{ else }}kubeflow.org{{ end }}]
  resources: [{{ lower $kind }}s]
  verbs: [get, list, watch, patch, delete]
{{- end }}
{{- end }}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
{{- /* Scalers of annotated workloads are suspended by the webhook. */}}
{{- if .Values.webhook.enabled }}
- apiGroups: [apps]
  resources: [deployments, statefulsets]
  verbs: [list, watch]
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [list, watch]
{{- end }}
- apiGroups: [""]
  resources: [limitranges]
  verbs: [list, watch]
- apiGroups: [node.k8s.io]
  resources: [runtimeclasses]
  verbs: [list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [clusterqueues, localqueues]
  verbs: [get, list, watch]
- apiGroups: [kueue.x-k8s.io]
  resources: [admissionchecks, cohorts, resourceflavors, topologies, workloadpriorityclasses]
  verbs: [list, watch]
{{- if eq (dig "admission" "settings" "placement" "own" .Values.services) "none" }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, patch]
{{- if eq (toString (dig "admission" "settings" "workload-objects" "false" .Values.services)) "true" }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [create]
{{- end }}
- apiGroups: [kueue.x-k8s.io]
  resources: [clusterqueues/status, localqueues/status, workloads/status]
  verbs: [patch]
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups, queues]
  verbs: [list, watch]
- apiGroups: [scheduling.volcano.sh]
  resources: [podgroups/status]
  verbs: [patch]
- apiGroups: [quartermaster.dev]
  resources: [checkpointpolicies]
  verbs: [list, watch]
{{- if .Values.webhook.enabled }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [quartermaster]
  verbs: [get, update]
- apiGroups: [""]
  resources: [resourcequotas]
  verbs: [list, watch]
{{- end }}
{{- include "qm.ownershipRules" . }}
{{- include "qm.eventRules" . }}
placement:
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [pods/binding, pods/eviction]
  verbs: [create]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [persistentvolumes]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses, csinodes]
  verbs: [list, watch]
- apiGroups: [scheduling.volcano.sh, scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [list, watch]
{{- include "qm.ownershipRules" . }}
autoscaler:
- apiGroups: [karpenter.sh]
  resources: [nodeclaims]
  verbs: [create, delete, get]
{{- if eq (dig "autoscaler" "settings" "driver" "ec2" .Values.services) "karpenter" }}
- apiGroups: [karpenter.sh]
  resources: [nodeclaims]
  verbs: [list, watch]
{{- else }}
- apiGroups: [karpenter.k8s.aws]
  resources: [ec2nodeclasses]
  verbs: [list, watch]
- apiGroups: [karpenter.k8s.aws]
  resources: [ec2nodeclasses/status]
  verbs: [patch]
{{- end }}
- apiGroups: [karpenter.sh]
  resources: [nodepools, nodeoverlays]
  verbs: [get, list, watch]
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacitybuffers, provisioningrequests]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [podtemplates]
  verbs: [get]
- apiGroups: [apps]
  resources: [deployments, replicasets, statefulsets]
  verbs: [get]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get]
- apiGroups: [apps]
  resources: [daemonsets]
  verbs: [list, watch]
{{- /* Replicas of workloads: scalers, the scale of any kind, and the metrics that scalers name. */}}
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, update]
- apiGroups: [keda.sh]
  resources: [scaledobjects]
  verbs: [get, list, watch, update]
- apiGroups: ["*"]
  resources: ["*/scale"]
  verbs: [get, patch]
- apiGroups: [metrics.k8s.io]
  resources: [pods]
  verbs: [list]
{{- /* A custom metric has an object, "*" for all of them: the API server authorizes a get. */}}
- apiGroups: [custom.metrics.k8s.io]
  resources: ["*"]
  verbs: [get]
- apiGroups: [external.metrics.k8s.io]
  resources: ["*"]
  verbs: [list]
- apiGroups: [karpenter.sh]
  resources: [nodeclaims/status, nodepools/status, nodeoverlays/status]
  verbs: [patch]
- apiGroups: [autoscaling.x-k8s.io]
  resources: [capacitybuffers/status, provisioningrequests/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [get, list, watch, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
{{- if eq (dig "autoscaler" "settings" "observe" "bus" .Values.services) "cluster" }}
- apiGroups: [scheduling.volcano.sh, scheduling.x-k8s.io]
  resources: [podgroups]
  verbs: [list, watch]
{{- /* The planned nodes of pods, as nominated nodes: another scheduler binds them. */}}
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
{{- end }}
{{- /* The pods with which a pod is spread by default. */}}
{{- if and (eq (dig "autoscaler" "settings" "observe" "bus" .Values.services) "cluster") (contains "DoNotSchedule" (dig "autoscaler" "settings" "default-spread" "system" .Values.services)) }}
- apiGroups: [""]
  resources: [services, replicationcontrollers]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
{{- end }}
{{- if contains "priority" (dig "autoscaler" "settings" "expander" "weight" .Values.services) }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ dig "autoscaler" "settings" "expander-priorities" "/cluster-autoscaler-priority-expander" .Values.services | splitList "/" | last }}]
  verbs: [list, watch]
{{- end }}
{{- include "qm.ownershipRules" . }}
{{- include "qm.eventRules" . }}
cost:
- apiGroups: [quartermaster.dev]
  resources: [budgets, priceplans]
  verbs: [list, watch]
{{- if eq (dig "cost" "settings" "observe" "bus" .Values.services) "cluster" }}
- apiGroups: [""]
  resources: [pods, nodes]
  verbs: [list, watch]
{{- end }}
{{- include "qm.eventRules" . }}
agent:
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- end -}}

{{- /* To determine the controller of a namespace: its labels, and leases and Deployments of other controllers. */ -}}
{{- define "qm.ownershipRules" }}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list]
{{- end }}

{{- /* To create an Event, and to increase its count when it is repeated. */ -}}
{{- define "qm.eventRules" }}
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}
