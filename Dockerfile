# tx8 in a container, for systems other than Linux and for automatic tests:
#
#     docker build -t tx8 .
#     docker run --rm -v "$PWD:/data" tx8 tx8cc model.onnx --run
FROM python:3.13-slim

WORKDIR /tx8
COPY . .
RUN pip install --no-cache-dir -c constraints.txt . && tx8emu --version

# Compiled kernels are kept as long as the container; a volume there keeps them longer.
ENV TX8_CACHE_DIR=/var/tmp/tx8
WORKDIR /data
CMD ["python", "-m", "tx8"]
