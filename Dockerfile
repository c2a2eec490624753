# unlearnbench without a GPU: docker build -t unlearnbench . && docker run --rm unlearnbench ls
FROM python:3.11-slim
# The index of torch's builds without CUDA, as torch's page of installation names it; without it gigabytes more.
ARG TORCH_INDEX=""
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY unlearnbench unlearnbench
COPY plugins plugins
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN version="$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' constraints.txt)" \
    && python -m pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "torch==$version" \
    && python -m pip install --constraint constraints.txt ".[metis,report]" \
    && rm -rf /source/build
RUN useradd --create-home bench
USER bench
WORKDIR /home/bench
# Mount a folder here to keep records: docker run --rm -v "$PWD/runs:/home/bench/runs" unlearnbench run --methods sisa
VOLUME /home/bench/runs
ENTRYPOINT ["unlearnbench"]
CMD ["--help"]
