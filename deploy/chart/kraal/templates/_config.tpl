{{- /* A value as text. Helm reads numbers as floats, and only JSON prints large numbers without an exponent. */ -}}
{{- define "kraal.text" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}

{{- /* A value, escaped for a properties file: backslashes, line breaks, tabs, and a leading space. */ -}}
{{- define "kraal.property" -}}
{{- $text := include "kraal.text" . | replace "\\" "\\\\" | replace "\r" "\\r" | replace "\n" "\\n" | replace "\t" "\\t" -}}
{{- if hasPrefix " " $text -}}\{{- end -}}{{ $text }}
{{- end -}}

{{- /* The keys that the chart sets, as JSON. */ -}}
{{- define "kraal.ownConfig" -}}
{{- $group := include "kraal.group" . -}}
{{- $own := dict
  "bootstrap.servers" .Values.bootstrapServers
  "group.id" $group
  "config.storage.topic" (.Values.topics.config | default (printf "%s-configs" $group))
  "offset.storage.topic" (.Values.topics.offset | default (printf "%s-offsets" $group))
  "status.storage.topic" (.Values.topics.status | default (printf "%s-status" $group))
  "listeners" (printf "%s://:%v" (include "kraal.scheme" .) .Values.rest.port)
  "kraal.data.dir" "/var/lib/kraal/data" -}}
{{- with .Values.plugins.lock }}{{ $_ := set $own "kraal.plugins.lock" . }}{{ end -}}
{{- with .Values.plugins.javaPath }}{{ $_ := set $own "plugin.path" (join "," .) }}{{ end -}}
{{- with .Values.rest.tls -}}
{{- if .secretName -}}
{{- range $store, $file := dict "keystore" .keystore "truststore" .truststore -}}
{{- if $file -}}
{{- $_ := set $own (printf "listeners.https.ssl.%s.location" $store) (printf "/etc/kraal/tls/%s" $file) -}}
{{- $_ := set $own (printf "listeners.https.ssl.%s.type" $store) $.Values.rest.tls.type -}}
{{- if $.Values.rest.tls.passwordSecret.name -}}
{{- $_ := set $own (printf "listeners.https.ssl.%s.password" $store) "${chart:/etc/kraal/tls:password}" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if .Values.rest.auth.usersSecret -}}
{{- $_ := set $own "rest.extension.classes" "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension" -}}
{{- $_ := set $own "java.security.auth.login.config" "/etc/kraal/chart/jaas.conf" -}}
{{- end -}}
{{- toJson $own -}}
{{- end -}}

{{- /* The worker's properties file, without the keys that differ between pods. */ -}}
{{- define "kraal.properties" -}}
{{- $own := include "kraal.ownConfig" . | fromJson -}}
{{- $config := deepCopy .Values.config -}}
{{- range $key := concat (keys $own) (list "rest.advertised.host.name" "rest.advertised.port" "static.connectors" "static.tasks" "kraal.plugins.lock" "plugin.path") -}}
{{- if hasKey $config $key -}}
{{- fail (printf "config: %s is a key that the chart sets; use the chart's values instead (docs/deploy/kubernetes.md)" $key) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.rest.tls.secretName .Values.rest.tls.passwordSecret.name -}}
{{- $_ := set $config "config.providers" (append (compact (list (get $config "config.providers"))) "chart" | join ",") -}}
{{- $_ := set $config "config.providers.chart.class" "org.apache.kafka.common.config.provider.DirectoryConfigProvider" -}}
{{- $_ := set $config "config.providers.chart.param.allowed.paths" "/etc/kraal/tls" -}}
{{- end -}}
{{- $all := merge $own $config -}}
{{- range $key := keys $all | sortAlpha }}
{{- if not (kindIs "invalid" (get $all $key)) }}
{{ $key }}={{ include "kraal.property" (get $all $key) }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The files of the ConfigMap. */ -}}
{{- define "kraal.files" -}}
worker.properties: |
  {{- include "kraal.properties" . | trim | nindent 2 }}
start.sh: |
  {{- .Files.Get "files/start.sh" | trim | nindent 2 }}
{{- range $number, $lists := .Values.assignments }}
assignment-{{ $number }}.properties: |
  {{- range $key := list "connectors" "tasks" }}
  {{- with get $lists $key }}
  static.{{ $key }}={{ include "kraal.property" (join "," .) }}
  {{- end }}
  {{- end }}
{{- end }}
{{- if .Values.rest.auth.usersSecret }}
jaas.conf: |
  KafkaConnect {
    org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
    file="/etc/kraal/users/users.properties";
  };
probe.py: |
  {{- .Files.Get "files/probe.py" | trim | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Seconds within which a worker must stop; the tasks' timeout is rounded up to full seconds. */ -}}
{{- define "kraal.gracePeriod" -}}
{{- if .Values.terminationGracePeriodSeconds -}}
{{ .Values.terminationGracePeriodSeconds }}
{{- else -}}
{{- $milliseconds := get .Values.config "task.shutdown.graceful.timeout.ms" | default 5000 | int64 -}}
{{ add (div (add $milliseconds 999) 1000) 60 (int64 .Values.preStopSeconds) }}
{{- end -}}
{{- end -}}

{{- /* Checks of values that depend on each other, which the schema cannot express. */ -}}
{{- define "kraal.check" -}}
{{- range $number, $_ := .Values.assignments -}}
{{- if ge (int64 $number) (int64 $.Values.replicas) -}}
{{- fail (printf "assignments: there is no pod %s with %v replicas" $number $.Values.replicas) -}}
{{- end -}}
{{- end -}}
{{- with .Values.plugins -}}
{{- if and .image.repository .volume -}}
{{- fail "plugins: set image or volume, not both" -}}
{{- end -}}
{{- if and (or .image.repository .volume) (not .lock) (not .javaPath) -}}
{{- fail "plugins: set lock or javaPath to paths in /opt/kraal-plugins; otherwise the worker does not load the plugins" -}}
{{- end -}}
{{- end -}}
{{- with .Values.rest.auth -}}
{{- if and .usersSecret (not .clientSecret) -}}
{{- fail "rest.auth: with usersSecret, set clientSecret, because probes need a user" -}}
{{- end -}}
{{- end -}}
{{- with .Values.monitoring.prometheusRule -}}
{{- if and .enabled (not .rules) -}}
{{- fail "monitoring.prometheusRule: set rules with --set-file monitoring.prometheusRule.rules=FILE" -}}
{{- end -}}
{{- end -}}
{{- end -}}
