{{/* The requirements of the restricted Pod Security Standard, for a Pod and its containers. */}}
{{- define "punctual.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
# Volumes and mounted Secrets belong to this group.
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "punctual.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
capabilities:
  drop: [ALL]
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The environment of a replica: takes root and component. */}}
{{- define "punctual.environment" -}}
{{- $root := .root -}}
- name: PUNCTUAL_CONFIG
  value: /etc/punctual/punctual.toml
- name: PUNCTUAL_ROLES
  value: {{ ternary "api,scheduler,executor,notifier" .component (eq .component "replica") }}
- name: PUNCTUAL_HTTP_LISTEN
  value: {{ printf "%s:8080" $root.Values.bindAddress | quote }}
- name: PUNCTUAL_OPS_LISTEN
  value: {{ printf "%s:8081" $root.Values.bindAddress | quote }}
- name: PUNCTUAL_LOG_FORMAT
  value: json
- name: PUNCTUAL_SHUTDOWN_GRACE_SECONDS
  value: {{ $root.Values.shutdown.graceSeconds | int | quote }}
- name: PUNCTUAL_SHUTDOWN_DRAIN_SECONDS
  value: {{ $root.Values.shutdown.drainSeconds | int | quote }}
- name: PUNCTUAL_CANARY_ENABLED
  value: {{ $root.Values.canary.enabled | quote }}
{{- with $root.Values.outbound.allow }}
- name: PUNCTUAL_OUTBOUND_ALLOW
  value: {{ join "," . | quote }}
{{- end }}
{{- if eq $root.Values.mode "cluster" }}
{{ include "punctual.serversEnv" $root }}
- name: PUNCTUAL_STORE_MIGRATE
  value: {{ not $root.Values.cluster.hooks.migrate | quote }}
{{- else }}
- name: PUNCTUAL_DATA_DIR
  value: /var/lib/punctual
{{- end }}
{{- with include "punctual.keysEnv" $root }}
{{ . }}
{{- end }}
{{- with include "punctual.mailEnv" $root }}
{{ . | trim }}
{{- end }}
{{- with include "punctual.oidcEnv" $root }}
{{ . }}
{{- end }}
{{- end -}}

{{/* The Pod template of a component: takes root, component, replica. */}}
{{- define "punctual.pod" -}}
{{- $root := .root -}}
{{- $replica := .replica -}}
{{- $values := .root.Values -}}
metadata:
  labels:
    {{- include "punctual.selector" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
    {{- include "punctual.commonLabels" $root | nindent 4 }}
    {{- with $replica.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A change of the configuration replaces the Pods.
    punctual/configuration: {{ include "punctual.toml" $root | sha256sum }}
    {{- if $values.monitoring.scrapeAnnotations }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8081"
    prometheus.io/path: /metrics
    {{- end }}
    {{- with $replica.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "punctual.serviceAccount" $root }}
  automountServiceAccountToken: false
  # Kubernetes would set variables that begin with the names of Services, such as PUNCTUAL_PORT.
  enableServiceLinks: false
  # The delay before SIGTERM, the grace period after it, and some time for the last commits.
  terminationGracePeriodSeconds: {{ add $values.shutdown.preStopSeconds $values.shutdown.graceSeconds 10 }}
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  securityContext:
    {{- include "punctual.podSecurity" $root | nindent 4 }}
  {{- with $replica.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $replica.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $replica.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $replica.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq $values.mode "cluster" }}
  topologySpreadConstraints:
    {{- if kindIs "invalid" $replica.topologySpreadConstraints }}
    {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
    - maxSkew: 1
      topologyKey: {{ $key }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "punctual.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ $.component }}
    {{- end }}
    {{- else }}
    {{- toYaml $replica.topologySpreadConstraints | nindent 4 }}
    {{- end }}
  {{- end }}
  containers:
    - name: punctual
      {{- include "punctual.container" . | nindent 6 }}
  volumes:
    - name: configuration
      configMap:
        name: {{ include "punctual.fullname" $root }}
    {{- with include "punctual.credentials" $root }}
    - name: credentials
      projected:
        defaultMode: 0440
        sources:
          {{- . | trim | nindent 10 }}
    {{- end }}
    {{- if eq $values.mode "embedded" }}
    {{- with $values.embedded.persistence }}
    {{- if not .enabled }}
    - name: data
      emptyDir: {}
    {{- else if .existingClaim }}
    - name: data
      persistentVolumeClaim:
        claimName: {{ .existingClaim }}
    {{- end }}
    {{- end }}
    {{- end }}
    {{- with $replica.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The container of a replica, without its name: takes the same values as the Pod. */}}
{{- define "punctual.container" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
image: {{ include "punctual.image" $root }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args: [serve]
ports:
  {{- if has .component (list "replica" "api") }}
  - name: http
    containerPort: 8080
  {{- end }}
  - name: operations
    containerPort: 8081
env:
  {{- include "punctual.environment" . | nindent 2 }}
  {{- with .replica.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .replica.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
# A replica that waits for its servers is alive, but not ready.
livenessProbe:
  httpGet: {path: /healthz, port: operations}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: operations}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- /* `sleep` was added in Kubernetes 1.29, and is enabled by default since 1.30. */}}
{{- if and $values.shutdown.preStopSeconds (semverCompare ">=1.30.0-0" (default $root.Capabilities.KubeVersion.Version $values.kubeVersion)) }}
lifecycle:
  preStop:
    sleep: {seconds: {{ $values.shutdown.preStopSeconds | int }}}
{{- end }}
resources:
  {{- toYaml .replica.resources | nindent 2 }}
securityContext:
  {{- include "punctual.containerSecurity" $root | nindent 2 }}
volumeMounts:
  - name: configuration
    mountPath: /etc/punctual/punctual.toml
    subPath: punctual.toml
    readOnly: true
  {{- if include "punctual.credentials" $root }}
  - name: credentials
    mountPath: /etc/punctual/credentials
    readOnly: true
  {{- end }}
  {{- if eq $values.mode "embedded" }}
  - name: data
    mountPath: /var/lib/punctual
  {{- end }}
  {{- with .replica.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* A hook's container, which runs a command with access to the servers: takes root and args. */}}
{{- define "punctual.hookContainer" -}}
{{- $root := .root -}}
image: {{ include "punctual.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
args: {{ toJson .args }}
env:
  - name: PUNCTUAL_CONFIG
    value: /etc/punctual/punctual.toml
  {{- include "punctual.serversEnv" $root | nindent 2 }}
  {{- include "punctual.keysEnv" $root | nindent 2 }}
  {{- with include "punctual.mailEnv" $root }}
  {{- . | trim | nindent 2 }}
  {{- end }}
  {{- with include "punctual.oidcEnv" $root }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $root.Values.replica.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with $root.Values.replica.extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
resources:
  {{- toYaml $root.Values.cluster.hooks.resources | nindent 2 }}
securityContext:
  {{- include "punctual.containerSecurity" $root | nindent 2 }}
volumeMounts:
  - name: configuration
    mountPath: /etc/punctual/punctual.toml
    subPath: punctual.toml
    readOnly: true
  {{- if include "punctual.credentials" $root }}
  - name: credentials
    mountPath: /etc/punctual/credentials
    readOnly: true
  {{- end }}
  {{- with $root.Values.replica.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
