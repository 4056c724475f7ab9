# One image for everything that runs in production: worker, migration, deploy, Prefect server.
# compose.yaml and docs/kubernetes.md say how. tests/install/ runs these very commands.
FROM python:3.13-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml requirements.lock README.md prefect.yaml ./
COPY deployments deployments/
COPY flows flows/
COPY provisioning provisioning/
COPY tasks tasks/
# uv as the lock names it, then what the lock names for [sweep], each checked against its hashes.
RUN sed -n '/^uv==/,/[^\\]$/p' requirements.lock >uv.txt \
 && pip install --no-cache-dir --require-hashes -r uv.txt \
 && uv venv /opt/provision-reaper \
 && uv pip install --no-cache --compile-bytecode --python /opt/provision-reaper/bin/python \
      --constraints requirements.lock --build-constraints requirements.lock '.[sweep]'

FROM python:3.13-slim-bookworm
RUN useradd --uid 10001 --create-home reaper
COPY --from=build /opt/provision-reaper /opt/provision-reaper
ENV PATH=/opt/provision-reaper/bin:$PATH \
    DO_NOT_TRACK=1 \
    PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/reaper
CMD ["prefect", "worker", "start", "--pool", "provisioning", "--type", "process", "--with-healthcheck"]
# 503, and so unhealthy, when the worker has not been able to ask the Prefect server for a while.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s \
  CMD ["python", "-c", "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8080/health', timeout=5).read())"]
