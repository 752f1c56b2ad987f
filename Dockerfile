# kvtool without torch: it lints, profiles and checks what is mounted on /work, as a user without rights. docs/ci.md says how to run it.
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS build
COPY . /source
RUN python -m venv /opt/kvtool && /opt/kvtool/bin/pip install --no-cache-dir --disable-pip-version-check /source

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
COPY --from=build /opt/kvtool /opt/kvtool
RUN useradd --create-home --uid 10001 kvtool
USER kvtool
# Made now, not at each start: the built-in tokenizer in the form in which it loads.
RUN /opt/kvtool/bin/kvtool doctor --fix
WORKDIR /work
# -I: no module of the mounted folder is imported.
ENTRYPOINT ["/opt/kvtool/bin/python", "-I", "-m", "kvtool"]
CMD ["--help"]
