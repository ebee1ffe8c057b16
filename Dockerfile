# An image with the command and the libraries, but without the Python module:
#
#   docker build -t corun . && docker run --rm -v "$PWD":/work corun --policy=greedy trace.json
#
# tests/fresh_machine.sh runs the RUN lines on a Debian 12 that has nothing else on it.
FROM debian:12
COPY . /root/corun
WORKDIR /root/corun
RUN apt-get update && apt-get install -y --no-install-recommends make git
RUN make install PREFIX=/usr/local
RUN sim compare --duration=10ms traces/h200/examples/realtime-resnet50-beside-resnet152.json
WORKDIR /work
ENTRYPOINT ["sim"]
