# One target per program; each image contains the program, its shared libraries, an SBOM of both (/usr/share/sbom),
# and no shell.
#
#   docker build --target qm-admission -t quartermaster/qm-admission .
#   docker build --target quartermaster -t quartermaster/quartermaster .      all programs in one image
#
# BASE is a Debian 12 with apt; NAME@sha256:... pins it (docs/install.md). BINARIES=given uses build/images, which
# tools/images.sh prepares from programs that were built outside, instead of compiling here.
ARG BASE=docker.io/library/debian:bookworm-slim
ARG BINARIES=built

FROM ${BASE} AS built
WORKDIR /src
COPY . .
RUN ./qm setup && ./qm build product && tools/images.sh layout /out

FROM scratch AS given
COPY build/images /out

FROM ${BINARIES} AS binaries

FROM scratch AS base
USER 65532:65532
ENV PATH=/usr/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt QM_LOG_FORMAT=json
WORKDIR /var/lib/quartermaster

FROM base AS qm-admission
COPY --from=binaries /out/qm-admission /
ENTRYPOINT ["/usr/bin/qm-admission"]

FROM base AS qm-placement
COPY --from=binaries /out/qm-placement /
ENTRYPOINT ["/usr/bin/qm-placement"]

FROM base AS qm-autoscaler
COPY --from=binaries /out/qm-autoscaler /
ENTRYPOINT ["/usr/bin/qm-autoscaler"]

FROM base AS qm-telemetry
COPY --from=binaries /out/qm-telemetry /
ENTRYPOINT ["/usr/bin/qm-telemetry"]

FROM base AS qm-cost
COPY --from=binaries /out/qm-cost /
ENTRYPOINT ["/usr/bin/qm-cost"]

FROM base AS qm-agent
COPY --from=binaries /out/qm-agent /
ENTRYPOINT ["/usr/bin/qm-agent"]

FROM base AS qmctl
COPY --from=binaries /out/qmctl /
ENTRYPOINT ["/usr/bin/qmctl"]

FROM base AS qm-fleet
COPY --from=binaries /out/qm-fleet /
COPY --from=binaries --chown=65532:65532 /out/qm-fleet/var/lib/quartermaster /var/lib/fleet
ENTRYPOINT ["/usr/bin/qm-fleet"]

FROM base AS quartermaster
COPY --from=binaries /out/quartermaster /
