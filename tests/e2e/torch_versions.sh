#!/bin/sh
# Makes the environments of test_torch_versions.py: build/torch-VERSION each, a few GB and minutes.
#   sh tests/e2e/torch_versions.sh [VERSION...]
set -e
cd "$(dirname "$0")/../.."
for version in ${*:-2.1.2 2.4.1}; do
  folder=build/torch-$version
  [ -x "$folder/bin/python" ] || ${PYTHON:-python3.11} -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet "torch==$version" "numpy<2" packaging
done
