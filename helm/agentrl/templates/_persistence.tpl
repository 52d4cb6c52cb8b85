{{/* PersistentVolumeClaim of the MinIO or MLflow for trials. Call with (list . "component" persistence). */}}
{{- define "agentrl.claim" -}}
{{- $ := index . 0 }}
{{- $component := index . 1 }}
{{- $persistence := index . 2 }}
{{- if $persistence.enabled }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ include "agentrl.fullname" $ }}-{{ $component }}
  namespace: {{ $.Release.Namespace | quote }}
  {{- include "agentrl.labels" (list $ $component) | nindent 2 }}
  annotations:
    helm.sh/resource-policy: keep
    {{- with $.Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  accessModes: [ReadWriteOnce]
  {{- with $persistence.storageClassName }}
  storageClassName: {{ . | quote }}
  {{- end }}
  resources:
    requests: {storage: {{ $persistence.size | quote }}}
---
{{- end }}
{{- end }}

{{/* Volume of a pod that uses this claim. Call with (list "claim" persistence). */}}
{{- define "agentrl.data" -}}
- name: data
{{- if (index . 1).enabled }}
  persistentVolumeClaim: {claimName: {{ index . 0 }}}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end }}
