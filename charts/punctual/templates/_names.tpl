{{/* Names and labels. */}}

{{- define "punctual.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* The prefix of the names of all objects, short enough for the suffixes. */}}
{{- define "punctual.fullname" -}}
{{- $name := include "punctual.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The URL of the API within the cluster. */}}
{{- define "punctual.url" -}}
http://{{ include "punctual.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}{{ include "punctual.basePath" . }}
{{- end -}}

{{- define "punctual.basePath" -}}
{{- dig "http" "base_path" "" .Values.settings | trimSuffix "/" -}}
{{- end -}}

{{/* The labels that select replicas: takes the root. */}}
{{- define "punctual.selector" -}}
app.kubernetes.io/name: {{ include "punctual.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels that select Pods of hooks and tests. No Service selects these Pods. */}}
{{- define "punctual.hookSelector" -}}
app.kubernetes.io/name: {{ include "punctual.name" . }}-hook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of all objects, in addition to the selector. */}}
{{- define "punctual.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of an object: takes root; optional: component, labels, annotations. */}}
{{- define "punctual.metadata" -}}
labels:
  {{- include "punctual.selector" .root | nindent 2 }}
  {{- with .component }}
  app.kubernetes.io/component: {{ . }}
  {{- end }}
  {{- include "punctual.commonLabels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with mergeOverwrite (deepCopy .root.Values.annotations) (default dict .annotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The reference of an image: takes the image and its default tag. */}}
{{- define "punctual.imageReference" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ default .tag .image.tag }}
{{- end -}}
{{- end -}}

{{- define "punctual.image" -}}
{{- include "punctual.imageReference" (dict "image" .Values.image "tag" .Chart.AppVersion) -}}
{{- end -}}

{{- define "punctual.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "punctual.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/*
The components by name, each with its values from `replica` and `roles`. There is one component,
`replica`, with all roles; with cluster.layout apart, there is one component per role.
*/}}
{{- define "punctual.components" -}}
{{- if and (eq .Values.mode "cluster") (eq .Values.cluster.layout "apart") -}}
{{- range $role := list "api" "scheduler" "executor" "notifier" }}
{{ $role }}: {{ mergeOverwrite (deepCopy $.Values.replica) (deepCopy (index $.Values.roles $role)) | toJson }}
{{- end }}
{{- else }}
replica: {{ .Values.replica | toJson }}
{{- end }}
{{- end -}}

{{/* The component that serves the API. */}}
{{- define "punctual.apiComponent" -}}
{{- if and (eq .Values.mode "cluster") (eq .Values.cluster.layout "apart") }}api{{ else }}replica{{ end -}}
{{- end -}}
