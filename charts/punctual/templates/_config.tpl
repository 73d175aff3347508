{{/* The configuration file: `settings` and `plans` as TOML. */}}
{{- define "punctual.toml" -}}
{{- range $key, $value := .Values.settings -}}
{{- if not (kindIs "map" $value) }}
{{ $key }} = {{ include "punctual.tomlValue" $value }}
{{- end -}}
{{- end -}}
{{- range $section, $values := .Values.settings -}}
{{- if kindIs "map" $values }}
[{{ $section }}]
{{- range $key, $value := $values }}
{{ $key }} = {{ include "punctual.tomlValue" $value }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $plan, $limits := .Values.plans }}
[plans.{{ $plan }}]
{{- range $key, $value := $limits }}
{{ $key }} = {{ include "punctual.tomlValue" $value }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A TOML value. JSON strings are valid TOML strings. YAML integers arrive as floats. */}}
{{- define "punctual.tomlValue" -}}
{{- if kindIs "slice" . -}}
[{{ range $at, $item := . }}{{ if $at }}, {{ end }}{{ include "punctual.tomlValue" $item }}{{ end }}]
{{- else if or (kindIs "string" .) (kindIs "bool" .) -}}
{{ toJson . }}
{{- else -}}
{{ int64 . }}
{{- end -}}
{{- end -}}

{{/* The environment variables with the address of a server: takes root, server, variable. */}}
{{- define "punctual.serverEnv" -}}
{{- $server := index .root.Values.cluster .server -}}
- name: PUNCTUAL_{{ .variable }}_URL
  {{- if $server.urlSecret.name }}
  valueFrom:
    secretKeyRef:
      name: {{ $server.urlSecret.name }}
      key: {{ $server.urlSecret.key }}
  {{- else if and (eq .server "postgresql") $server.caSecret.name (not (contains "sslrootcert=" $server.url)) }}
  value: {{ printf "%s%ssslmode=verify-full&sslrootcert=/etc/punctual/credentials/postgresql/ca.crt" $server.url (ternary "&" "?" (contains "?" $server.url)) | quote }}
  {{- else }}
  value: {{ $server.url | quote }}
  {{- end }}
{{- if $server.passwordSecret.name }}
- name: PUNCTUAL_{{ .variable }}_PASSWORD_FILE
  value: /etc/punctual/credentials/{{ .server }}/password
{{- end }}
{{- if and $server.caSecret.name (ne .server "postgresql") }}
- name: PUNCTUAL_{{ .variable }}_CA_FILE
  value: /etc/punctual/credentials/{{ .server }}/ca.crt
{{- end }}
{{- end -}}

{{/* The addresses of all servers, for replicas and hooks of a cluster. */}}
{{- define "punctual.serversEnv" -}}
{{- include "punctual.serverEnv" (dict "root" . "server" "postgresql" "variable" "STORE") }}
{{ include "punctual.serverEnv" (dict "root" . "server" "redis" "variable" "QUEUE") }}
{{ include "punctual.serverEnv" (dict "root" . "server" "etcd" "variable" "CLUSTER") }}
{{- end -}}

{{- define "punctual.keysEnv" -}}
{{- if .Values.secretsKeys.name -}}
- name: PUNCTUAL_SECRETS_KEYS_FILE
  value: /etc/punctual/credentials/secrets.key
{{- end -}}
{{- end -}}

{{- define "punctual.mailEnv" -}}
{{- if .Values.mail.passwordSecret.name }}
- name: PUNCTUAL_MAIL_PASSWORD_FILE
  value: /etc/punctual/credentials/mail/password
{{- end }}
{{- if .Values.mail.caSecret.name }}
- name: PUNCTUAL_MAIL_CA_FILE
  value: /etc/punctual/credentials/mail/ca.crt
{{- end }}
{{- end -}}

{{- define "punctual.oidcEnv" -}}
{{- if .Values.oidc.clientSecret.name -}}
- name: PUNCTUAL_OIDC_CLIENT_SECRET_FILE
  value: /etc/punctual/credentials/oidc/client-secret
{{- end -}}
{{- end -}}

{{/* The projected sources of /etc/punctual/credentials: a list, which may be empty. */}}
{{- define "punctual.credentials" -}}
{{- $secrets := list (dict "name" .Values.secretsKeys.name "key" .Values.secretsKeys.key "path" "secrets.key") -}}
{{- with .Values.oidc.clientSecret -}}
{{- $secrets = append $secrets (dict "name" .name "key" .key "path" "oidc/client-secret") -}}
{{- end -}}
{{- $holders := dict "mail" .Values.mail -}}
{{- if eq .Values.mode "cluster" -}}
{{- range $server := list "postgresql" "redis" "etcd" -}}
{{- $_ := set $holders $server (index $.Values.cluster $server) -}}
{{- end -}}
{{- end -}}
{{- range $holder, $values := $holders -}}
{{- with $values.passwordSecret -}}
{{- $secrets = append $secrets (dict "name" .name "key" .key "path" (printf "%s/password" $holder)) -}}
{{- end -}}
{{- with $values.caSecret -}}
{{- $secrets = append $secrets (dict "name" .name "key" .key "path" (printf "%s/ca.crt" $holder)) -}}
{{- end -}}
{{- end -}}
{{- range $secrets -}}
{{- if .name }}
- secret:
    name: {{ .name }}
    items:
      - key: {{ .key }}
        path: {{ .path }}
{{- end -}}
{{- end -}}
{{- end -}}
