{{/*
Checks that the schema cannot express: values that do not work together. Each message names the
value and a remedy.
*/}}
{{- define "punctual.checks" -}}
{{- include "punctual.checks.mode" . -}}
{{- include "punctual.checks.replicas" . -}}
{{- include "punctual.checks.stop" . -}}
{{- include "punctual.checks.doors" . -}}
{{- include "punctual.checks.rest" . -}}
{{- end -}}

{{- define "punctual.checks.mode" -}}
{{- $servers := dict "postgresql" "postgres://punctual@db:5432/punctual" "redis" "redis://redis:6379" "etcd" "etcd://etcd:2379" -}}
{{- range $name, $example := $servers -}}
{{- $server := index $.Values.cluster $name -}}
{{- $given := or $server.url $server.urlSecret.name -}}
{{- if eq $.Values.mode "embedded" -}}
{{- if $given -}}
{{- fail (printf "mode is embedded, but cluster.%s has a URL: set mode to cluster, or remove the URL" $name) -}}
{{- end -}}
{{- else -}}
{{- if not $given -}}
{{- fail (printf "mode is cluster, but cluster.%s has no URL: set cluster.%s.url, such as %s, or cluster.%s.urlSecret.name" $name $name $example $name) -}}
{{- end -}}
{{- if and $server.url $server.urlSecret.name -}}
{{- fail (printf "cluster.%s has both url and urlSecret: remove one of them" $name) -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^/@]+@" $server.url -}}
{{- fail (printf "cluster.%s.url has a password in it, which everyone who can read the values can read: put it into a Secret and name that in cluster.%s.passwordSecret.name, or put the whole URL into one (urlSecret)" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.mode "cluster") (not .Values.secretsKeys.name) -}}
{{- fail "mode is cluster, but secretsKeys.name is empty: generate keys with `punctual secrets generate`, put them into a Secret, and name it there" -}}
{{- end -}}
{{- if and (eq .Values.mode "embedded") (eq .Values.cluster.layout "apart") -}}
{{- fail "cluster.layout is apart, but mode is embedded, where one replica has all roles: set mode to cluster, or remove cluster.layout" -}}
{{- end -}}
{{- if not (and (eq .Values.mode "cluster") (eq .Values.cluster.layout "apart")) -}}
{{- range $role, $values := .Values.roles -}}
{{- if $values -}}
{{- fail (printf "roles.%s is set, but the roles are not apart: set mode to cluster and cluster.layout to apart, or use `replica`" $role) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "punctual.checks.replicas" -}}
{{- if eq .Values.mode "embedded" -}}
{{- if and (ne (int .Values.replica.replicas) 3) (ne (int .Values.replica.replicas) 1) -}}
{{- fail (printf "replica.replicas is %d, but mode is embedded, which has one replica: set mode to cluster, or remove it" (int .Values.replica.replicas)) -}}
{{- end -}}
{{- if .Values.replica.autoscaling.enabled -}}
{{- fail "replica.autoscaling is on, but mode is embedded, where there is one replica: set mode to cluster, or switch it off" -}}
{{- end -}}
{{- else -}}
{{- range $name, $replica := include "punctual.components" . | fromYaml -}}
{{- $place := ternary "replica" (printf "roles.%s" $name) (eq $name "replica") -}}
{{- with $replica.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail (printf "%s.autoscaling.minReplicas is %d, more than maxReplicas, %d" $place (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- if and .enabled (eq .metric "queueAge") (not (has $name (list "replica" "executor"))) -}}
{{- fail (printf "%s.autoscaling.metric is queueAge, but more replicas with this role do not shorten the queue: use cpu" $place) -}}
{{- end -}}
{{- end -}}
{{- with $replica.podDisruptionBudget -}}
{{- if and .enabled (eq (kindIs "invalid" .maxUnavailable) (kindIs "invalid" .minAvailable)) -}}
{{- fail (printf "%s.podDisruptionBudget needs either maxUnavailable or minAvailable: set one of them, and the other one to null" $place) -}}
{{- end -}}
{{- if and .enabled (not (kindIs "invalid" .minAvailable)) (not (kindIs "string" .minAvailable)) -}}
{{- $least := ternary $replica.autoscaling.minReplicas $replica.replicas $replica.autoscaling.enabled -}}
{{- if ge (int .minAvailable) (int $least) -}}
{{- fail (printf "%s.podDisruptionBudget.minAvailable is %d of %d replicas: no node could ever be drained" $place (int .minAvailable) (int $least)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "punctual.checks.stop" -}}
{{- with .Values.shutdown -}}
{{- if gt (int .drainSeconds) (int .graceSeconds) -}}
{{- fail (printf "shutdown.drainSeconds is %d, more than shutdown.graceSeconds, %d, of which it is a part" (int .drainSeconds) (int .graceSeconds)) -}}
{{- end -}}
{{- end -}}
{{- $store := dig "store" dict .Values.settings -}}
{{- $connections := add (dig "api_connections" 16 $store) (dig "scheduler_connections" 8 $store) (dig "executor_connections" 12 $store) -}}
{{- if gt (int $connections) 40 -}}
{{- fail (printf "settings.store: the three pools have %d connections together, and may have 40" (int $connections)) -}}
{{- end -}}
{{- end -}}

{{- define "punctual.checks.doors" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress is on, but ingress.hosts is empty: name at least one host" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.parentRefs) -}}
{{- fail "gateway is on, but gateway.parentRefs is empty: name at least one Gateway" -}}
{{- end -}}
{{- if and .Values.service.loadBalancerSourceRanges (ne .Values.service.type "LoadBalancer") -}}
{{- fail (printf "service.loadBalancerSourceRanges is set, but service.type is %s: only a LoadBalancer supports them" .Values.service.type) -}}
{{- end -}}
{{- end -}}

{{- define "punctual.checks.rest" -}}
{{- with .Values.embedded.persistence -}}
{{- if and .existingClaim (not .enabled) -}}
{{- fail "embedded.persistence.existingClaim is set, but persistence is off: switch it on, or remove the claim" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.monitoring.serviceMonitor.enabled .Values.monitoring.scrapeAnnotations -}}
{{- fail "monitoring.serviceMonitor and monitoring.scrapeAnnotations are both on, and replicas would be scraped twice: switch one of them off" -}}
{{- end -}}
{{- $mail := dig "mail" dict .Values.settings -}}
{{- if and .Values.mail.passwordSecret.name (not (dig "url" "" $mail)) -}}
{{- fail "mail.passwordSecret is set, but settings.mail.url is not: there is no mail server to use it for" -}}
{{- end -}}
{{- if and (dig "url" "" $mail) (not (dig "from" "" $mail)) -}}
{{- fail "settings.mail.url is set, but settings.mail.from is not: set the sender address of mails" -}}
{{- end -}}
{{- if regexMatch "://[^/@]*:[^/@]+@" (dig "url" "" $mail) -}}
{{- fail "settings.mail.url has a password in it, which everyone who can read the values can read: put it into a Secret and name that in mail.passwordSecret.name" -}}
{{- end -}}
{{- $issuer := dig "oidc" "issuer" "" .Values.settings -}}
{{- if and .Values.oidc.clientSecret.name (not $issuer) -}}
{{- fail "oidc.clientSecret is set, but settings.oidc.issuer is not: there is no provider to use it for" -}}
{{- end -}}
{{- if and $issuer (not .Values.oidc.clientSecret.name) -}}
{{- fail "settings.oidc.issuer is set, but oidc.clientSecret.name is not: put the client secret into a Secret and name it there" -}}
{{- end -}}
{{- $plan := dig "accounts" "plan" "unlimited" .Values.settings -}}
{{- if not (has $plan (append (keys .Values.plans) "unlimited")) -}}
{{- fail (printf "settings.accounts.plan is %s, but there is no plan of that name in plans" $plan) -}}
{{- end -}}
{{- end -}}
