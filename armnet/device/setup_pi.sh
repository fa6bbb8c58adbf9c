#!/usr/bin/env bash
# Run by `armnet setup pi`, on a Raspberry Pi or any Debian: installs Python, NumPy on OpenBLAS, and Pillow.
# 32-bit systems get NumPy from here too: PyPI has no wheels for them.
#   --tests      also what `armnet device test` needs
#   --list       prints the packages, installs nothing
set -euo pipefail

packages=(python3 python3-numpy libopenblas0-pthread python3-pil)
list=no
for word in "$@"; do
    case $word in
        --tests) packages+=(python3-pytest) ;;
        --list) list=yes ;;
        *) echo "armnet setup pi: unknown option $word; there are --tests and --list" >&2; exit 2 ;;
    esac
done
if [ $list = yes ]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi
command -v apt-get >/dev/null || { echo "armnet setup pi: this system has no apt-get; it needs ${packages[*]}" >&2; exit 2; }

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
# apt may not read the standard input: it can be this script.
"${as_root[@]}" apt-get update </dev/null
"${as_root[@]}" apt-get install --yes --no-install-recommends "${packages[@]}" </dev/null

python3 - <<'PROGRAM'
import platform
import sys

import numpy

numpy.ones((2, 2)) @ numpy.ones((2, 2))
with open("/proc/self/maps") as maps:
    blas = "OpenBLAS" if "openblas" in maps.read() else "a BLAS that is not OpenBLAS, so slow"
print("Python %s, NumPy %s on %s, %s" % (platform.python_version(), numpy.__version__, blas, platform.machine()))
if sys.version_info < (3, 9):
    sys.exit("armnet setup pi: this system's Python is too old; armnet needs 3.9, Raspberry Pi OS 11 (bullseye) or newer")
PROGRAM
echo "From the workstation: armnet device doctor ssh://$(id -un)@$(hostname)"
