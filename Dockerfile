# The image of Punctual: one static binary, without a shell and without a distribution.
#
#   docker build --tag punctual:latest .
#   docker run --read-only --cap-drop ALL -p 8080:8080 -v punctual:/var/lib/punctual punctual:latest
#
# The build is pinned by the lock file and the toolchain: the same sources give the same binary.
# `tests/run image` builds the final stage from a binary of the tests and runs it.

FROM docker.io/library/rust:1.95.0-slim-bookworm AS builder
WORKDIR /build
COPY . .
# Statically linked, including the name resolver, so that the final stage needs no libraries.
RUN host=$(rustc --version --verbose | sed -n 's/^host: //p') && \
    RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --locked --profile dist --bin punctual --target "$host" && \
    install -D "target/$host/dist/punctual" /image/punctual && \
    install -d /image/data && \
    size=$(stat -c %s /image/punctual) && \
    { [ "$size" -le 40000000 ] || { echo "the binary has $size bytes; the limit is 40000000" >&2; exit 1; }; }

FROM scratch
COPY --from=builder --chmod=755 /image/punctual /usr/local/bin/punctual
# The folder of the store on a single machine. Replicas of a cluster write no files.
COPY --from=builder --chown=65532:65532 /image/data /var/lib/punctual
ENV PATH=/usr/local/bin \
    PUNCTUAL_DATA_DIR=/var/lib/punctual \
    PUNCTUAL_HTTP_LISTEN=0.0.0.0:8080 \
    PUNCTUAL_OPS_LISTEN=0.0.0.0:8081 \
    PUNCTUAL_LOG_FORMAT=json
# Any user works if it can write to the volume.
USER 65532:65532
VOLUME /var/lib/punctual
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s \
    CMD ["/usr/local/bin/punctual", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/punctual"]
CMD ["serve"]
