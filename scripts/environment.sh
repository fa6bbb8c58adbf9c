# Sourced by the other scripts: virtual environments beside the code, made once for each state of pyproject.toml down to the
# settings of tools.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

say() { printf '\n== %s\n' "$*" >&2; }

# find_python VERSION...: the first of these Pythons that starts; prints its path
find_python() {
    local version candidate
    for version in "$@"; do
        for candidate in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python; do
            if candidate=$(command -v "$candidate") && "$candidate" -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null; then
                printf '%s\n' "$candidate"
                return 0
            fi
        done
    done
    return 1
}

# environment NAME PYTHON REQUIREMENT...: makes .venv/NAME unless it is there already for these requirements
environment() {
    local python=$2 folder=".venv/$1" stamp wanted
    shift 2
    stamp="$folder/requirements.sha256"
    wanted=$({ "$python" --version; printf '%s\n' "$@"; sed '/^\[tool\.pytest/,$d' pyproject.toml; } | sha256sum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
        return 0
    fi
    say "making the environment $folder: downloads and installs packages, takes minutes"
    rm -rf "$folder"
    "$python" -m venv "$folder" || { echo "cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; return 2; }
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || return 2
    printf '%s' "$wanted" > "$stamp"
}
