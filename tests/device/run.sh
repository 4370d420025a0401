#!/usr/bin/env bash
# Compares every metric with nvidia-smi on a machine with an NVIDIA GPU, and with torch the device time
# of spans with what a loop is made to do; about two minutes.
#   tests/device/run.sh [OUT_FOLDER]
# PYTHON names an interpreter with accelprof installed; with torch (CUDA) in it the GPU is put under
# load. Prints tables, writes them to OUT_FOLDER too; exit 1 when a reading disagrees, 77 without GPU.
set -u
cd "$(dirname "$0")/../.."
out=${1:-${OUT:-/tmp/accelprof-device}}
python=${PYTHON:-python3}
mkdir -p "$out"
if ! command -v nvidia-smi >/dev/null || ! nvidia-smi -L >"$out/nvidia-smi-L.txt" 2>&1; then
    echo "no NVIDIA GPU here: skipped" >&2
    exit 77
fi
nvidia-smi -q >"$out/nvidia-smi-q.txt" 2>&1
"$python" -m accelprof devices | tee "$out/devices.txt"
"$python" -m accelprof devices --json >"$out/devices.json"
"$python" tests/device/compare.py "$out" 2>&1 | tee "$out/compare.txt"
status=${PIPESTATUS[0]}
if "$python" -c 'import torch; exit(not torch.cuda.is_available())' 2>/dev/null; then
    "$python" tests/device/device_time.py "$out" 2>&1 | tee "$out/device_time.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
fi
exit "$status"
