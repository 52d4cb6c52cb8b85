{{/* Names of objects. */}}
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
app.kubernetes.io/name: {{ include "agentrl.name" $ | quote }}
app.kubernetes.io/instance: {{ $.Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* The labels of an object: those of its selector cannot be replaced, others by extra labels and by commonLabels.
     Call with (list . "component") and optional extra labels. */}}
{{- define "agentrl.labels" -}}
{{- $ := index . 0 -}}
{{- $more := dict }}
{{- if gt (len .) 2 }}{{ $more = index . 2 }}{{ end }}
{{- $chart := dict "app.kubernetes.io/version" $.Chart.AppVersion "app.kubernetes.io/part-of" "agentrl" }}
{{- $_ := set $chart "app.kubernetes.io/managed-by" $.Release.Service }}
{{- $_ := set $chart "helm.sh/chart" (printf "%s-%s" $.Chart.Name $.Chart.Version) -}}
labels:
  {{- merge (include "agentrl.selector" . | fromYaml) $more $.Values.commonLabels $chart | toYaml | nindent 2 }}
{{- end }}

{{- define "agentrl.metadata" -}}
{{- $ := index . 0 -}}
namespace: {{ $.Release.Namespace | quote }}
{{ include "agentrl.labels" . }}
{{- with $.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Reference of an image. Call with (list . .Values.images.NAME). */}}
{{- define "agentrl.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default (index . 0).Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* Security contexts of pods and containers for the Pod Security Standard `restricted`. */}}
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

{{/* Addresses and paths. */}}
{{- define "agentrl.kfpUrl" -}}
{{- default (printf "http://ml-pipeline.%s.svc:8888" .Values.kfp.namespace) .Values.kfp.url }}
{{- end }}

{{- define "agentrl.kfpToken" -}}
/var/run/secrets/kubeflow/pipelines
{{- end }}

{{/* {"secret": the Secret of a store with a URL or an endpoint, or null if pods use the identity of their service
     account}. Call with (list FIELD VALUES ACCESS_KEY SECRET_KEY). */}}
{{- define "agentrl.storeSecret" -}}
{{- $field := index . 0 }}
{{- $one := index . 1 }}
{{- if and $one.workloadIdentity $one.existingSecret }}
{{- fail (printf "%s.existingSecret: must be empty if %s.workloadIdentity is true" $field $field) }}
{{- else if $one.workloadIdentity -}}
{"secret": null}
{{- else }}
{{- $name := required (printf "%s.existingSecret: required; name a Secret with the store's keys, or set workloadIdentity" $field) $one.existingSecret -}}
{{- dict "secret" (dict "name" $name "accessKey" (index . 2) "secretKey" (index . 3)) | toJson }}
{{- end }}
{{- end }}

{{/* storage.others in the format of platform.yaml. The environment variables with the keys are numbered. */}}
{{- define "agentrl.otherStores" -}}
{{- $stores := list }}
{{- range $index, $one := .Values.storage.others }}
{{- $field := printf "storage.others[%d]" $index }}
{{- $secret := include "agentrl.storeSecret" (list $field $one (default "accesskey" $one.accessKey) (default "secretkey" $one.secretKey)) | fromJson }}
{{- $names := dict "accessKeyEnv" (printf "STORE_%d_ACCESS_KEY" $index) "secretKeyEnv" (printf "STORE_%d_SECRET_KEY" $index) }}
{{- $stores = append $stores (merge (dict "endpoint" (default nil $one.endpoint) "region" (default nil $one.region) "secret" (get $secret "secret")) $names) }}
{{- end }}
{{- $stores | toJson }}
{{- end }}

{{- define "agentrl.storage" -}}
{{- $own := .Values.storage }}
{{- $keys := dict "accessKey" $own.accessKey "secretKey" $own.secretKey }}
{{- if and $own.url .Values.minio.enabled }}
{{- fail "storage.url: must be empty if minio.enabled is true, because runs are then stored in that MinIO" }}
{{- else if $own.url }}
{{- if not (or $own.endpoint $own.region) }}
{{- fail "storage.region: required if storage.url is set without storage.endpoint: the store is AWS S3" }}
{{- end }}
{{- $secret := include "agentrl.storeSecret" (list "storage" $own $own.accessKey $own.secretKey) | fromJson }}
url: {{ $own.url | quote }}
endpoint: {{ if $own.endpoint }}{{ $own.endpoint | quote }}{{ else }}null{{ end }}
region: {{ if $own.region }}{{ $own.region | quote }}{{ else }}null{{ end }}
secret: {{ get $secret "secret" | toJson }}
{{- else if or $own.endpoint $own.region }}
{{- fail "storage.url: required if storage.endpoint or storage.region is set" }}
{{- else if $own.workloadIdentity }}
{{- fail "storage.url: required if storage.workloadIdentity is true" }}
{{- else if .Values.minio.enabled }}
url: {{ printf "s3://%s" .Values.minio.bucket }}
endpoint: {{ printf "http://%s-minio.%s.svc:9000" (include "agentrl.fullname" .) .Release.Namespace }}
region: null
{{- if $own.existingSecret }}
secret: {{ merge (dict "name" $own.existingSecret) $keys | toJson }}
{{- else }}
secret: {{ dict "name" (printf "%s-minio" (include "agentrl.fullname" .)) "accessKey" "accesskey" "secretKey" "secretkey" | toJson }}
{{- end }}
{{- else }}
url: s3://mlpipeline/agentrl
endpoint: {{ printf "http://minio-service.%s.svc:9000" .Values.kfp.namespace }}
region: null
secret: {{ merge (dict "name" (default "mlpipeline-minio-artifact" $own.existingSecret)) $keys | toJson }}
{{- end }}
{{- end }}

{{- define "agentrl.trackingUri" -}}
{{- if and .Values.tracking.uri .Values.mlflow.enabled }}
{{- fail "tracking.uri: must be empty if mlflow.enabled is true, because runs are then logged to that MLflow" }}
{{- else if .Values.tracking.uri }}
{{- .Values.tracking.uri }}
{{- else if .Values.mlflow.enabled }}
{{- printf "http://%s-mlflow.%s.svc:5000" (include "agentrl.fullname" .) .Release.Namespace }}
{{- end }}
{{- end }}

{{/* Hosts that pods connect to without the proxy, as JSON: those inside the cluster, its API server, whose address
     Kubernetes fills in, the agent of EKS Pod Identity, and those of proxy.noProxy. */}}
{{- define "agentrl.noProxy" -}}
{{- $inside := list "localhost" "127.0.0.1" ".svc" ".cluster.local" (printf ".%s" .Values.kfp.namespace) (printf ".%s" .Release.Namespace) }}
{{- $inside = concat $inside (list "metadata-grpc-service" "ml-pipeline" "minio-service" "seaweedfs") }}
{{- /* KFP hands some Services to its stages by their address. */}}
{{- range list "KUBERNETES" "MINIO_SERVICE" "ML_PIPELINE" "METADATA_GRPC_SERVICE" }}
{{- $inside = append $inside (printf "$(%s_SERVICE_HOST)" .) }}
{{- end }}
{{- range include "agentrl.urls" . | fromJsonArray }}
{{- $place := include "agentrl.place" . | fromJson }}
{{- if not $place.outside }}{{ $inside = append $inside $place.host }}{{ end }}
{{- end }}
{{- concat $inside (list "169.254.170.23" "fd00:ec2::23") .Values.proxy.noProxy | uniq | toJson }}
{{- end }}

{{/* Environment variables of the operator for connections to other services: those that agentrl_pipelines.platform
     gives to the pods of runs. */}}
{{- define "agentrl.outboundEnv" -}}
{{- $variables := dict }}
{{- with .Values.caBundle }}
{{- if .configMap }}
{{- $_ := set $variables "SSL_CERT_DIR" (include "agentrl.caFolder" $) }}
{{- range list "SSL_CERT_FILE" "REQUESTS_CA_BUNDLE" "AWS_CA_BUNDLE" }}
{{- $_ := set $variables . (printf "%s/%s" (include "agentrl.caFolder" $) $.Values.caBundle.key) }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.proxy }}
{{- if or .http .https }}
{{- $addresses := dict "http_proxy" .http "https_proxy" .https "no_proxy" (include "agentrl.noProxy" $ | fromJsonArray | join ",") }}
{{- range $name, $value := $addresses }}
{{- if $value }}
{{- $_ := set $variables $name $value }}
{{- $_ := set $variables (upper $name) $value }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $own := list }}
{{- range .Values.operator.extraEnv }}{{ $own = append $own (lower .name) }}{{ end }}
{{- range $name, $value := $variables }}
{{- if not (has (lower $name) $own) }}
- {name: {{ $name | quote }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "agentrl.caFolder" -}}
/etc/agentrl-ca
{{- end }}

{{/* platform.yaml, the configuration that agentrl_pipelines.platform reads. */}}
{{- define "agentrl.platform" -}}
kfp:
  url: {{ include "agentrl.kfpUrl" . | quote }}
  uiUrl: {{ if .Values.kfp.uiUrl }}{{ .Values.kfp.uiUrl | quote }}{{ else }}null{{ end }}
  namespace: {{ .Values.kfp.namespace | quote }}
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
  {{- with .Values.tracking.existingSecret }}
  {{- if not $.Values.tracking.uri }}
  {{- fail "tracking.existingSecret: has no effect without tracking.uri" }}
  {{- end }}
  {{- with $.Values.tracking }}
  secret: {{ dict "name" .existingSecret "usernameKey" .usernameKey "passwordKey" .passwordKey "tokenKey" (default nil .tokenKey) | toJson }}
  {{- end }}
  {{- end }}
  {{- with .Values.tracking.others }}
  others: {{ . | toJson }}
  {{- end }}
images:
  stage: {{ include "agentrl.image" (list . .Values.images.stage) | quote }}
  environment: {{ include "agentrl.image" (list . .Values.images.environment) | quote }}
  environmentScience: {{ include "agentrl.image" (list . .Values.images.environmentScience) | quote }}
  environmentWeb: {{ include "agentrl.image" (list . .Values.images.environmentWeb) | quote }}
  pullPolicy: {{ .Values.images.pullPolicy }}
{{- with .Values.caBundle }}
{{- if .configMap }}
caBundle: {{ . | toJson }}
{{- end }}
{{- end }}
{{- with .Values.proxy }}
{{- if or .http .https }}
proxy:
  http: {{ if .http }}{{ .http | quote }}{{ else }}null{{ end }}
  https: {{ if .https }}{{ .https | quote }}{{ else }}null{{ end }}
  noProxy: {{ include "agentrl.noProxy" $ }}
{{- end }}
{{- end }}
kueue:
  admission: {{ .Values.kueue.admission }}
  maxPodSets: {{ .Values.kueue.maxPodSets }}
pollSeconds: {{ .Values.pollSeconds }}
{{- end }}

{{/* Namespaces with runs, as JSON. Empty if runs can be in any profile. */}}
{{- define "agentrl.runNamespaces" -}}
{{- default (ternary list (list .Values.kfp.namespace) .Values.kfp.multiUser) .Values.watchNamespaces | toJson }}
{{- end }}

{{/* Egress rule for DNS: port 53, and 5353, on which the DNS pods of OpenShift listen. */}}
{{- define "agentrl.dns" -}}
- ports:
    {{- range list 53 5353 }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}

{{/* Egress rules for a URL. A NetworkPolicy is evaluated against the port of the pod, which can differ from
     the port of the Service. A host name inside the cluster therefore allows its whole namespace, and any
     other host name allows its port. NAME.NAMESPACE can be either and allows both. Call with (list . URL). */}}
{{- define "agentrl.egress" -}}
{{- $place := include "agentrl.place" (index . 1) | fromJson }}
{{- if $place.inside }}
- to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ default (index . 0).Release.Namespace $place.namespace | quote }}}
{{- end }}
{{- if $place.outside }}
- ports:
    - {protocol: TCP, port: {{ $place.port }}}
{{- end }}
{{- end }}

{{/* Where the host of a URL may be, as JSON: inside the cluster and, if so, in which namespace (empty: that of the release);
     outside of it and, if so, on which port. NAME.NAMESPACE can be either. Call with a URL. */}}
{{- define "agentrl.place" -}}
{{- $address := ternary . (printf "https://%s" .) (contains "://" .) }}
{{- $parsed := urlParse $address }}
{{- $host := $parsed.hostname }}
{{- $labels := splitList "." (replace ":" "." $host) }}
{{- $service := regexMatch "^[^.]+\\.[^.]+\\.svc(\\..+)?$" $host }}
{{- $port := last (splitList ":" $parsed.host) }}
{{- if not (regexMatch "^[0-9]+$" $port) }}{{ $port = ternary "80" "443" (eq $parsed.scheme "http") }}{{ end }}
{{- $inside := or $service (le (len $labels) 2) }}
{{- $outside := not (or $service (eq (len $labels) 1)) }}
{{- $namespace := ternary "" (index (append $labels "") 1) (eq (len $labels) 1) }}
{{- dict "host" $host "inside" $inside "namespace" $namespace "outside" $outside "port" (int $port) | toJson }}
{{- end }}

{{/* URLs of the services that the operator calls, as JSON: KFP, the stores, MLflow. */}}
{{- define "agentrl.urls" -}}
{{- $urls := list (include "agentrl.kfpUrl" .) (include "agentrl.trackingUri" .) }}
{{- range prepend (include "agentrl.otherStores" . | fromJsonArray) (include "agentrl.storage" . | fromYaml) }}
{{- $urls = append $urls (default "https://s3.amazonaws.com" .endpoint) }}
{{- end }}
{{- concat $urls .Values.tracking.others | compact | toJson }}
{{- end }}

{{- define "agentrl.pullSecrets" -}}
{{- with .Values.images.pullSecrets -}}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}
