# The recorder and its tools, for `accelprof daemon` (docs/kubernetes/daemonset.yaml) and for reading
# runs. To record a job that runs in a container of its own, install accelprof in the job's image:
#   RUN pip install accelprof
FROM python:3.13-slim AS build
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/accelprof-*.whl)[metrics,otlp,tpu]" && rm -r /wheels
# A volume, readable to its owner alone.
ENV ACCELPROF_HOME=/data
VOLUME /data
ENTRYPOINT ["accelprof"]
CMD ["--help"]
