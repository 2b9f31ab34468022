{{- /* Parts of the pods of workers, and of the Job that applies connectors. */ -}}
{{- define "kraal.scheduling" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "kraal.spread" -}}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- if .Values.topologySpreadConstraints }}
{{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
{{- else }}
{{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "kraal.workerSelector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "kraal.probeAction" -}}
{{- if .Values.rest.auth.usersSecret -}}
exec:
  command: [python3, -S, -I, /etc/kraal/chart/probe.py, "{{ include "kraal.scheme" . }}://127.0.0.1:{{ .Values.rest.port }}/health", /etc/kraal/client]
{{- else -}}
httpGet: {path: /health, port: rest, scheme: {{ include "kraal.scheme" . | upper }}}
{{- end -}}
{{- end -}}

{{- define "kraal.initContainers" -}}
- name: config
  image: {{ include "kraal.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  command: [sh, /etc/kraal/chart/start.sh, /etc/kraal/chart, /etc/kraal/worker/worker.properties]
  env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: DOMAIN
      value: {{ include "kraal.headless" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
  securityContext: {{- toYaml .Values.securityContext | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 64Mi}
  volumeMounts:
    - {name: chart, mountPath: /etc/kraal/chart, readOnly: true}
    - {name: worker, mountPath: /etc/kraal/worker}
{{- with .Values.plugins.image }}
{{- if .repository }}
- name: plugins
  image: {{ include "kraal.imageReference" . | quote }}
  imagePullPolicy: {{ .pullPolicy }}
  command: [cp, -R, {{ printf "%s/." (trimSuffix "/" .path) | quote }}, /opt/kraal-plugins/]
  securityContext: {{- toYaml $.Values.securityContext | nindent 4 }}
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 128Mi}
  volumeMounts:
    - {name: plugins, mountPath: /opt/kraal-plugins}
{{- end }}
{{- end }}
{{- end -}}

{{- define "kraal.volumeMounts" -}}
- {name: worker, mountPath: /etc/kraal/worker, readOnly: true}
- {name: chart, mountPath: /etc/kraal/chart, readOnly: true}
- {name: data, mountPath: /var/lib/kraal}
- {name: tmp, mountPath: /tmp}
{{- range $index, $name := .Values.secrets }}
- {name: secret-{{ $index }}, mountPath: /etc/kraal/secrets/{{ $name }}, readOnly: true}
{{- else }}
- {name: no-secrets, mountPath: /etc/kraal/secrets, readOnly: true}
{{- end }}
{{- if .Values.rest.tls.secretName }}
- {name: tls, mountPath: /etc/kraal/tls, readOnly: true}
{{- end }}
{{- if .Values.rest.auth.usersSecret }}
- {name: users, mountPath: /etc/kraal/users, readOnly: true}
- {name: client, mountPath: /etc/kraal/client, readOnly: true}
{{- end }}
{{- if or .Values.plugins.image.repository .Values.plugins.volume }}
- {name: plugins, mountPath: /opt/kraal-plugins, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Secrets have mode 0440, so that root and the pod's group (fsGroup) can read them. */ -}}
{{- define "kraal.volumes" -}}
- name: worker
  emptyDir: {medium: Memory, sizeLimit: 10Mi}
- name: chart
  configMap: {name: {{ include "kraal.fullname" . }}}
- name: data
  {{- .Values.dataVolume | default (dict "emptyDir" dict) | toYaml | nindent 2 }}
- name: tmp
  {{- .Values.tmpVolume | default (dict "emptyDir" dict) | toYaml | nindent 2 }}
{{- range $index, $name := .Values.secrets }}
- name: secret-{{ $index }}
  secret: {secretName: {{ $name }}, defaultMode: 0440}
{{- else }}
- name: no-secrets
  emptyDir: {sizeLimit: 1Mi}
{{- end }}
{{- if .Values.rest.tls.secretName }}
- name: tls
  projected:
    defaultMode: 0440
    sources:
      - secret: {name: {{ .Values.rest.tls.secretName }}}
      {{- with .Values.rest.tls.passwordSecret }}
      {{- if .name }}
      - secret: {name: {{ .name }}, items: [{key: {{ .key }}, path: password}]}
      {{- end }}
      {{- end }}
{{- end }}
{{- with .Values.rest.auth }}
{{- if .usersSecret }}
- name: users
  secret: {secretName: {{ .usersSecret }}, defaultMode: 0440}
- name: client
  secret: {secretName: {{ .clientSecret }}, defaultMode: 0440}
{{- end }}
{{- end }}
{{- if .Values.plugins.image.repository }}
- name: plugins
  emptyDir: {}
{{- else if .Values.plugins.volume }}
- name: plugins
  {{- toYaml .Values.plugins.volume | nindent 2 }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
