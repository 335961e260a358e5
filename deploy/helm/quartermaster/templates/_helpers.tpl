{{- define "qm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "qm.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "qm.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "qm.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The enabled services, in order: a JSON list. */ -}}
{{- define "qm.services" -}}
{{- $out := list -}}
{{- range $name := list "admission" "placement" "autoscaler" "telemetry" "cost" -}}
{{- if (get $.Values.services $name).enabled -}}{{- $out = append $out $name -}}{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{- define "qm.selector" -}}
app.kubernetes.io/name: {{ include "qm.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "qm.labels" -}}
{{ include "qm.selector" . }}
app.kubernetes.io/part-of: quartermaster
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "qm.image" -}}
{{- $i := .Values.image -}}
{{- with $i.registry }}{{ . }}/{{ end }}{{ $i.repository }}
{{- if $i.digest }}@{{ $i.digest }}{{ else }}:{{ default .Chart.AppVersion $i.tag }}{{ end -}}
{{- end -}}

{{- define "qm.podSecurity" -}}
runAsNonRoot: {{ not .root }}
runAsUser: {{ ternary 0 (.uid | default 65532) (.root | default false) }}
runAsGroup: {{ ternary 0 (.uid | default 65532) (.root | default false) }}
fsGroup: {{ .uid | default 65532 }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "qm.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: {{ not .writable }}
privileged: false
capabilities:
  drop: [ALL]
  {{- with .add }}
  add: {{ toJson . }}
  {{- end }}
{{- end -}}

{{- /* The Secret name and key of a service's database. */ -}}
{{- define "qm.postgresSecret" -}}
{{- if .Values.bundled.postgres.enabled -}}
{{ include "qm.fullname" . }}-postgres
{{- else -}}
{{ required "no database: name a Secret in postgres.existingSecret, or set bundled.postgres.enabled=true for a trial" .Values.postgres.existingSecret }}
{{- end -}}
{{- end -}}

{{- define "qm.postgresKey" -}}
{{- if .root.Values.bundled.postgres.enabled -}}conninfo{{- else -}}
{{ get .root.Values.postgres.keys .component | default .root.Values.postgres.key }}
{{- end -}}
{{- end -}}

{{- define "qm.brokers" -}}
{{- if .Values.bundled.kafka.enabled -}}
{{ include "qm.fullname" . }}-kafka:9092
{{- else -}}
{{ required "bus.kind is kafka: set bus.brokers, or set bundled.kafka.enabled=true for a trial" .Values.bus.brokers }}
{{- end -}}
{{- end -}}

{{- define "qm.redis" -}}
{{- if .Values.bundled.redis.enabled -}}{{ include "qm.fullname" . }}-redis:6379{{- else -}}{{ .Values.redis.address }}{{- end -}}
{{- end -}}

{{- define "qm.tlsSecret" -}}
{{- if eq .root.Values.tls.source "secrets" -}}
{{ required "tls.source is secrets: set tls.secretPrefix" .root.Values.tls.secretPrefix }}-{{ .component }}
{{- else -}}
{{ include "qm.fullname" .root }}-tls-{{ .component }}
{{- end -}}
{{- end -}}

{{- /* Environment variables of every process of the suite. */ -}}
{{- define "qm.env" -}}
{{- $root := .root -}}
- {name: QM_SHARD, value: {{ $root.Values.shard | quote }}}
- {name: QM_LOG_LEVEL, value: {{ $root.Values.log.level | quote }}}
- {name: QM_LOG_FORMAT, value: {{ $root.Values.log.format | quote }}}
{{- if or (not $root.Values.tls.enabled) (eq $root.Values.auth.mode "none") }}
- {name: QM_INSECURE, value: "1"}
{{- end }}
{{- if $root.Values.tls.enabled }}
- {name: QM_TLS_CERT, value: /etc/quartermaster/tls/tls.crt}
- {name: QM_TLS_KEY, value: /etc/quartermaster/tls/tls.key}
- {name: QM_TLS_CA, value: /etc/quartermaster/tls/ca.crt}
{{- end }}
{{- end -}}

{{- define "qm.storeEnv" -}}
{{- $root := .root -}}
- name: QM_POSTGRES
  valueFrom:
    secretKeyRef:
      name: {{ include "qm.postgresSecret" $root }}
      key: {{ include "qm.postgresKey" . }}
{{- if eq $root.Values.bus.kind "kafka" }}
- {name: QM_BUS, value: {{ printf "kafka:%s" (include "qm.brokers" $root) | quote }}}
{{- else if $root.Values.postgres.busKey }}
- name: QM_BUS_CONNINFO
  valueFrom:
    secretKeyRef:
      name: {{ include "qm.postgresSecret" $root }}
      key: {{ $root.Values.postgres.busKey }}
- {name: QM_BUS, value: "postgres:$(QM_BUS_CONNINFO)"}
{{- end }}
{{- end -}}

{{- define "qm.kubeEnv" -}}
- {name: QM_KUBE, value: in-cluster}
{{- end -}}

{{- /* Authentication and roles of users. */ -}}
{{- define "qm.authEnv" -}}
- {name: QM_AUTH, value: {{ .Values.auth.mode }}}
{{- if ne .Values.auth.mode "none" }}
- {name: QM_ROLES, value: /etc/quartermaster/roles/roles.yaml}
{{- end }}
{{- end -}}

{{- /* The services that call the Kubernetes API: three for their work, cost if it is installed alone, all if Kubernetes
authenticates users. */ -}}
{{- define "qm.usesKube" -}}
{{- $alone := and (eq .component "cost") (eq (dig "cost" "settings" "observe" "bus" .root.Values.services) "cluster") -}}
{{- if or $alone (has .component (list "admission" "placement" "autoscaler" "agent")) (eq .root.Values.auth.mode "tokenreview") -}}true{{- end -}}
{{- end -}}

{{- define "qm.peers" -}}
{{- $out := list -}}
{{- range include "qm.services" . | fromJsonArray -}}
{{- $out = append $out (printf "%s=%s-%s:7100" . (include "qm.fullname" $) .) -}}
{{- end -}}
{{- join "," $out -}}
{{- end -}}

{{- /* Peers of a flow: a pod of the release, or external addresses. */ -}}
{{- define "qm.flowTo" -}}
{{- if .bundled -}}
- podSelector:
    matchLabels: {{- include "qm.selector" . | nindent 6 }}
{{- else -}}
{{- range .root.Values.networkPolicy.externals }}
- ipBlock: {cidr: {{ . }}}
{{- end }}
{{- end -}}
{{- end -}}

{{- /* Processes with state connect to the database, and to Kafka if it is the bus. */ -}}
{{- define "qm.storeFlows" -}}
- to: {{- include "qm.flowTo" (dict "root" . "component" "postgres" "bundled" .Values.bundled.postgres.enabled) | nindent 2 }}
  ports:
  - {port: {{ ternary 5432 .Values.postgres.port .Values.bundled.postgres.enabled }}}
{{- if eq .Values.bus.kind "kafka" }}
- to: {{- include "qm.flowTo" (dict "root" . "component" "kafka" "bundled" .Values.bundled.kafka.enabled) | nindent 2 }}
  ports:
  - {port: {{ ternary 9092 .Values.bus.port .Values.bundled.kafka.enabled }}}
{{- end }}
{{- end -}}

{{- /* The name that libs/replica uses. */ -}}
{{- define "qm.leaseName" -}}
quartermaster-{{ .component }}-{{ .root.Values.shard }}
{{- end -}}

{{- /* The selector of the namespaces whose objects the webhooks review. */ -}}
{{- define "qm.managedNamespaces" -}}
{{- with .Values.ownership.namespaceSelector.matchLabels -}}
matchLabels: {{- toYaml . | nindent 2 }}
{{ end -}}
matchExpressions:
- {key: kubernetes.io/metadata.name, operator: NotIn, values: {{ list "kube-node-lease" "kube-public" "kube-system" .Release.Namespace | sortAlpha | toJson }}}
- {key: quartermaster.dev/managed, operator: NotIn, values: ["false"]}
{{- with .Values.ownership.namespaces }}
- {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
{{- end }}
{{- with .Values.ownership.namespaceSelector.matchExpressions }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Annotations of pods that only Quartermaster writes, as a CEL list (libs/model/include/qm/model/owned_metadata.hpp). */ -}}
{{- define "qm.ownedPodAnnotations" -}}
['quartermaster.dev/attempt', 'quartermaster.dev/reservation', 'quartermaster.dev/devices', 'quartermaster.dev/resume-uri', 'quartermaster.dev/workload', 'quartermaster.dev/index', 'quartermaster.dev/ring']
{{- end -}}

{{- /* The service accounts of the controllers that create Jobs and pods for the kinds that admission suspends: the defaults of
their projects, and those of workloadControllers. A JSON list. */ -}}
{{- define "qm.workloadControllers" -}}
{{- $out := .Values.workloadControllers -}}
{{- $kinds := .Values.workloadKinds -}}
{{- if has "JobSet" $kinds }}{{ $out = append $out "system:serviceaccount:jobset-system:jobset-controller-manager" }}{{ end -}}
{{- range $kind := $kinds }}
{{- if has $kind (list "PyTorchJob" "MPIJob" "TFJob" "XGBoostJob" "PaddleJob" "JAXJob") }}{{ $out = append $out "system:serviceaccount:kubeflow:training-operator" }}{{ end -}}
{{- if eq $kind "MPIJob" }}{{ $out = append $out "system:serviceaccount:mpi-operator:mpi-operator" }}{{ end -}}
{{- if hasPrefix "Ray" $kind }}{{ $out = append $out "system:serviceaccount:kuberay-operator:kuberay-operator" }}{{ end -}}
{{- end }}
{{- toJson (uniq $out | sortAlpha) -}}
{{- end -}}

{{- /* One setting of a program. Numbers of YAML are floating point, and %v prints a million as 1e+06. */ -}}
{{- define "qm.setting" -}}
{{- $value := ternary (int64 .value) .value (kindIs "float64" .value) -}}
{{- printf "--set=%s=%v" .key $value | quote -}}
{{- end -}}

{{- /* The webhook's settings: its port, and the Service through which the API server calls it. */ -}}
{{- define "qm.webhookArgs" -}}
- --set=webhook=0.0.0.0:{{ .Values.webhook.port }}
- --set=webhook-service={{ .Release.Namespace }}/{{ include "qm.fullname" . }}-admission:{{ .Values.webhook.port }}
{{- if .Values.webhook.policyFile }}
- --set=webhook-policy-file=/etc/quartermaster/policy/policy.yaml
{{- else }}
- --set=webhook-policy={{ .Values.webhook.policy }}
{{- end }}
{{- with include "qm.workloadControllers" . | fromJsonArray }}
- --set=webhook-controllers={{ join "," . }}
{{- end }}
{{- with .Values.ownedMetadata.accounts }}
- --set=webhook-own={{ join "," . }}
{{- end }}
{{- end -}}

{{- /* The autoscaler does not start without credentials: those of a Secret, or the role of its service account. */ -}}
{{- define "qm.awsEnv" -}}
{{- if not (or .Values.aws.credentialsSecret .Values.aws.podIdentity) -}}
{{- fail "the autoscaler needs keys: name a Secret in aws.credentialsSecret, set aws.podIdentity=true if its service account has a role, or set services.autoscaler.enabled=false" -}}
{{- end -}}
{{- with .Values.aws.region -}}
- {name: AWS_REGION, value: {{ . | quote }}}
{{ end -}}
{{ with .Values.aws.credentialsSecret -}}
- name: AWS_ACCESS_KEY_ID
  valueFrom: {secretKeyRef: {name: {{ . }}, key: AWS_ACCESS_KEY_ID}}
- name: AWS_SECRET_ACCESS_KEY
  valueFrom: {secretKeyRef: {name: {{ . }}, key: AWS_SECRET_ACCESS_KEY}}
- name: AWS_SESSION_TOKEN
  valueFrom: {secretKeyRef: {name: {{ . }}, key: AWS_SESSION_TOKEN, optional: true}}
{{- end }}
{{- end -}}
