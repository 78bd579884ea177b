#!/bin/sh
# Installs promtool, Prometheus, amtool, Alertmanager, nginx and logrotate, which some tests run, as Debian
# packages.
# Starts none of them. Where it may not install, it says how and lets the caller go on; with CI set
# (to anything) a missing program is an error.
set -eu

missing() {
    for program in promtool prometheus amtool; do
        command -v "$program" >/dev/null || printf '%s ' "$program"
    done
    command -v alertmanager >/dev/null || command -v prometheus-alertmanager >/dev/null || printf 'alertmanager '
    command -v nginx >/dev/null || [ -x /usr/sbin/nginx ] || printf 'nginx '
    command -v logrotate >/dev/null || [ -x /usr/sbin/logrotate ] || printf 'logrotate '
}

lacking=$(missing)
[ -n "$lacking" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "install_prometheus: installing ${lacking}with apt-get"
    # Debian starts a service as it installs it, unless this program forbids it.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        trap 'exit 1' INT TERM
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends prometheus prometheus-alertmanager nginx-light logrotate; } \
        </dev/null >/dev/null || echo "install_prometheus: apt-get failed; its own words are above" >&2
    lacking=$(missing)
    [ -n "$lacking" ] || exit 0
fi

echo "install_prometheus: missing: ${lacking}— the tests that need them will not run. To have them:" >&2
echo "  as root on Debian or Ubuntu: apt-get install prometheus prometheus-alertmanager nginx-light logrotate" >&2
echo "  elsewhere: put nginx, logrotate and the programs of Prometheus's and Alertmanager's releases on the PATH" >&2
[ -z "${CI:-}" ]
