#!/bin/sh
# Makes a virtual environment with pip in it, or says in one line what is missing.
#   make_venv.sh PYTHON FOLDER      leaves a working environment as it is
set -eu
python=$1
folder=$2

complain() {
    echo "make_venv: $*" >&2
    exit 1
}

[ -n "$python" ] || complain "no Python 3.10 or newer on the PATH; install one, or name it: make PYTHON=/path/to/python3 …"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    complain "$python does not run, or is older than Python 3.10; name another: make PYTHON=/path/to/python3 …"

"$folder/bin/python" -m pip --version >/dev/null 2>&1 && exit 0

# Debian and Ubuntu keep ensurepip in a package of its own.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "make_venv: installing $package, without which $python makes no virtual environment"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends "$package"; } \
            </dev/null >/dev/null || complain "apt-get could not install $package"
    else
        complain "$python has no ensurepip; as root: apt-get install $package (or your system's like)"
    fi
fi
"$python" -m venv --clear "$folder"
