{{/* Names and labels. */}}

{{- define "punctual.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* What the names of all objects begin with; short enough for what is added to it. */}}
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

{{/* The address of the API within the cluster. */}}
{{- define "punctual.url" -}}
http://{{ include "punctual.fullname" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}{{ include "punctual.basePath" . }}
{{- end -}}

{{- define "punctual.basePath" -}}
{{- dig "http" "base_path" "" .Values.settings | trimSuffix "/" -}}
{{- end -}}

{{/* What replicas are selected by: takes the root. */}}
{{- define "punctual.selector" -}}
app.kubernetes.io/name: {{ include "punctual.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* What Pods of hooks and tests are known by: no Service selects them. */}}
{{- define "punctual.hookSelector" -}}
app.kubernetes.io/name: {{ include "punctual.name" . }}-hook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels that all objects have beside their selector. */}}
{{- define "punctual.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of an object: takes root, and perhaps component, labels, annotations. */}}
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

{{/* The reference of an image: takes the image, and the tag that it has if it names none. */}}
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
The kinds of replicas there are, by name, with what `replica` and `roles` say of each: `replica` does
everything; with cluster.layout apart each role is a kind of its own.
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

{{/* The kind of replicas that answers the API. */}}
{{- define "punctual.apiComponent" -}}
{{- if and (eq .Values.mode "cluster") (eq .Values.cluster.layout "apart") }}api{{ else }}replica{{ end -}}
{{- end -}}
