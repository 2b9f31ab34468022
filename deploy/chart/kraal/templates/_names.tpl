{{- /* Names and labels. A name leaves room for the suffixes of the objects and the hash of a StatefulSet's revision. */ -}}
{{- define "kraal.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kraal.headless" -}}
{{ include "kraal.fullname" . }}-workers
{{- end -}}

{{- define "kraal.group" -}}
{{ .Values.groupId | default (include "kraal.fullname" .) }}
{{- end -}}

{{- define "kraal.selector" -}}
app.kubernetes.io/name: {{ .Values.nameOverride | default .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kraal.workerSelector" -}}
{{ include "kraal.selector" . }}
app.kubernetes.io/component: worker
{{- end -}}

{{- define "kraal.labels" -}}
{{ include "kraal.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "kraal.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "kraal.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- /* An image: a dictionary with repository, digest and tag. */ -}}
{{- define "kraal.imageReference" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default "latest" }}
{{- end -}}
{{- end -}}

{{- define "kraal.image" -}}
{{- $image := .Values.image -}}
{{- include "kraal.imageReference" (dict "repository" $image.repository "digest" $image.digest "tag" ($image.tag | default .Chart.AppVersion)) -}}
{{- end -}}

{{- define "kraal.scheme" -}}
{{- ternary "http" "https" (empty .Values.rest.tls.secretName) -}}
{{- end -}}

{{- define "kraal.url" -}}
{{ include "kraal.scheme" . }}://{{ include "kraal.fullname" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}:{{ .Values.rest.port }}
{{- end -}}
