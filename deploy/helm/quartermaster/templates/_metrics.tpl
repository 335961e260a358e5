{{- /* The port of the metrics APIs of the autoscaler; empty if they are not served. */ -}}
{{- define "qm.metricsPort" -}}
{{- if .Values.services.autoscaler.enabled -}}
{{- with dig "autoscaler" "settings" "metrics-api-port" 0 .Values.services | int }}{{ . }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* Registers them with the API server. `bundle` is the authority of the certificate of the autoscaler in base64; empty with
cert-manager, which injects it. */ -}}
{{- define "qm.metricsApis" -}}
{{- $root := .root }}
{{- $bundle := .bundle }}
{{- $full := include "qm.fullname" $root }}
{{- with include "qm.metricsPort" $root }}
{{- $port := . }}
{{- range $group := list (list "external.metrics.k8s.io" "v1beta1") (list "custom.metrics.k8s.io" "v1beta2") }}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata:
  name: {{ last $group }}.{{ first $group }}
  labels: {{- include "qm.labels" (dict "root" $root "component" "autoscaler") | nindent 4 }}
  {{- if not $bundle }}
  annotations:
    cert-manager.io/inject-ca-from: {{ $root.Release.Namespace }}/{{ $full }}-tls-autoscaler
  {{- end }}
spec:
  group: {{ first $group }}
  version: {{ last $group }}
  groupPriorityMinimum: 100
  versionPriority: 100
  {{- with $bundle }}
  caBundle: {{ . }}
  {{- end }}
  service:
    name: {{ $full }}-autoscaler
    namespace: {{ $root.Release.Namespace }}
    port: {{ $port }}
{{- end }}
{{- end }}
{{- end -}}
