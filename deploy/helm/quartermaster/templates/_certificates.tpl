{{- /* The validity and issuer of a certificate in a Secret (base64 of PEM): {"from": T, "until": T, "issuer": NAME} as JSON, the
times in Unix seconds; {} if it is not a certificate. Of several the first is read.

Helm has no function that reads a certificate. In DER the validity is a SEQUENCE of two times, each a UTCTime (tag 0x17, 13 bytes) or,
from 2050 on, a GeneralizedTime (0x18, 15 bytes): RFC 5280, 4.1.2.5. The issuer's name ends right before it; ours is a common name
(OID 2.5.4.3) and nothing else. */ -}}
{{- define "qm.certificate" -}}
{{- $out := dict -}}
{{- $pem := regexFind "-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----" (b64dec .) -}}
{{- $der := b64dec (regexReplaceAll "-----[A-Z ]+-----|\\s" $pem "") -}}
{{- $time := "(?:\\x17\\x0d[0-9]{12}Z|\\x18\\x0f[0-9]{14}Z)" -}}
{{- $validity := regexFind (printf "0[\\x1e\\x20\\x22]%s%s" $time $time) $der -}}
{{- if $validity -}}
{{- range $i, $digits := regexFindAll "[0-9]{12,14}Z" $validity 2 -}}
{{- if eq (len $digits) 13 -}}
{{- $digits = printf "%s%s" (ternary "20" "19" (lt (substr 0 2 $digits | atoi) 50)) $digits -}}
{{- end -}}
{{- $_ := set $out (index (list "from" "until") $i) (toDate "20060102150405Z07:00" $digits | unixEpoch | int64) -}}
{{- end -}}
{{- $issuer := regexFind (printf "\\x06\\x03U\\x04\\x03[\\x0c\\x13][\\x01-\\x40][ -~]{1,64}0[\\x1e\\x20\\x22]%s" $time) $der -}}
{{- if $issuer -}}
{{- $name := regexFind "^[ -~]+0[\\x1e\\x20\\x22]" (substr 7 -1 $issuer) -}}
{{- $_ := set $out "issuer" (trunc (sub (len $name) 2 | int) $name) -}}
{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{- /* true while more than a third of the lifetime of a certificate is left; the input is the output of qm.certificate. */ -}}
{{- define "qm.inTime" -}}
{{- if .until -}}
{{- $left := sub (int64 .until) (now | unixEpoch | int64) -}}
{{- if gt (mul 3 $left) (sub (int64 .until) (int64 .from)) -}}true{{- end -}}
{{- end -}}
{{- end -}}
