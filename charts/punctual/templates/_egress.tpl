{{/* The egress rules of NetworkPolicies for replicas and hooks. All take the root. */}}

{{- define "punctual.egress.dns" -}}
- to:
    {{- toYaml .Values.networkPolicy.dns | nindent 4 }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end -}}

{{- define "punctual.egress.servers" -}}
{{- range $server := list "postgresql" "redis" "etcd" -}}
{{- with index $.Values.cluster $server }}
# {{ $server }}
- ports:
    - {protocol: TCP, port: {{ .port }}}
  {{- with .peers }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Public addresses: all but private, shared, link-local, loopback and multicast ones. */}}
{{- define "punctual.egress.public" -}}
{{- $four := list "10.0.0.0/8" "100.64.0.0/10" "127.0.0.0/8" "169.254.0.0/16" "172.16.0.0/12" "192.168.0.0/16" "198.18.0.0/15" "224.0.0.0/4" -}}
{{- $six := list "::1/128" "fc00::/7" "fe80::/10" "ff00::/8" -}}
{{- range .Values.networkPolicy.clusterNetworks -}}
{{- if contains ":" . -}}
{{- $six = append $six . -}}
{{- else -}}
{{- $four = append $four . -}}
{{- end -}}
{{- end -}}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        except:
          {{- toYaml $four | nindent 10 }}
    - ipBlock:
        cidr: ::/0
        except:
          {{- toYaml $six | nindent 10 }}
{{- end -}}

{{/* Addresses that schedules may call although they are not public. */}}
{{- define "punctual.egress.allowed" -}}
{{- with .Values.outbound.allow -}}
- to:
    {{- range . }}
    - ipBlock:
        {{- if contains "/" . }}
        cidr: {{ . | quote }}
        {{- else }}
        cidr: {{ printf "%s/%s" . (ternary "128" "32" (contains ":" .)) | quote }}
        {{- end }}
    {{- end }}
{{- end -}}
{{- end -}}
