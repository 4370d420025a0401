#!/usr/bin/env bash
# Compares every metric with nvidia-smi on a machine with an NVIDIA GPU, and with torch the device time
# of spans with what a loop is made to do; about two minutes, nine at the most.
#   tests/device/run.sh [OUT_FOLDER]
# PYTHON names an interpreter with accelprof's requirements; with torch (CUDA) in it the GPU is put
# under load. Nothing is installed or fetched. Prints tables, writes them to OUT_FOLDER too; exit 1
# when a reading disagrees, 2 when accelprof does not start, 77 without GPU.
set -u
cd "$(dirname "$0")/../.."
out=${1:-${OUT:-/tmp/accelprof-device}}
python=${PYTHON:-python3}
export PYTHONUNBUFFERED=1 # what it had said stays when its time runs out
mkdir -p "$out"
if ! command -v nvidia-smi >/dev/null || ! timeout 60 nvidia-smi -L >"$out/nvidia-smi-L.txt" 2>&1; then
    echo "no NVIDIA GPU here: skipped" >&2
    exit 77
fi
if ! "$python" -c 'import accelprof' 2>/dev/null; then # from this folder, under its name
    site=$(mktemp -d)
    trap 'rm -rf "$site"' EXIT
    ln -s "$PWD" "$site/accelprof"
    export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
fi
if ! why=$("$python" -c 'import accelprof.storage.writer, accelprof.profiler.collectors.nvml_sampling, typer, pynvml' 2>&1); then
    echo "accelprof does not start: ${why##*$'\n'}" >&2
    exit 2
fi
timeout 60 nvidia-smi -q >"$out/nvidia-smi-q.txt" 2>&1
timeout 60 "$python" -m accelprof devices | tee "$out/devices.txt"
timeout 60 "$python" -m accelprof devices --json >"$out/devices.json"
timeout 240 "$python" tests/device/compare.py "$out" 2>&1 | tee "$out/compare.txt"
status=${PIPESTATUS[0]}
if timeout 60 "$python" -c 'import torch; exit(not torch.cuda.is_available())' 2>/dev/null; then
    timeout 180 "$python" tests/device/device_time.py "$out" 2>&1 | tee "$out/device_time.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
fi
exit "$status"
