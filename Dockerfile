# Image of a Kraal worker: docker build -t kraal . (see docs/deploy/container.md)
# BASE must be Debian 12; Python 3.11 and OpenJDK 17 are installed from its packages.
ARG BASE=debian:bookworm-slim

# --- A Java runtime with the modules that workers use -----------------------------------------------------------------
FROM ${BASE} AS java
# Java's packages create links to manual pages in this directory, which slim base images lack.
RUN mkdir --parents /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jdk-headless \
    && rm -rf /var/lib/apt/lists/*
COPY deploy/image/jlink.args /tmp/
# The certificates are those of the system. File times are set to full seconds, the precision of image layers, because
# class archives contain the times of their files. jlink does not create the archive of Java's own classes, on which the
# archive of Spark's classes is based.
RUN jlink @/tmp/jlink.args --output /opt/java \
    && cp --dereference /etc/ssl/certs/java/cacerts /opt/java/lib/security/cacerts \
    && find /opt/java -exec touch --no-dereference --date=@1767225600 {} + \
    && /opt/java/bin/java -XX:SharedArchiveFile=/opt/java/lib/server/classes.jsa -Xshare:dump

# --- Kraal, its packages and jars -------------------------------------------------------------------------------------
FROM ${BASE} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils ca-certificates python3-venv \
    && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/kraal/bin:$PATH JAVA_HOME=/opt/java KRAAL_CACHE=/opt/kraal/cache \
    PIP_CERT=/etc/ssl/certs/ca-certificates.crt PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# PySpark is published only as source; it is built with the locked build tools, which are removed afterwards.
COPY requirements-build.lock requirements-worker.lock /src/
RUN python3 -m venv /opt/kraal \
    && pip install --require-hashes -r /src/requirements-build.lock \
    && pip install --require-hashes --no-build-isolation -r /src/requirements-worker.lock
COPY deploy/image/slim.txt scripts/image/slim.py /src/
RUN python3 /src/slim.py /src/slim.txt /opt/kraal/lib/python3.11/site-packages
COPY pyproject.toml README.md LICENSE NOTICE /src/kraal/
COPY actors /src/kraal/actors
COPY java /src/kraal/java
COPY web /src/kraal/web
COPY kraal /src/kraal/kraal
COPY --from=java /opt/java /opt/java
COPY deploy/image/health.py /opt/kraal/libexec/
# File times are set to full seconds here as well. Bytecode is compiled now, because no process can write it later; it is
# valid regardless of the times of its source files.
RUN pip install --no-build-isolation --no-deps /src/kraal \
    && pip uninstall --quiet --yes --requirement /src/requirements-build.lock \
    && kraal jars spark plugins compiler \
    && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash -x '/pip/' /opt/kraal/lib \
    && find /opt/kraal -exec touch --no-dereference --date=@1767225600 {} +

# --- The image --------------------------------------------------------------------------------------------------------
FROM ${BASE}
# tini reaps orphaned processes of Spark, as the first process of a container must.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 tini \
    && apt-get clean \
    && rm -rf /var/lib/apt/lists/* /var/cache/debconf/*-old /var/log/* \
    && groupadd --gid 10001 kraal \
    && useradd --uid 10001 --gid 10001 --home-dir /var/lib/kraal --no-create-home --shell /usr/sbin/nologin kraal \
    && install --directory --owner=10001 --group=0 --mode=0770 /var/lib/kraal \
    && install --directory /etc/kraal
COPY --from=java /opt/java /opt/java
COPY --from=build /opt/kraal /opt/kraal
ENV PATH=/opt/kraal/bin:/opt/java/bin:$PATH JAVA_HOME=/opt/java LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 \
    KRAAL_CACHE=/opt/kraal/cache KRAAL_STATE=/var/lib/kraal
# Compile the classes for Java plugins, and create the archive of Spark's classes, which is valid only for these files.
RUN kraal prepare --java-plugins && rm -r /tmp/hsperfdata_root
# Plugins to install, separated by spaces: --build-arg PLUGINS="org.postgresql:postgresql:42.7.14"
ARG PLUGINS=""
# hadolint ignore=SC2086
RUN if [ -n "$PLUGINS" ]; then kraal plugins add --lock /opt/kraal/plugins.lock $PLUGINS; fi

USER 10001:10001
WORKDIR /var/lib/kraal
VOLUME /var/lib/kraal
EXPOSE 8083
STOPSIGNAL SIGTERM
# Set KRAAL_HEALTH_URL for other listeners. Kubernetes ignores this health check.
HEALTHCHECK --interval=10s --timeout=10s --start-period=60s CMD ["python3", "-S", "-I", "/opt/kraal/libexec/health.py"]
ENTRYPOINT ["tini", "--", "kraal"]
CMD ["distributed", "/etc/kraal/worker.properties"]
