#!/usr/bin/env bash
# Run by `armnet setup termux`, in Termux (from F-Droid) on an Android phone: installs Python, NumPy and Pillow, and
# starts the ssh server.
#   --tests      also what `armnet device test` needs
#   --list       prints the packages, installs nothing
set -euo pipefail

packages=(python python-numpy python-pillow openssh)
tests=no list=no
for word in "$@"; do
    case $word in
        --tests) tests=yes ;;
        --list) list=yes ;;
        *) echo "armnet setup termux: unknown option $word; there are --tests and --list" >&2; exit 2 ;;
    esac
done
if [ $list = yes ]; then
    printf '%s\n' "${packages[@]}"
    exit 0
fi
case ${PREFIX:-} in
    */com.termux/*) ;;
    *) echo "armnet setup termux: this is not Termux; name the phone, ssh://USER@ADDRESS:8022" >&2; exit 2 ;;
esac

# Nothing may read the standard input: it can be this script.
pkg install --yes "${packages[@]}" </dev/null
[ $tests = no ] || python -m pip install --quiet pytest </dev/null

python -c 'import platform, numpy; print("Python", platform.python_version(), "NumPy", numpy.__version__)' </dev/null
pgrep sshd >/dev/null </dev/null || sshd </dev/null
mkdir -p ~/.ssh
chmod 700 ~/.ssh
[ -s ~/.ssh/authorized_keys ] || echo "No key may log in yet: set a password with passwd, then ssh-copy-id -p 8022 $(whoami)@ADDRESS"
echo "From the workstation: armnet device doctor ssh://$(whoami)@ADDRESS:8022  (ADDRESS: see ifconfig; keep it awake: termux-wake-lock)"
