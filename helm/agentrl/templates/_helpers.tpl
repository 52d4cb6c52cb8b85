{{/* Names. */}}
{{- define "agentrl.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "agentrl.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "agentrl.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "agentrl.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "agentrl.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "agentrl.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: needed when serviceAccount.create is false" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* Labels that select the pods of a component. Call with (list . "component"). */}}
{{- define "agentrl.selector" -}}
{{- $ := index . 0 -}}
app.kubernetes.io/name: {{ include "agentrl.name" $ }}
app.kubernetes.io/instance: {{ $.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The metadata of an object below its name. Call with (list . "component"), and more labels if any. */}}
{{- define "agentrl.labels" -}}
{{- $ := index . 0 -}}
labels:
  {{- include "agentrl.selector" . | nindent 2 }}
  app.kubernetes.io/version: {{ $.Chart.AppVersion | quote }}
  app.kubernetes.io/part-of: agentrl
  app.kubernetes.io/managed-by: {{ $.Release.Service }}
  helm.sh/chart: {{ printf "%s-%s" $.Chart.Name $.Chart.Version }}
  {{- $more := dict }}
  {{- if gt (len .) 2 }}{{ $more = index . 2 }}{{ end }}
  {{- with merge (dict) $more $.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "agentrl.metadata" -}}
{{- $ := index . 0 -}}
namespace: {{ $.Release.Namespace }}
{{ include "agentrl.labels" . }}
{{- with $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* An image. Call with (list . .Values.images.NAME). */}}
{{- define "agentrl.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default (index . 0).Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* What Pod Security's `restricted` asks of a pod, and of a container. */}}
{{- define "agentrl.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "agentrl.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where things are. */}}
{{- define "agentrl.kfpUrl" -}}
{{- default (printf "http://ml-pipeline.%s.svc:8888" .Values.kfp.namespace) .Values.kfp.url }}
{{- end }}

{{- define "agentrl.kfpToken" -}}
/var/run/secrets/kubeflow/pipelines
{{- end }}

{{/* storage.others as the platform's configuration has it; the operator's variables are numbered. */}}
{{- define "agentrl.otherStores" -}}
{{- $stores := list }}
{{- range $index, $one := .Values.storage.others }}
{{- $secret := dict "name" $one.existingSecret "accessKey" (default "accesskey" $one.accessKey) "secretKey" (default "secretkey" $one.secretKey) }}
{{- $names := dict "accessKeyEnv" (printf "STORE_%d_ACCESS_KEY" $index) "secretKeyEnv" (printf "STORE_%d_SECRET_KEY" $index) }}
{{- $stores = append $stores (merge (dict "endpoint" (default nil $one.endpoint) "region" (default nil $one.region) "secret" $secret) $names) }}
{{- end }}
{{- $stores | toJson }}
{{- end }}

{{- define "agentrl.storage" -}}
{{- $own := .Values.storage }}
{{- $keys := dict "accessKey" $own.accessKey "secretKey" $own.secretKey }}
{{- if and $own.url .Values.minio.enabled }}
{{- fail "storage.url: set although minio.enabled keeps runs in the try-out MinIO; leave one of them out" }}
{{- else if $own.url }}
{{- $name := required "storage.existingSecret: needed when storage.url is set; name a Secret with the store's keys" $own.existingSecret }}
url: {{ $own.url | quote }}
endpoint: {{ if $own.endpoint }}{{ $own.endpoint | quote }}{{ else }}null{{ end }}
region: {{ if $own.region }}{{ $own.region | quote }}{{ else }}null{{ end }}
secret: {{ merge (dict "name" $name) $keys | toJson }}
{{- else if or $own.endpoint $own.region }}
{{- fail "storage.url: needed when storage.endpoint or storage.region is set" }}
{{- else if .Values.minio.enabled }}
{{- if $own.existingSecret }}
{{- fail "storage.existingSecret: set although minio.enabled makes a Secret of its own; leave one of them out" }}
{{- end }}
url: {{ printf "s3://%s" .Values.minio.bucket }}
endpoint: {{ printf "http://%s-minio.%s.svc:9000" (include "agentrl.fullname" .) .Release.Namespace }}
region: null
secret: {{ dict "name" (printf "%s-minio" (include "agentrl.fullname" .)) "accessKey" "accesskey" "secretKey" "secretkey" | toJson }}
{{- else }}
url: s3://mlpipeline/agentrl
endpoint: {{ printf "http://minio-service.%s.svc:9000" .Values.kfp.namespace }}
region: null
secret: {{ merge (dict "name" (default "mlpipeline-minio-artifact" $own.existingSecret)) $keys | toJson }}
{{- end }}
{{- end }}

{{- define "agentrl.trackingUri" -}}
{{- if and .Values.tracking.uri .Values.mlflow.enabled }}
{{- fail "tracking.uri: set although mlflow.enabled shows runs in the try-out MLflow; leave one of them out" }}
{{- else if .Values.tracking.uri }}
{{- .Values.tracking.uri }}
{{- else if .Values.mlflow.enabled }}
{{- printf "http://%s-mlflow.%s.svc:5000" (include "agentrl.fullname" .) .Release.Namespace }}
{{- end }}
{{- end }}

{{/* platform.yaml, which agentrl_pipelines.platform reads. */}}
{{- define "agentrl.platform" -}}
kfp:
  url: {{ include "agentrl.kfpUrl" . | quote }}
  uiUrl: {{ if .Values.kfp.uiUrl }}{{ .Values.kfp.uiUrl | quote }}{{ else }}null{{ end }}
  namespace: {{ .Values.kfp.namespace }}
  multiUser: {{ .Values.kfp.multiUser }}
  tokenFile: {{ if .Values.kfp.multiUser }}{{ include "agentrl.kfpToken" . }}/token{{ else }}null{{ end }}
storage:
  {{- include "agentrl.storage" . | trim | nindent 2 }}
  {{- with include "agentrl.otherStores" . | fromJsonArray }}
  others:
    {{- range . }}
    - {{ . | toJson }}
    {{- end }}
  {{- end }}
tracking:
  {{- $uri := include "agentrl.trackingUri" . }}
  uri: {{ if $uri }}{{ $uri | quote }}{{ else }}null{{ end }}
  uiUrl: {{ if .Values.tracking.uiUrl }}{{ .Values.tracking.uiUrl | quote }}{{ else }}null{{ end }}
  {{- with .Values.tracking.others }}
  others: {{ . | toJson }}
  {{- end }}
images:
  stage: {{ include "agentrl.image" (list . .Values.images.stage) | quote }}
  environment: {{ include "agentrl.image" (list . .Values.images.environment) | quote }}
  pullPolicy: {{ .Values.images.pullPolicy }}
kueue:
  admission: {{ .Values.kueue.admission }}
pollSeconds: {{ .Values.pollSeconds }}
{{- end }}

{{/* Namespaces in which runs are known to live; none when they may live in any profile. */}}
{{- define "agentrl.runNamespaces" -}}
{{- default (ternary list (list .Values.kfp.namespace) .Values.kfp.multiUser) .Values.watchNamespaces | toJson }}
{{- end }}

{{/* Names are asked for at port 53; OpenShift's DNS pods listen at 5353 behind it. */}}
{{- define "agentrl.dns" -}}
- ports:
    {{- range list 53 5353 }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

{{/* Egress rules towards a URL. A Service's port is not its pods', and a policy sees the pods': so a
     name inside the cluster opens its namespace, another one its port. NAME.NAMESPACE may be either.
     Call with (list . URL). */}}
{{- define "agentrl.egress" -}}
{{- $address := index . 1 }}
{{- if not (contains "://" $address) }}{{ $address = printf "https://%s" $address }}{{ end }}
{{- $parsed := urlParse $address }}
{{- $host := $parsed.hostname }}
{{- $labels := splitList "." (replace ":" "." $host) }}
{{- $inside := regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host }}
{{- if or $inside (le (len $labels) 2) }}
- to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ ternary (index . 0).Release.Namespace (index (append $labels "") 1) (eq (len $labels) 1) }}}
{{- end }}
{{- if not (or $inside (eq (len $labels) 1)) }}
{{- $port := last (splitList ":" $parsed.host) }}
- ports:
    - {protocol: TCP, port: {{ if regexMatch "^[0-9]+$" $port }}{{ $port }}{{ else }}{{ ternary 80 443 (eq $parsed.scheme "http") }}{{ end }}}
{{- end }}
{{- end }}

{{- define "agentrl.pullSecrets" -}}
{{- with .Values.images.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}
